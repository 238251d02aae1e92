#pragma once

/// @file
/// Measured tiles of the host, as lines of JSON.

#include <string>
#include <string_view>

#include "kernels/host/unrolled/tile_space.hpp"
#include "kernels/tuning/tile_samples.hpp"
#include "runtime/host/host_device_info.hpp"

namespace spjit {

/// SampleLine::family, the name of host_feature_schema().
inline constexpr const char* k_host_samples = "host";

using HostSample = TileSample<TileCandidate>;  ///< `grouping`: as EstimatedGrouping gives it
using HostSampleGroup = SampleGroup<TileCandidate, HostDeviceInfo>;

/// The group as a line, and the other way. Reading throws Error that says what is wrong with it.
[[nodiscard]] SampleLine to_line(const HostSampleGroup& group);
[[nodiscard]] HostSampleGroup host_samples_of(const SampleLine& line);

/// One line of text, without the newline.
[[nodiscard]] std::string write_samples(const HostSampleGroup& group);
[[nodiscard]] HostSampleGroup read_host_samples(std::string_view text);

}  // namespace spjit
