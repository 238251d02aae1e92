#include "kernels/cuda/csr/csr_rows.hpp"

#include <algorithm>
#include <numeric>

#include "base/arithmetic.hpp"
#include "kernels/cuda/csr/csr_code.hpp"

namespace spjit {
namespace {

std::int64_t length_of(const CsrMatrix& matrix, std::uint32_t row) {
  return matrix.row_ptrs[row + std::size_t{1}] - matrix.row_ptrs[row];
}

/// A row of patches as the place of an element in an image.
struct Tap {
  std::uint32_t channel;
  std::uint32_t down;
  std::uint32_t right;
};

/// Columns of a weight are below 2^31, and so is each of these.
Tap tap_of(std::int64_t column, const Convolution& of) {
  const std::int64_t taps = of.kernel_height * of.kernel_width;
  const std::int64_t tap = column % taps;
  return {static_cast<std::uint32_t>(column / taps),
          static_cast<std::uint32_t>(tap / of.kernel_width * of.dilation_height),
          static_cast<std::uint32_t>(tap % of.kernel_width * of.dilation_width)};
}

}  // namespace

CsrRows::CsrRows(const CsrMatrix& matrix, const std::optional<Convolution>& convolution,
                 const Cancellation& cancel)
    : order(to_size(matrix.rows)) {
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, [&](std::uint32_t one, std::uint32_t other) {
    return length_of(matrix, one) > length_of(matrix, other);
  });
  cancel.check();
  for (const std::uint32_t row : order) {
    const std::int64_t length = length_of(matrix, row);
    begins.push_back(entries);
    lengths.push_back(static_cast<std::uint32_t>(length));  // at most one a column, of < 2^31
    sources.push_back(matrix.row_ptrs[row]);
    entries += round_up(length, k_csr_cuda_group);
  }
  entries += k_csr_cuda_group;
  const std::size_t padded = to_size(entries);
  columns.resize(padded);
  if (convolution) {
    down.resize(padded);
    right.resize(padded);
  }
  for_each_piece(matrix.rows, cancel, [&](std::int64_t begin, std::int64_t end) {
    for (std::size_t place = to_size(begin); place < to_size(end); ++place) {
      for (std::uint32_t i = 0; i < lengths[place]; ++i) {
        const std::int64_t column = matrix.col_idxs[to_size(sources[place] + i)];
        const std::size_t to = to_size(begins[place] + i);
        if (convolution) {
          const Tap tap = tap_of(column, *convolution);
          columns[to] = tap.channel;
          down[to] = tap.down;
          right[to] = tap.right;
        } else {
          columns[to] = static_cast<std::uint32_t>(column);  // in [0, 2^31): it is valid
        }
      }
    }
  });
}

std::vector<float> CsrRows::arrange(std::span<const float> values) const {
  std::vector<float> arranged(to_size(entries));
  for (std::size_t place = 0; place < begins.size(); ++place) {
    const auto from = values.subspan(to_size(sources[place]), lengths[place]);
    std::ranges::copy(from, arranged.begin() + begins[place]);
  }
  return arranged;
}

}  // namespace spjit
