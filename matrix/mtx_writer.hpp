#pragma once

#include <string>

#include "spjit/matrix.hpp"

namespace spjit {

/// A valid matrix as Matrix Market text, coordinate real general, row by row.
[[nodiscard]] std::string format_mtx(const CsrMatrix& matrix);

}  // namespace spjit
