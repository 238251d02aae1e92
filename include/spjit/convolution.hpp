#pragma once

/// @file
/// A convolution, as a product of its weights with patches of images.

#include <cstdint>
#include <string>

#include "spjit/export.hpp"

namespace spjit {

/// A 2-D convolution of images X `[images x channels x height x width]` with weights
/// `[filters x channels / groups x kernel_height x kernel_width]`, which are A `[m x k]`: a row is
/// a filter, a column (c, r, s). B `[k x n]` is never made: for one image, with j = (p, q),
///
///     B[(c, r, s)][j] = X[c][p * stride_height - pad_top + r * dilation_height]
///                           [q * stride_width - pad_left + s * dilation_width],   0 outside of X
///
/// and C `[m x n]` is Y `[filters x output_height x output_width]`. Filters f of group g have the
/// channels from g * channels / groups on. Names and sizes are those of PyTorch and ONNX.
struct Convolution {
  std::int64_t channels = 0;  ///< of X
  std::int64_t height = 0;    ///< of X, 1 or more; of a run-time n typical, as width
  std::int64_t width = 0;
  std::int64_t kernel_height = 1;
  std::int64_t kernel_width = 1;
  std::int64_t stride_height = 1;
  std::int64_t stride_width = 1;
  std::int64_t pad_top = 0;
  std::int64_t pad_left = 0;
  std::int64_t pad_bottom = 0;
  std::int64_t pad_right = 0;
  std::int64_t dilation_height = 1;
  std::int64_t dilation_width = 1;
  std::int64_t groups = 1;

  /// floor((height + pad_top + pad_bottom - dilation_height * (kernel_height - 1) - 1) /
  /// stride_height) + 1; 0 or less where the kernel is larger than the padded image.
  [[nodiscard]] SPJIT_EXPORT std::int64_t output_height() const noexcept;
  [[nodiscard]] SPJIT_EXPORT std::int64_t output_width() const noexcept;

  friend bool operator==(const Convolution&, const Convolution&) = default;
};

/// "64x56x56, kernel 3x3, stride 1, pad 1": channels, height and width, then what is not as usual.
[[nodiscard]] SPJIT_EXPORT std::string to_string(const Convolution& convolution);

}  // namespace spjit
