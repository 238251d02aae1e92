#include "spjit/quantize.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "base/arithmetic.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

constexpr float k_largest = 127;

float scale_of(std::span<const float> row, std::int64_t index) {
  float largest = 0;
  for (const float value : row) {
    if (!std::isfinite(value)) {
      throw InvalidArgument(
          fmt::format("row {} has the entry {}; expected finite numbers", index, value));
    }
    largest = std::max(largest, std::abs(value));
  }
  if (largest == 0) return 1;
  const float scale = largest / k_largest;
  if (scale >= std::numeric_limits<float>::min()) return scale;
  throw InvalidArgument(fmt::format(
      "the largest magnitude of row {} is {}, whose scale is denormal; expected 0 or at least {}",
      index, largest, k_largest * std::numeric_limits<float>::min()));
}

/// Sums over all entries, of which the figures are made.
struct Comparison {
  double dot = 0;
  double matrix = 0;  ///< square of the 2-norm
  double integers = 0;
  double difference = 0;

  void add(double value, double approximation) {
    dot += value * approximation;
    matrix += value * value;
    integers += approximation * approximation;
    difference += (value - approximation) * (value - approximation);
  }
};

}  // namespace

QuantizedMatrix quantize_rows(const CsrMatrix& matrix) {
  matrix.validate();
  QuantizedMatrix result;
  CsrMatrix& integers = result.integers;
  integers.rows = matrix.rows;
  integers.cols = matrix.cols;
  integers.row_ptrs = {0};
  Comparison all;
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    const std::int64_t begin = matrix.row_ptrs[to_size(row)];
    const std::int64_t end = matrix.row_ptrs[to_size(row + 1)];
    const float scale =
        scale_of(std::span(matrix.values).subspan(to_size(begin), to_size(end - begin)), row);
    result.scale.push_back(scale);
    for (std::int64_t entry = begin; entry < end; ++entry) {
      const float value = matrix.values[to_size(entry)];
      const float integer = std::clamp(std::nearbyint(value / scale), -k_largest, k_largest);
      all.add(value, double{integer} * scale);
      if (integer == 0) continue;
      integers.col_idxs.push_back(matrix.col_idxs[to_size(entry)]);
      integers.values.push_back(integer);
    }
    integers.row_ptrs.push_back(integers.nnz());
  }
  if (all.matrix > 0) {
    result.cosine = all.dot / std::sqrt(all.matrix * all.integers);
    result.relative_error = std::sqrt(all.difference / all.matrix);
  }
  return result;
}

}  // namespace spjit
