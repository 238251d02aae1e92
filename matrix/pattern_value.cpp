#include "matrix/pattern_value.hpp"

#include "matrix/random.hpp"
#include "spjit/matrix_io.hpp"

namespace spjit {
namespace {

// The part of the hash all entries of a row share.
std::uint64_t row_hash(std::uint64_t seed, std::int64_t row) {
  return split_mix(split_mix(seed) ^ static_cast<std::uint64_t>(row));
}

float value_in_row(std::uint64_t hashed_row, std::int64_t col) {
  constexpr std::int32_t k_one = 1 << 23;
  const std::uint64_t hash = split_mix(hashed_row ^ static_cast<std::uint64_t>(col));
  const std::int32_t steps = static_cast<std::int32_t>(hash >> 40U) - k_one;
  return static_cast<float>(steps == 0 ? 1 : steps) / static_cast<float>(k_one);
}

}  // namespace

float pattern_value(std::uint64_t seed, std::int64_t row, std::int64_t col) {
  return value_in_row(row_hash(seed, row), col);
}

void fill_pattern_values(CsrMatrix& matrix, std::uint64_t seed) {
  matrix.values.resize(matrix.col_idxs.size());
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    const std::uint64_t hashed_row = row_hash(seed, row);
    const auto begin = static_cast<std::size_t>(matrix.row_ptrs[static_cast<std::size_t>(row)]);
    const auto end = static_cast<std::size_t>(matrix.row_ptrs[static_cast<std::size_t>(row) + 1]);
    for (std::size_t at = begin; at < end; ++at) {
      matrix.values[at] = value_in_row(hashed_row, matrix.col_idxs[at]);
    }
  }
}

}  // namespace spjit
