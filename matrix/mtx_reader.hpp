#pragma once

#include <string_view>

#include "spjit/matrix.hpp"
#include "spjit/matrix_io.hpp"

namespace spjit {

/// The text of a `.mtx` (Matrix Market) file as a matrix; see load_matrix() and docs/matrices.md.
/// Memory: about 8 bytes for each byte of text, plus the row offsets. Throws IoError, and
/// NotSupported for a matrix that is not real; `name` stands for the file in both.
[[nodiscard]] CsrMatrix parse_mtx(std::string_view text, std::string_view name,
                                  const LoadOptions& options);

}  // namespace spjit
