#pragma once

/// @file
/// The JSON record of a kernel: what was compiled, what was chosen and why.

#include <nlohmann/json.hpp>

#include "compiler/pipeline.hpp"
#include "runtime/host/host_device_info.hpp"
#include "spjit/compiler.hpp"
#include "spjit/kernel.hpp"

namespace spjit {

/// docs/cache-format.md lists the members. Throws what `cancel` throws soon after it is reached.
[[nodiscard]] nlohmann::json make_record(const CsrMatrix& matrix, const CompileOptions& options,
                                         const HostDeviceInfo& limits,
                                         const CompiledArtifact& compiled,
                                         const Cancellation& cancel = {});

/// Fills the members of `info` that only the record knows. A record that lacks them leaves them.
void apply_record(const nlohmann::json& record, KernelInfo& info);

[[nodiscard]] nlohmann::json matrix_json(const CsrMatrix& matrix, const Cancellation& cancel = {});
[[nodiscard]] nlohmann::json to_json(const HostTile& tile);
[[nodiscard]] nlohmann::json to_json(const GroupingStatistics& grouping);
[[nodiscard]] nlohmann::json to_json(const TileSpace& space);

}  // namespace spjit
