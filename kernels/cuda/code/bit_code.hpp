#pragma once

/// @file
/// Code over the bits of a word: counts, places, and the floats that words hold.

#include <string>
#include <string_view>

#include "kernels/cuda/code/cuda_code.hpp"
#include "spjit/data_type.hpp"

namespace spjit {

/// How many bits are 1.
[[nodiscard]] CodeExpression ones_of(const CodeOperand& a);
/// How many bits above the highest 1 are 0; 32 of 0.
[[nodiscard]] CodeExpression leading_zeros(const CodeOperand& a);
/// The float with these bits.
[[nodiscard]] CodeExpression float_of_bits(const CodeOperand& a);

/// A number of 16 bits in a float variable that holds two.
struct CodeHalf {
  DataType type;     ///< bf16 or f16
  std::string pair;  ///< the variable
  bool is_high;
};
/// Sets `name` to it as fp32, exactly; also to denormals, infinities and NaN. Uses the variables
/// `half`, `sign` and `is_endless`.
void widen_half(CudaCode& code, std::string_view name, const CodeHalf& of);

}  // namespace spjit
