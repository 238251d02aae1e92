#pragma once

/// @file
/// The options that more than one family of CUDA kernels looks at.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kernels/cuda/code/cuda_layer.hpp"
#include "plan/search_policy.hpp"

namespace spjit {

/// Which of the two texts of a CUDA kernel becomes the cubin. Both give the same bits.
enum class CudaSource : std::uint8_t {
  ptx,   ///< through nvJitLink: fast to compile
  cuda,  ///< through NVRTC
};

inline constexpr std::array<std::string_view, 2> k_cuda_sources = {"ptx", "cuda"};

[[nodiscard]] constexpr std::string_view to_string(CudaSource source) noexcept {
  return k_cuda_sources[static_cast<std::size_t>(source)];
}

/// The text that becomes the code.
inline constexpr NamedOption k_source_option = {
    .name = "source", .fallback = "ptx", .texts = k_cuda_sources};

/// A tile of unrolled code, which is for no other family then. Of more rows, accumulators leave no
/// registers for B (LO-SpMM searches up to 128).
inline constexpr NamedOption k_m1_option = {.name = "m1", .least = 1, .most = 128};
inline constexpr NamedOption k_n1_option = {
    .name = "n1", .least = k_cuda_warp, .most = k_cuda_max_threads, .step = k_cuda_warp};

/// The text that an option names. Precondition: the policy is checked.
[[nodiscard]] inline CudaSource source_of(const SearchPolicy& policy, const NamedOption& option) {
  return text_of(policy, option) == "cuda" ? CudaSource::cuda : CudaSource::ptx;
}

}  // namespace spjit
