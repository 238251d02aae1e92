#include "bench/convolution/im2col.hpp"

#include <algorithm>
#include <cstdint>

#include "base/arithmetic.hpp"
#include "base/row_ranges.hpp"

namespace spjit::bench {
namespace {

/// A row of B is of one tap.
struct Tap {
  std::int64_t vertical;    ///< dilated and shifted by the padding
  std::int64_t horizontal;  ///< the same
};

/// Columns q of a row of the output whose element is inside of the image: [begin, end).
RowRange columns_inside(const Convolution& of, const Tap& tap) {
  const std::int64_t stride = of.stride_width;
  const std::int64_t first = tap.horizontal >= 0 ? 0 : ceil_div(-tap.horizontal, stride);
  const std::int64_t past =
      tap.horizontal >= of.width ? 0 : ceil_div(of.width - tap.horizontal, stride);
  const std::int64_t end = std::min(past, of.output_width());
  return {std::min(first, end), end};
}

void copy_tap(const Convolution& of, const Tap& tap, const float* plane, float* row) {
  const std::int64_t width = of.output_width();
  const RowRange inside = columns_inside(of, tap);
  for (std::int64_t p = 0; p < of.output_height(); ++p, row += width) {
    const std::int64_t y = p * of.stride_height + tap.vertical;
    if (y < 0 || y >= of.height) {
      std::fill_n(row, width, 0.0F);
      continue;
    }
    const float* const from = plane + y * of.width + tap.horizontal;
    std::fill_n(row, inside.begin, 0.0F);
    if (of.stride_width == 1) {
      std::copy_n(from + inside.begin, inside.end - inside.begin, row + inside.begin);
    } else {
      for (std::int64_t q = inside.begin; q < inside.end; ++q) row[q] = from[q * of.stride_width];
    }
    std::fill_n(row + inside.end, width - inside.end, 0.0F);
  }
}

/// A row of the output's patches, with all taps.
void copy_patches_of_row(const Convolution& of, std::int64_t p, const float* x, float* to) {
  for (std::int64_t q = 0; q < of.output_width(); ++q) {
    for (std::int64_t r = 0; r < of.kernel_height; ++r) {
      const std::int64_t y = p * of.stride_height - of.pad_top + r * of.dilation_height;
      for (std::int64_t s = 0; s < of.kernel_width; ++s, to += of.channels) {
        const std::int64_t column = q * of.stride_width - of.pad_left + s * of.dilation_width;
        const bool is_inside = y >= 0 && y < of.height && column >= 0 && column < of.width;
        if (is_inside) {
          std::copy_n(x + (y * of.width + column) * of.channels, of.channels, to);
        } else {
          std::fill_n(to, of.channels, 0.0F);
        }
      }
    }
  }
}

}  // namespace

void im2col(const Convolution& convolution, const float* x, float* b, ThreadPool& pool) {
  const Convolution& of = convolution;
  const std::int64_t columns = of.output_height() * of.output_width();
  const std::int64_t taps = of.kernel_height * of.kernel_width;
  const auto copy_channel = [&](std::int64_t channel) {
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      const Tap shift{tap / of.kernel_width * of.dilation_height - of.pad_top,
                      tap % of.kernel_width * of.dilation_width - of.pad_left};
      copy_tap(of, shift, x + channel * of.height * of.width, b + (channel * taps + tap) * columns);
    }
  };
  const std::int64_t parts = std::min<std::int64_t>(pool.threads(), of.channels);
  pool.run(static_cast<int>(parts), [&](int part, int /*worker*/) {
    const std::int64_t end = of.channels * (part + 1) / parts;
    for (std::int64_t channel = of.channels * part / parts; channel < end; ++channel) {
      copy_channel(channel);
    }
  });
}

void im2col_tokens(const Convolution& convolution, const float* x, float* b, ThreadPool& pool) {
  const Convolution& of = convolution;
  const std::int64_t rows = of.output_height();
  const std::int64_t floats_a_row =
      of.output_width() * of.channels * of.kernel_height * of.kernel_width;
  const std::int64_t parts = std::min<std::int64_t>(pool.threads(), rows);
  pool.run(static_cast<int>(parts), [&](int part, int /*worker*/) {
    for (std::int64_t p = rows * part / parts; p < rows * (part + 1) / parts; ++p) {
      copy_patches_of_row(of, p, x, b + p * floats_a_row);
    }
  });
}

CsrMatrix with_taps_outermost(const CsrMatrix& weights, std::int64_t taps) {
  CsrMatrix moved = weights;
  const std::int64_t channels = weights.cols / taps;
  for (std::int32_t& column : moved.col_idxs) {
    // Both are below weights.cols.
    column = static_cast<std::int32_t>(column % taps * channels + column / taps);
  }
  return moved;
}

}  // namespace spjit::bench
