#include "kernels/cuda/packed/packed_rows.hpp"

#include <bit>
#include <cstring>
#include <utility>

#include "base/arithmetic.hpp"
#include "plan/elements.hpp"

namespace spjit {
namespace {

/// Calls visit(chunk, begin, end) for each chunk of a row that has entries, which are those from
/// begin to end.
template <class Visit>
void for_each_chunk(const CsrMatrix& matrix, std::int64_t row, const Visit& visit) {
  const std::int64_t end = matrix.row_ptrs[to_size(row + 1)];
  for (std::int64_t begin = matrix.row_ptrs[to_size(row)]; begin < end;) {
    const std::int64_t chunk = matrix.col_idxs[to_size(begin)] / k_packed_chunk;
    std::int64_t next = begin + 1;
    while (next < end && matrix.col_idxs[to_size(next)] / k_packed_chunk == chunk) ++next;
    visit(chunk, begin, next);
    begin = next;
  }
}

}  // namespace

double PackedSizes::bytes(const PackedForm& form) const noexcept {
  const double row_chunks = as_double(groups) * as_double(chunks) * as_double(form.group_rows);
  constexpr double k_bitmap_and_start = (k_packed_words + 1) * sizeof(std::uint32_t);
  return row_chunks * k_bitmap_and_start + as_double(units) * k_packed_unit_bytes;
}

PackedSizes packed_sizes(const CsrMatrix& matrix, const PackedForm& form,
                         const Cancellation& cancel) {
  PackedSizes sizes{.groups = ceil_div(matrix.rows, form.group_rows),
                    .chunks = ceil_div(matrix.cols, k_packed_chunk)};
  const std::int64_t unit = form.unit();
  for_each_piece(matrix.rows, cancel, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = first; row < last; ++row) {
      for_each_chunk(matrix, row, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
        sizes.units += ceil_div(end - begin, unit);
      });
    }
  });
  return sizes;
}

std::int64_t packed_group_rows(std::int64_t rows, std::int64_t sms) noexcept {
  std::int64_t group = k_packed_most_rows;
  while (group > 8 && ceil_div(rows, group) < sms) group /= 2;
  return group;
}

PackedRows::PackedRows(const CsrMatrix& matrix, const PackedForm& form_in,
                       const Cancellation& cancel)
    : form(form_in), sizes(packed_sizes(matrix, form_in, cancel)), row_ptrs(matrix.row_ptrs) {
  const std::int64_t row_chunks = sizes.groups * sizes.chunks * form.group_rows;
  bitmaps.resize(to_size(row_chunks * k_packed_words));
  starts.resize(to_size(row_chunks + form.group_rows + 1));
  const std::int64_t unit = form.unit();
  // First how many units each has, which is in `starts` until they are added up.
  for_each_piece(matrix.rows, cancel, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = first; row < last; ++row) {
      for_each_chunk(matrix, row, [&](std::int64_t chunk, std::int64_t begin, std::int64_t end) {
        const std::int64_t place = place_of(row, chunk);
        std::uint32_t* const words = bitmaps.data() + place * k_packed_words;
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t column = matrix.col_idxs[to_size(i)] % k_packed_chunk;
          words[column / 32] |= std::uint32_t{1} << (column % 32);
        }
        // At most 32: a chunk's columns by the values of a unit.
        starts[to_size(place)] = static_cast<std::uint32_t>(ceil_div(end - begin, unit));
      });
    }
  });
  std::uint32_t sum = 0;  // packed_sizes() of a kernel that is loaded are below 2^32
  for (std::uint32_t& start : starts) start = std::exchange(sum, sum + start);
}

std::vector<std::byte> PackedRows::arrange(std::span<const float> values,
                                           const Cancellation& cancel) const {
  const std::int64_t unit = form.unit();
  std::vector<std::byte> units(to_size(sizes.units * k_packed_unit_bytes));
  const auto put = [&](std::int64_t place, float value) {
    if (form.values == DataType::f32) {
      std::memcpy(units.data() + place * std::int64_t{sizeof(value)}, &value, sizeof(value));
    } else {
      store_element(form.values, units.data(), place, value);
    }
  };
  const std::int64_t rows = std::ssize(row_ptrs) - 1;
  for_each_piece(rows, cancel, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = first; row < last; ++row) {
      std::int64_t next = row_ptrs[to_size(row)];
      for (std::int64_t chunk = 0; chunk < sizes.chunks; ++chunk) {
        const std::int64_t place = place_of(row, chunk);
        const std::uint32_t* const words = bitmaps.data() + place * k_packed_words;
        std::int64_t entries = 0;
        for (std::int64_t word = 0; word < k_packed_words; ++word) {
          entries += std::popcount(words[word]);
        }
        const std::int64_t to = starts[to_size(place)] * unit;
        for (std::int64_t i = 0; i < round_up(entries, unit); ++i) {
          put(to + i, i < entries ? values[to_size(next + i)] : -0.0F);
        }
        next += entries;
      }
    }
  });
  return units;
}

}  // namespace spjit
