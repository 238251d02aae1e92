#pragma once

/// @file
/// Checks of all that holds for every matrix a reader returns.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>

#include "spjit/matrix.hpp"
#include "tests/fuzz/fuzz_support.hpp"

namespace spjit::fuzz {

/// A file may announce 2^24 empty rows, and to write them takes a tenth of a second: targets look
/// at the body of files with at most this many.
inline constexpr std::int64_t k_most_rows = std::int64_t{1} << 16;

/// Bytes that a reader of matrices may allocate: `per_byte` for each of the input, 8 for each row,
/// and as much again for messages and tables of libraries.
inline std::size_t matrix_allowance(std::size_t per_byte, std::size_t input_bytes,
                                    std::int64_t rows) {
  constexpr std::size_t k_fixed = std::size_t{64} << 10;
  return per_byte * input_bytes + 8 * static_cast<std::size_t>(rows) + k_fixed;
}

/// Bit for bit, but that every NaN is as good as another.
inline bool same_matrix(const CsrMatrix& a, const CsrMatrix& b) {
  const auto same_value = [](float x, float y) {
    return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y) ||
           (std::isnan(x) && std::isnan(y));
  };
  return a.rows == b.rows && a.cols == b.cols && a.row_ptrs == b.row_ptrs &&
         a.col_idxs == b.col_idxs && std::ranges::equal(a.values, b.values, same_value);
}

}  // namespace spjit::fuzz
