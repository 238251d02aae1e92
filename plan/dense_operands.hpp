#pragma once

/// @file
/// The dense sides of C = A * B.

#include <cstdint>

namespace spjit {

/// B `[k x n]` and C `[m x n]`, row-major and borrowed. They must not overlap.
struct DenseOperands {
  const float* b = nullptr;
  std::int64_t ldb = 0;  ///< floats between rows of B, >= n
  float* c = nullptr;
  std::int64_t ldc = 0;  ///< floats between rows of C, >= n
  std::int64_t n = 0;    ///< columns of B and C, >= 0
};

}  // namespace spjit
