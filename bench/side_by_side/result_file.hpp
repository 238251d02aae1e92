#pragma once

/// @file
/// The result as a file, schema "spjit-side-by-side-1". bench/README.md documents it.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/host_cpu.hpp"
#include "bench/side_by_side/measure_case.hpp"
#include "bench/side_by_side/peer.hpp"
#include "runtime/cuda/local_gpus.hpp"
#include "spjit/target.hpp"

namespace spjit::side_by_side {

/// A document's `device`. `load_average` is of the minute before the run.
[[nodiscard]] nlohmann::json host_device(const HostCpu& cpu, const Target& target,
                                         double load_average);
/// Of kind "emulated" in a rehearsal.
[[nodiscard]] nlohmann::json cuda_device(const LocalGpu& device, double load_average,
                                         bool rehearsal);

/// Bandwidths and the peak of one core, measured now. [GFLOP/s, GB/s] Takes about 0.3 s.
[[nodiscard]] nlohmann::json measure_roofline(const HostCpu& cpu, HostIsa isa);

/// A document without cases.
[[nodiscard]] nlohmann::json new_document(const std::string& command, const nlohmann::json& device,
                                          const std::vector<PeerInfo>& peers);

/// The document in `file`, which `document`, without cases yet, is to go on with; `document` itself
/// if there is no such file. Throws IoError for a file of another schema, Error for one of another
/// machine or of other libraries.
[[nodiscard]] nlohmann::json earlier_document(const std::filesystem::path& file,
                                              const nlohmann::json& document);

/// The name of a case in a document.
struct CaseName {
  std::string set;
  std::string matrix;
  std::int64_t n = 0;
  int threads = 1;
};

[[nodiscard]] bool has_case(const nlohmann::json& document, const CaseName& name);

[[nodiscard]] nlohmann::json to_json(const CaseResult& result);

}  // namespace spjit::side_by_side
