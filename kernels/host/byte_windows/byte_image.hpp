#pragma once

/// @file
/// An image of a convolution where windows are fetched from it: as bytes, pixel after pixel.

#include <cstdint>
#include <span>
#include <vector>

#include "base/cancel.hpp"
#include "kernels/host/object/csr_view.hpp"
#include "spjit/convolution.hpp"

namespace spjit {

/// Bytes of a pixel of such an image: its channels and, behind them, some that no entry of A reads.
[[nodiscard]] std::int64_t pixel_bytes(const Convolution& convolution) noexcept;

/// A of a convolution, its columns in the order in which an image has their bytes.
///
/// Taps of a row of the kernel are a pixel apart, so that a window has channels of several. Without
/// a dilation they are one block of columns, else each tap is. Between blocks are so many columns
/// that no window has entries of two.
class ByteTaps {
 public:
  /// Precondition: checked.
  explicit ByteTaps(const Convolution& convolution);

  /// A matrix that entries of A were copied to.
  struct Matrix {
    std::int64_t rows;
    std::int64_t cols;
    std::vector<std::int64_t> row_ptrs;
    std::vector<std::int32_t> col_idxs;
    std::vector<float> values;  ///< none where A has none

    /// Refers to this.
    [[nodiscard]] CsrView view() const noexcept { return {rows, cols, row_ptrs, col_idxs, values}; }
  };
  /// Throws what `cancel` throws.
  [[nodiscard]] Matrix in_order(const CsrView& a, const Cancellation& cancel = {});

  /// Values of A as the entries of in_order() are. Precondition: it was called.
  [[nodiscard]] std::vector<float> in_order(std::span<const float> values) const;

  /// Places of columns of in_order() in an image whose rows are `row_bytes` apart: bytes from the
  /// first tap of a pixel. Throws Error if one may be 2^32 or more.
  void place(std::span<const std::uint32_t> columns, std::int64_t row_bytes,
             std::uint32_t* places) const;

 private:
  [[nodiscard]] std::int64_t column_of(std::int64_t column_of_a) const noexcept;

  Convolution of_;
  std::int64_t pixel_;
  bool joins_taps_;                    ///< of a row of the kernel
  std::int64_t block_;                 ///< columns from a block to the next one
  std::vector<std::int64_t> entries_;  ///< [nnz] of A, that each one was
};

/// Some pixels of the output, and the part of the image that is staged for them.
struct ByteTile {
  std::int64_t row;
  std::int64_t rows;
  std::int64_t column;
  std::int64_t columns;

  [[nodiscard]] std::int64_t pixels() const noexcept { return rows * columns; }
};

/// How an image of some size is cut into tiles and staged. Tiles have whole rows of the output, or
/// pixels of one.
class ByteImage {
 public:
  /// Tiles have about `most_pixels` at most. Precondition: checked.
  ByteImage(const Convolution& convolution, std::int64_t most_pixels);

  /// Pixels of a tile, at most.
  [[nodiscard]] std::int64_t pixels() const noexcept { return rows_ * columns_; }
  /// That a tile is staged in, and what windows may read behind it. Throws Error if they cannot be
  /// counted.
  [[nodiscard]] std::int64_t bytes() const;
  /// The tile that begins with a pixel of the output. Precondition: 0 or behind another tile.
  [[nodiscard]] ByteTile tile_at(std::int64_t pixel) const noexcept;

  /// Bytes between rows of a staged tile.
  [[nodiscard]] std::int64_t row_bytes() const noexcept { return pitch_ * pixel_; }
  /// Bytes from the first tap of a pixel of the output to that of the next one.
  [[nodiscard]] std::int64_t distance() const noexcept { return of_.stride_width * pixel_; }
  /// Bytes to that of the pixel below.
  [[nodiscard]] std::int64_t row_distance() const noexcept {
    return of_.stride_height * row_bytes();
  }

  /// Rows that are staged for a tile.
  [[nodiscard]] std::int64_t staged_rows(const ByteTile& tile) const noexcept {
    return reach(tile.rows, of_.stride_height, of_.kernel_height, of_.dilation_height);
  }
  /// A row that is staged: pixels before those of the image, of the image, and behind them.
  struct Row {
    std::int64_t before;
    std::int64_t first;  ///< pixel of the image
    std::int64_t count;
    std::int64_t behind;
  };
  [[nodiscard]] Row row_of(const ByteTile& tile, std::int64_t staged_row) const noexcept;

 private:
  [[nodiscard]] static std::int64_t reach(std::int64_t pixels, std::int64_t stride,
                                          std::int64_t kernel, std::int64_t dilation) noexcept {
    return (pixels - 1) * stride + (kernel - 1) * dilation + 1;
  }

  Convolution of_;
  std::int64_t pixel_;
  std::int64_t rows_;
  std::int64_t columns_;
  std::int64_t pitch_;  ///< pixels of a staged row
};

}  // namespace spjit
