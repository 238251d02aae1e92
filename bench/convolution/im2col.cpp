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

}  // namespace spjit::bench
