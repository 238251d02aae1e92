#pragma once

#include <string_view>

#include "spjit/matrix.hpp"
#include "spjit/matrix_io.hpp"

namespace spjit {

/// The text of a `.smtx` file as a matrix: `rows, cols, nnz` (commas or blanks between) on the
/// first line, rows + 1 offsets on the second, nnz columns on the third (which may be missing if
/// nnz is 0), nothing but blank lines after. Rows may be unsorted. Values are pattern_value()'s.
/// Memory: about 8 bytes for each byte of text. Throws IoError; `name` stands for the file in it.
[[nodiscard]] CsrMatrix parse_smtx(std::string_view text, std::string_view name,
                                   const LoadOptions& options);

}  // namespace spjit
