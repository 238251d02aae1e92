#pragma once

#include "spjit/matrix.hpp"

namespace spjit {

/// Gives every entry of `matrix` its pattern_value().
void fill_pattern_values(CsrMatrix& matrix, std::uint64_t seed);

}  // namespace spjit
