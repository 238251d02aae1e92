#pragma once

/// @file
/// The banner and the size line of a Matrix Market file, as in Boisvert, Pozo, Remington, "The
/// Matrix Market exchange formats: initial design", NISTIR 5935, 1996.

#include <cstdint>

#include "matrix/text_lines.hpp"

namespace spjit {

enum class MtxFormat { coordinate, array };
enum class MtxField { real, integer, complex, pattern };
enum class MtxSymmetry { general, symmetric, skew_symmetric, hermitian };

struct MtxHeader {
  MtxFormat format = MtxFormat::coordinate;
  MtxField field = MtxField::real;
  MtxSymmetry symmetry = MtxSymmetry::general;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stored = 0;  ///< entries (coordinate) or numbers (array) the file holds
};

/// Goes to the next line that is neither blank nor a comment; false at the end.
[[nodiscard]] bool next_content_line(TextLines& lines);

/// Reads up to and with the size line. Accepted beside the standard: any case, `double` for real
/// and `unsigned-integer` for integer. Throws IoError for anything illegal and for dimensions over
/// 2^31 - 1.
[[nodiscard]] MtxHeader read_mtx_header(TextLines& lines);

/// The header as read_mtx_header() has it. Throws IoError for more entries than the text can hold,
/// and for more rows than most_rows() allows a text of `text_bytes`.
[[nodiscard]] MtxHeader parse_mtx_header(TextLines& lines, std::size_t text_bytes);

}  // namespace spjit
