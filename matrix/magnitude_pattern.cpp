#include "matrix/magnitude_pattern.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <vector>

#include "matrix/sampling.hpp"

namespace spjit {
namespace {

/// The largest integer whose square is at most `value`, which is at most 2^53.
std::uint64_t integer_root(std::uint64_t value) {
  auto root = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(value)));
  while (root * root > value) --root;
  while ((root + 1) * (root + 1) <= value) ++root;
  return root;
}

/// About 2^14 * exp(z / 8) each: below 2^16.
std::vector<std::uint64_t> draw_factors(std::int64_t count, RandomStream& random) {
  std::vector<std::uint64_t> factors;
  factors.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint64_t factor = log_normal_weight(random);
    for (int halving = 0; halving < 3; ++halving) factor = integer_root(factor << 24U);
    factors.push_back(factor >> 9U);
  }
  return factors;
}

}  // namespace

CsrMatrix magnitude_positions(std::int64_t rows, std::int64_t cols, std::int64_t nnz,
                              RandomStream random) {
  CsrMatrix matrix;
  matrix.rows = rows;
  matrix.cols = cols;
  const std::vector<std::uint64_t> row_factors = draw_factors(rows, random);
  const std::vector<std::uint64_t> col_factors = draw_factors(cols, random);
  std::vector<std::uint64_t> magnitudes;
  magnitudes.reserve(row_factors.size() * col_factors.size());
  for (const std::uint64_t row : row_factors) {
    for (const std::uint64_t col : col_factors) {
      const auto z = static_cast<std::uint64_t>(std::abs(normal_draw(random)));  // below 2^19
      magnitudes.push_back(row * col * z);
    }
  }
  std::vector<std::uint64_t> sorted = magnitudes;
  const auto kept = static_cast<std::ptrdiff_t>(nnz);
  std::nth_element(sorted.begin(), sorted.begin() + kept - 1, sorted.end(), std::greater<>());
  const std::uint64_t least = sorted[static_cast<std::size_t>(nnz) - 1];
  // Of those as large as the least one the first are kept, so that there are exactly nnz.
  auto ties = kept - std::count_if(sorted.begin(), sorted.begin() + kept,
                                   [&](std::uint64_t magnitude) { return magnitude > least; });
  auto magnitude = magnitudes.begin();
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t col = 0; col < cols; ++col, ++magnitude) {
      if (*magnitude < least || (*magnitude == least && ties-- <= 0)) continue;
      matrix.col_idxs.push_back(static_cast<std::int32_t>(col));
    }
    matrix.row_ptrs.push_back(matrix.nnz());
  }
  return matrix;
}

}  // namespace spjit
