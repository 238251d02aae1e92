#pragma once

/// @file
/// The dense sides of a case, and A with its zeros.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "spjit/matrix.hpp"

namespace spjit::bench {

/// Floats that start at a cache line; at least one line behind them may be read.
class AlignedFloats {
 public:
  AlignedFloats(std::int64_t size, float value);

  [[nodiscard]] float* data() noexcept { return storage_.data() + first_; }
  [[nodiscard]] const float* data() const noexcept { return storage_.data() + first_; }

 private:
  std::vector<float> storage_;
  std::size_t first_ = 0;
};

/// `[rows x n]` values of a fixed seed, the same for every benchmark.
void fill_operand(float* values, std::int64_t rows, std::int64_t n);

/// The matrix with its zeros, `[rows x cols]` row-major.
[[nodiscard]] std::vector<float> dense_of(const CsrMatrix& matrix);

}  // namespace spjit::bench
