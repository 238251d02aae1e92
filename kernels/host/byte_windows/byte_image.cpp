#include "kernels/host/byte_windows/byte_image.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/arithmetic.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

/// A window has as many columns at most, and begins with a byte of a pixel.
constexpr std::int64_t k_widest_window = 64;

}  // namespace

std::int64_t pixel_bytes(const Convolution& convolution) noexcept {
  constexpr std::int64_t k_stored = 16;  // bytes of a quantised pixel are stored together
  constexpr std::int64_t k_shared = 1024;
  constexpr std::int64_t k_apart = 64;
  const std::int64_t bytes = round_up(convolution.channels, k_stored);
  // So far apart they would share few sets of L1.
  return bytes % k_shared == 0 ? bytes + k_apart : bytes;
}

ByteTaps::ByteTaps(const Convolution& convolution)
    : of_(convolution),
      pixel_(pixel_bytes(convolution)),
      joins_taps_(convolution.dilation_width == 1),
      block_((joins_taps_ ? convolution.kernel_width : 1) * pixel_ + k_widest_window) {}

std::int64_t ByteTaps::column_of(std::int64_t column_of_a) const noexcept {
  const std::int64_t tap = column_of_a % (of_.kernel_height * of_.kernel_width);
  const std::int64_t channel = column_of_a / (of_.kernel_height * of_.kernel_width);
  if (!joins_taps_) return tap * block_ + channel;
  return tap / of_.kernel_width * block_ + tap % of_.kernel_width * pixel_ + channel;
}

ByteTaps::Matrix ByteTaps::in_order(const CsrView& a, const Cancellation& cancel) {
  const std::int64_t blocks = of_.kernel_height * (joins_taps_ ? 1 : of_.kernel_width);
  Matrix matrix{a.rows, blocks * block_, {a.row_ptrs.begin(), a.row_ptrs.end()}, {}, {}};
  const std::size_t nnz = a.col_idxs.size();
  matrix.col_idxs.resize(nnz);
  entries_.resize(nnz);
  std::iota(entries_.begin(), entries_.end(), 0);
  CancelPace pace(cancel);
  const auto column = [&](std::int64_t entry) { return column_of(a.col_idxs[to_size(entry)]); };
  for (std::int64_t row = 0; row < a.rows; ++row) {
    const std::int64_t begin = a.row_ptrs[to_size(row)];
    const std::int64_t end = a.row_ptrs[to_size(row) + 1];
    std::sort(entries_.begin() + begin, entries_.begin() + end,
              [&](std::int64_t one, std::int64_t other) { return column(one) < column(other); });
    for (std::int64_t i = begin; i < end; ++i) {
      // A has at most k_most_byte_columns columns, so blocks have less than 2^31.
      matrix.col_idxs[to_size(i)] = static_cast<std::int32_t>(column(entries_[to_size(i)]));
    }
    pace.spend(end - begin + 1);
  }
  if (a.has_values()) matrix.values = in_order(a.values);
  return matrix;
}

std::vector<float> ByteTaps::in_order(std::span<const float> values) const {
  std::vector<float> ordered;
  ordered.reserve(entries_.size());
  for (const std::int64_t entry : entries_) ordered.push_back(values[to_size(entry)]);
  return ordered;
}

void ByteTaps::place(std::span<const std::uint32_t> columns, std::int64_t row_bytes,
                     std::uint32_t* places) const {
  const std::int64_t blocks = of_.kernel_height * (joins_taps_ ? 1 : of_.kernel_width);
  std::vector<std::int64_t> block_places;
  block_places.reserve(to_size(blocks));
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::int64_t row = joins_taps_ ? block : block / of_.kernel_width;
    const std::int64_t column = joins_taps_ ? 0 : block % of_.kernel_width;
    block_places.push_back(row * of_.dilation_height * row_bytes +
                           column * of_.dilation_width * pixel_);
  }
  const std::int64_t last = block_places.back() + block_;
  if (last > std::numeric_limits<std::uint32_t>::max()) {
    throw Error(
        fmt::format("the taps of a pixel are {} bytes of the image apart; expected less "
                    "than 2^32",
                    last));
  }
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const std::int64_t block = columns[i] / block_;
    const std::int64_t within = columns[i] - block * block_;
    places[i] = static_cast<std::uint32_t>(block_places[to_size(block)] + within);
  }
}

