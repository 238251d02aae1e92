#pragma once

/// @file
/// Members of a kernel's record that every family has (docs/design/cache-format.md).

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "kernels/kernel_family.hpp"
#include "reorder/row_grouping.hpp"
#include "spjit/kernel_info.hpp"

namespace spjit {

/// The family that a record names. Throws Error for what is no record of a kernel.
[[nodiscard]] std::string family_in(const nlohmann::json& record);

/// The beginning of the record of a cache entry that is code of many kernels; and whether a record
/// has it.
[[nodiscard]] nlohmann::json code_record();
[[nodiscard]] bool is_code_record(const nlohmann::json& record);

/// Fills the members of `info` that only the record knows: device, tile, reason, note. A record
/// that lacks them leaves them.
void apply_record(const nlohmann::json& record, KernelInfo& info);

/// The member "files", by name: names, sizes and checksums, as in a cache record.
[[nodiscard]] nlohmann::json files_json(const std::vector<Artifact::File>& files);

/// Throws Error unless the files that the record lists are those that it was written with, as far
/// as they are there, or the family takes others in their place.
void require_own_files(const KernelFamily& family, const nlohmann::json& record,
                       const std::vector<Artifact::File>& files);

/// The member "grouping" of families with row tiles.
[[nodiscard]] nlohmann::json to_json(const GroupingStatistics& grouping);

}  // namespace spjit
