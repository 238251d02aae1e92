#pragma once

/// @file
/// The layer that a CUDA kernel of any family computes, and the limits of a launch. Both are known
/// before there is text.

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "base/refusal.hpp"
#include "plan/operation.hpp"
#include "spjit/convolution.hpp"
#include "spjit/epilogue.hpp"
#include "spjit/layout.hpp"

namespace spjit {

/// Blocks of a grid in y, and threads a block: CUDA C++ Programming Guide, "Technical
/// Specifications per Compute Capability".
inline constexpr std::int64_t k_cuda_max_grid_y = 65535;
/// Products of a launch (the grid's z); a batch of more is several launches.
inline constexpr std::int64_t k_cuda_max_grid_z = 65535;
inline constexpr std::int64_t k_cuda_max_threads = 1024;
/// Row strides in bytes are 32-bit factors of the code.
inline constexpr std::int64_t k_cuda_max_leading_dimension = (std::int64_t{1} << 30) - 1;
/// Rows of B and of C: what the numbers of a matrix's rows and columns can be.
inline constexpr std::int64_t k_cuda_max_rows = std::numeric_limits<std::int32_t>::max();
/// So the bytes from the first to any element fit 63 bits; no emitter or launch has to look.
static_assert(k_cuda_max_rows <= std::numeric_limits<std::int64_t>::max() /
                                     (k_cuda_max_leading_dimension * std::int64_t{sizeof(float)}));
/// Threads of a warp, on every architecture.
inline constexpr std::int64_t k_cuda_warp = 32;
/// Shared memory that a block of every launch may have (CUDA C++ Programming Guide, "Shared Memory"
/// of the compute capabilities); more has to be allowed first.
inline constexpr std::int64_t k_cuda_shared_bytes = 48 << 10;

/// The work of a kernel beside the product, and which of it only a run knows.
struct CudaLayer {
  Epilogue epilogue = {};
  Layout b_layout = Layout::row_major;  ///< or tokens-major, like that of C
  Layout c_layout = Layout::row_major;
  bool runtime_values = false;  ///< A's values are what a run brings
  /// B is patches of an image, which lies as b_layout says.
  std::optional<Convolution> convolution = {};

  [[nodiscard]] const OperationRules& rules() const { return rules_of(convolution); }
  [[nodiscard]] OperationSizes sizes(std::int64_t cols, std::int64_t n) const noexcept {
    return sizes_of(cols, n, convolution);
  }
  /// B is [n x k], and no image.
  [[nodiscard]] bool has_tokens_of_b() const noexcept {
    return b_layout == Layout::tokens_major && !rules().gathers_b();
  }
  /// B is [k x n], and no image.
  [[nodiscard]] bool has_rows_of_b() const noexcept { return rules().has_rows_of_b(b_layout); }
  [[nodiscard]] bool has_tokens_of_c() const noexcept { return c_layout == Layout::tokens_major; }
  [[nodiscard]] bool has_tokens() const noexcept { return has_tokens_of_b() || has_tokens_of_c(); }

  friend bool operator==(const CudaLayer&, const CudaLayer&) = default;
};

/// The sizes of B (or X): [cols x n], or channels and pixels of the image.
[[nodiscard]] std::int64_t b_rows(const CudaLayer& layer, std::int64_t cols) noexcept;
[[nodiscard]] std::int64_t b_columns(const CudaLayer& layer, std::int64_t n) noexcept;

/// Sizes of a product with a layer.
struct LayerSizes {
  std::int64_t cols;  ///< of A
  std::int64_t n;
  std::int64_t ldb;
};
/// Whether they are those of the layer's convolution, if it has one.
[[nodiscard]] Refusal wrong_image(const CudaLayer& layer, const LayerSizes& sizes);

}  // namespace spjit
