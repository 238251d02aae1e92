#pragma once

/// @file
/// Checks of all that those who run a program record rely on.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

#include "kernels/host/object/csr_image.hpp"
#include "kernels/host/unrolled/host_program.hpp"
#include "kernels/host/unrolled/weight_positions.hpp"
#include "tests/fuzz/fuzz_support.hpp"

namespace spjit::fuzz {

inline void expect_written_as(const std::vector<std::int64_t>& words, const HostImage& image) {
  expect(std::ranges::equal(std::as_bytes(std::span(words)), image.program),
         "the record is written as other words");
}

/// Checks the facts that families that read A rely on.
inline void check_csr_image(const HostImage& image, std::size_t most_bytes) {
  const auto read = read_within(most_bytes, {}, [&] { return read_csr_image(image); });
  if (!read) return;
  std::vector<std::int64_t> words = write_header(read->header);
  words.push_back(read->panel_columns);
  append_words(words, read->row_ptrs);
  expect_written_as(words, image);
  const CsrView a = read->view();
  expect(std::ssize(a.row_ptrs) == a.rows + 1, "rows without offsets");
  expect(
      a.row_ptrs.front() == 0 && a.row_ptrs.back() == a.nnz() && std::ranges::is_sorted(a.row_ptrs),
      "offsets outside the entries");
  expect(std::ranges::all_of(a.col_idxs,
                             [&](std::int32_t column) { return column >= 0 && column < a.cols; }),
         "a column outside the matrix");
  const std::size_t of_values =
      read->widened == nullptr ? std::as_bytes(a.values).size() : read->stored_values.size();
  const std::span<const float> scales = a.groups.values;
  expect(of_values + std::as_bytes(a.col_idxs).size() + std::as_bytes(scales).size() ==
             image.weights.size(),
         "entries outside the image");
  expect(std::ssize(scales) == a.rows * a.groups.count(a.cols), "scales of other groups");
  expect(std::ranges::all_of(scales, is_group_scale), "a scale that is none");
}

/// Checks the facts that the family `unrolled` relies on.
inline void check_unrolled(const HostImage& image, std::size_t most_bytes) {
  const auto record = read_within(most_bytes, {}, [&] { return read_program(image); });
  if (!record) return;
  expect_written_as(write_program(*record), image);
  const auto within = [](const std::vector<std::int64_t>& offsets, std::int64_t end) {
    return std::ranges::all_of(offsets, [end](std::int64_t at) { return at >= 0 && at < end; });
  };
  for (const RowRange& rows : record->empty_rows.ranges()) {
    expect(rows.begin >= 0 && rows.begin < rows.end && rows.end <= record->header.rows,
           "an empty row outside the matrix");
  }
  expect(within(record->segment_offsets, static_cast<std::int64_t>(image.text.size())),
         "a segment outside the code");
  expect(within(record->weight_offsets, static_cast<std::int64_t>(image.weights.size()) / 4 + 1),
         "weights outside the image");
  expect(record->k_block * record->k_blocks >= record->header.cols, "columns in no block");
  constexpr std::int64_t k_most_values = 1 << 12;
  if (record->header.runtime_values && record->header.nnz <= k_most_values) {
    const std::vector<float> values(static_cast<std::size_t>(record->header.nnz), 1.0F);
    const FloatBuffer weights = values_at(weights_of(*record, image), values);
    expect(std::ranges::all_of(weights.span(), [](float weight) { return weight == 1; }),
           "weights that are no values");
  }
}

/// Reads the record of an image as its family does; what is accepted points nowhere outside the
/// image and is written as the same words.
inline void check_program(const HostImage& image) {
  constexpr std::size_t k_fixed = std::size_t{64} << 10;
  const std::size_t most_bytes = 6 * image.program.size() + k_fixed;
  const auto header = read_within(most_bytes, {}, [&] {
    WordReader reader(image.program);
    return read_header(reader);
  });
  if (!header) return;
  if (header->family == k_unrolled_host_name) {
    check_unrolled(image, most_bytes);
  } else {
    check_csr_image(image, most_bytes);
  }
}

}  // namespace spjit::fuzz
