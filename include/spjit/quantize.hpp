#pragma once

/// @file
/// Weights of floats as integers.

#include <vector>

#include "spjit/export.hpp"
#include "spjit/matrix.hpp"

namespace spjit {

/// A matrix as integers, each row with a scale.
struct QuantizedMatrix {
  CsrMatrix integers;        ///< `[m x k]`, -127 to 127; what rounds to 0 is no entry
  std::vector<float> scale;  ///< `[m]`, above 0, for Arguments::scale
  /// Between the matrix and the integers times their scale, all entries as one vector; 1 without
  /// entries.
  double cosine = 1;
  double relative_error = 0;  ///< 2-norm of their difference, over that of the matrix
};

/// Symmetric int8. The scale of a row is its largest magnitude over 127, or 1 for a row of zeros.
/// An integer is the entry over the scale, rounded to nearest even. So a kernel of the integers
/// with Numerics `i8` and the epilogue's scale computes the layer.
///
/// Throws InvalidArgument for a matrix that is not valid, an entry that is not finite, and a row
/// whose scale would be denormal.
[[nodiscard]] SPJIT_EXPORT QuantizedMatrix quantize_rows(const CsrMatrix& matrix);

}  // namespace spjit
