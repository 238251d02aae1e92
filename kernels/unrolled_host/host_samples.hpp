#pragma once

/// @file
/// Measured tiles: what rank models of the host are trained on, as lines of JSON.

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/unrolled_host/host_prior.hpp"
#include "kernels/unrolled_host/tile_space.hpp"
#include "runtime/host/host_device_info.hpp"

namespace spjit {

/// One tile and its time.
struct HostSample {
  TileCandidate candidate;  ///< `grouping`: as EstimatedGrouping gives it
  double us = 0;            ///< median time of a run; 0: it failed
  double noise = 0;         ///< share of the median
  std::int64_t samples = 0;
  bool confirmed = false;  ///< `us` is the middle one of several loads, not that of one
};

/// All tiles that the rules leave for one matrix, n, number of threads and device: what a ranking
/// is about.
struct HostSampleGroup {
  std::string name;       ///< says which matrix, n, threads and instruction set; unique in a file
  nlohmann::json recipe;  ///< how to get the matrix: a generator's options, or a file's name
  HostDeviceInfo limits;  ///< the device
  Workload work;          ///< the matrix
  std::vector<HostSample> samples;
  double seconds = 0;  ///< that measuring took
};

/// The line's `schema`.
inline constexpr const char* k_host_samples_schema = "spjit-host-samples-2";

/// One line, without the newline. rankmodel/data/README.md lists the members.
[[nodiscard]] std::string write_samples(const HostSampleGroup& group);

/// Throws Error that says what is wrong with the line.
[[nodiscard]] HostSampleGroup read_samples(std::string_view line);

}  // namespace spjit