ByteImage::ByteImage(const Convolution& convolution, std::int64_t most_pixels)
    : of_(convolution), pixel_(pixel_bytes(convolution)) {
  constexpr std::int64_t k_most_bytes = std::int64_t{256} << 10;  // staged, in L2 with C
  const std::int64_t height = of_.output_height();
  const std::int64_t width = of_.output_width();
  const std::int64_t taps_height = reach(1, 0, of_.kernel_height, of_.dilation_height);
  const std::int64_t taps_width = reach(1, 0, of_.kernel_width, of_.dilation_width);
  columns_ = width;
  const auto staged = [&](std::int64_t rows) {
    return as_double(reach(rows, of_.stride_height, of_.kernel_height, of_.dilation_height)) *
           as_double(reach(columns_, of_.stride_width, of_.kernel_width, of_.dilation_width)) *
           as_double(pixel_);
  };
  if (width > most_pixels || staged(1) > as_double(k_most_bytes)) {
    rows_ = 1;
    // So many that the taps beyond them are staged at most twice, on average.
    const double bytes_a_column =
        as_double(taps_height) * as_double(of_.stride_width) * as_double(pixel_);
    const auto fitting = static_cast<std::int64_t>(as_double(k_most_bytes) / bytes_a_column);
    const std::int64_t most = std::max(
        {std::min(most_pixels, fitting), ceil_div(taps_width, of_.stride_width), std::int64_t{16}});
    columns_ = ceil_div(width, ceil_div(width, most));
  } else {
    const std::int64_t least = std::min(height, ceil_div(taps_height - 1, of_.stride_height));
    rows_ = std::max<std::int64_t>(std::min(height, most_pixels / width), 1);
    while (rows_ > 1 && staged(rows_) > as_double(k_most_bytes)) rows_ = ceil_div(rows_, 2);
    rows_ = std::max(rows_, least);
    rows_ = ceil_div(height, ceil_div(height, rows_));
  }
  pitch_ = reach(columns_, of_.stride_width, of_.kernel_width, of_.dilation_width);
}

std::int64_t ByteImage::bytes() const {
  const char* const what = "bytes of a staged image";
  const std::int64_t row = checked_multiply(pitch_, pixel_, what);
  const std::int64_t all = checked_multiply(staged_rows({0, rows_, 0, columns_}), row, what);
  return round_up(checked_add(all, k_widest_window, what), k_widest_window);
}

ByteTile ByteImage::tile_at(std::int64_t pixel) const noexcept {
  const std::int64_t width = of_.output_width();
  const std::int64_t row = pixel / width;
  const std::int64_t column = pixel % width;
  return {row, std::min(rows_, of_.output_height() - row), column,
          std::min(columns_, width - column)};
}

ByteImage::Row ByteImage::row_of(const ByteTile& tile, std::int64_t staged_row) const noexcept {
  const std::int64_t y = tile.row * of_.stride_height - of_.pad_top + staged_row;
  if (y < 0 || y >= of_.height) return {pitch_, 0, 0, 0};
  const std::int64_t x = tile.column * of_.stride_width - of_.pad_left;
  const std::int64_t before = std::clamp<std::int64_t>(-x, 0, pitch_);
  const std::int64_t first = std::clamp<std::int64_t>(x + before, 0, of_.width);
  const std::int64_t count = std::min(of_.width - first, pitch_ - before);
  return {before, y * of_.width + first, count, pitch_ - before - count};
}

}  // namespace spjit
