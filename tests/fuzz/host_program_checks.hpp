#pragma once

/// @file
/// What whoever runs a program record relies on.

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/unrolled_host/host_program.hpp"
#include "tests/fuzz/fuzz_support.hpp"

namespace spjit::fuzz {

/// Reads the record of an image; what is accepted points nowhere outside the image and is written
/// as the same words.
inline void check_program(const HostImage& image) {
  constexpr std::size_t k_fixed = std::size_t{64} << 10;
  const auto record =
      read_within(6 * image.program.size() + k_fixed, {}, [&] { return read_program(image); });
  if (!record) return;
  const std::vector<std::int64_t> words = write_program(*record);
  expect(std::ranges::equal(std::as_bytes(std::span(words)), image.program),
         "the record is written as other words");
  const auto within = [](const std::vector<std::int64_t>& offsets, std::int64_t end) {
    return std::ranges::all_of(offsets, [end](std::int64_t at) { return at >= 0 && at < end; });
  };
  for (const RowRange& rows : record->empty_rows.ranges()) {
    expect(rows.begin >= 0 && rows.begin < rows.end && rows.end <= record->rows,
           "an empty row outside the matrix");
  }
  if (record->kind != "unrolled") {
    expect(static_cast<std::int64_t>(record->row_ptrs.size()) == record->rows + 1,
           "rows without offsets");
    return;
  }
  expect(within(record->segment_offsets, static_cast<std::int64_t>(image.text.size())),
         "a segment outside the code");
  expect(within(record->weight_offsets, static_cast<std::int64_t>(image.weights.size()) / 4 + 1),
         "weights outside the image");
  expect(record->k_block * record->k_blocks >= record->cols, "columns in no block");
}

}  // namespace spjit::fuzz
