#pragma once

/// @file
/// Rows of B in memory, also of a B that is patches of an image (Convolution) and is never made.
/// Each element is at a constant offset from a thread's pointer. Where padding is, a thread has +0
/// instead.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/refusal.hpp"
#include "kernels/cuda/code/ptx_text.hpp"
#include "kernels/cuda/code/source_text.hpp"
#include "kernels/cuda/unrolled/cuda_tile.hpp"

namespace spjit {

/// Whether code for a convolution as kernels see it (checked_problem()) can be emitted.
[[nodiscard]] Refusal convolution_refusal(const Convolution& convolution, bool runtime_sizes);

/// Whether A of so many columns, n and ldb are those of a layer's convolution, if it has one.
[[nodiscard]] Refusal wrong_patches(const CudaLayer& layer, const LayerSizes& sizes,
                                    bool runtime_sizes);

/// Instructions that predicates of loads take, of so many loads in so many functions: an estimate
/// from what ptxas 13.0 makes of 3x3 and of 7x7 taps.
[[nodiscard]] std::int64_t mask_instructions(const CudaLayer& layer, std::int64_t loads,
                                             std::int64_t functions) noexcept;

/// Registers in which elements of B of one tap each lie (CudaPatches); 0: they share one.
[[nodiscard]] std::int64_t kept_taps(const CudaLayer& layer) noexcept;
/// Words of a thread's mask, which are arguments of tile functions.
[[nodiscard]] std::int64_t mask_words(const CudaLayer& layer) noexcept;

/// The loads of B of one kernel, in PTX and in CUDA C++.
///
/// Thread j = (p, q) of a convolution has the pointer
///
///     X + (p * stride_height - pad_top) * width + q * stride_width - pad_left    (NCHW; of NHWC
///                                                                            times ldb)
///
/// which may lie before X, and a bit for each tap (r, s), number r * kernel_width + s of its mask:
/// whether its element is in the image. Row (c, r, s) is at the constant offset
/// c * ldb + r * dilation_height * width + s * dilation_width (of NHWC c + (...) * ldb). Its load
/// is predicated by the bit; taps that are in the image for all of n have no predicate.
///
/// An element is +0 where it is not loaded. In PTX a tap has a register for its elements, up to
/// k_most_kept_taps: it starts as +0, and in threads whose bit is off nothing is ever written to
/// it. That costs no instruction a load, but the loads in flight are as many as taps. Of more taps
/// a load is preceded by a move of +0.
class CudaPatches {
 public:
  /// Addresses for a product without a convolution: rows are ldb apart.
  CudaPatches(const CudaLayer& layer, std::int64_t ldb);

  [[nodiscard]] bool are_patches() const noexcept { return convolution_.has_value(); }
  /// 32-bit words of the mask; 0: no load has a predicate.
  [[nodiscard]] std::int64_t words() const noexcept { return words_; }

  /// "mask0"
  [[nodiscard]] static std::string word_name(std::int64_t word);

  /// PTX of the entry: moves `pb`, to the block's product, to the thread's column `j`, and sets
  /// mask0, mask1, ..., which are declared.
  void ptx_thread(SourceText& text) const;
  /// PTX of a tile function, which has the masks: declares and sets what loads of it need.
  void ptx_registers(SourceText& text) const;
  /// Loads the element of row `row` of B; returns its register. `b` is the pointer `pb`.
  [[nodiscard]] std::string ptx_load(SourceText& text, std::int64_t row, MovingPointer& b) const;

  /// CUDA C++ of the kernel: declares `of_b`, the pointer of the column that is called `column`,
  /// and the masks.
  void cuda_thread(SourceText& text, std::string_view column) const;
  /// Declares b`row`.
  void cuda_load(SourceText& text, std::int64_t row) const;

 private:
  /// A row of B: floats from the thread's pointer, and its tap, -1 where all threads load.
  struct Place {
    std::int64_t floats;
    std::int64_t tap;
  };
  [[nodiscard]] Place place_of(std::int64_t row) const noexcept;

  /// Taps of one row (or column) of the kernel: how far they are from the pointer's, and whether
  /// they are inside for all pixels.
  struct Line {
    std::int64_t distance;
    bool is_inside;
  };
  [[nodiscard]] Line row_line(std::int64_t r) const noexcept;
  [[nodiscard]] Line column_line(std::int64_t s) const noexcept;

  /// Part of a mask: the columns' bits, shifted, where row `r` is in the image.
  struct MaskPart {
    std::int64_t word;
    std::int64_t r;
    std::int64_t shift;  ///< to the left; below 0 to the right
  };
  [[nodiscard]] std::vector<MaskPart> mask_parts() const;
  /// Bits of columns that are inside for all pixels.
  [[nodiscard]] std::int64_t constant_columns() const noexcept;

  std::optional<Convolution> convolution_;
  std::int64_t ldb_;
  bool has_pixels_;  ///< NHWC
  std::int64_t words_ = 0;
  bool keeps_ = false;
};

}  // namespace spjit
