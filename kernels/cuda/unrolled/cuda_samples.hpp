#pragma once

/// @file
/// Timed tiles of GPUs, as lines of JSON.

#include <string>
#include <string_view>

#include "kernels/cuda/unrolled/cuda_candidate.hpp"
#include "kernels/tuning/tile_samples.hpp"
#include "runtime/cuda/cuda_device_info.hpp"

namespace spjit {

/// SampleLine::family, the name of cuda_feature_schema().
inline constexpr const char* k_cuda_samples = "cuda";

/// Tiles of plain products: no layer, rows of B and C without gaps.
using CudaSample = TileSample<CudaCandidate>;
using CudaSampleGroup = SampleGroup<CudaCandidate, CudaDeviceInfo>;

/// The group as a line, and the other way. Reading throws Error that says what is wrong with it.
[[nodiscard]] SampleLine to_line(const CudaSampleGroup& group);
[[nodiscard]] CudaSampleGroup cuda_samples_of(const SampleLine& line);

/// One line of text, without the newline.
[[nodiscard]] std::string write_samples(const CudaSampleGroup& group);
[[nodiscard]] CudaSampleGroup read_cuda_samples(std::string_view text);

}  // namespace spjit
