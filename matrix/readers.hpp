#pragma once

/// @file
/// Files of matrices, read from memory; those of a single array are npy_reader.hpp's.

#include <cstdint>
#include <string>
#include <string_view>

#include "matrix/npy_header.hpp"
#include "matrix/text_lines.hpp"
#include "spjit/matrix.hpp"
#include "spjit/matrix_io.hpp"

namespace spjit {

/// How many numbers a text has, as its first lines say; none that repeats a position.
[[nodiscard]] std::int64_t numbers_of_mtx(TextLines& head);
[[nodiscard]] std::int64_t numbers_of_smtx(TextLines& head);

/// The text of a `.smtx` file as a matrix: `rows, cols, nnz` (commas or blanks between) on the
/// first line, rows + 1 offsets on the second, nnz columns on the third (which may be missing if
/// nnz is 0), nothing but blank lines after. Rows may be unsorted. Values are pattern_value()'s.
/// Memory: about 8 bytes for each byte of text. Throws IoError; `name` stands for the file in it.
[[nodiscard]] CsrMatrix parse_smtx(std::string_view text, std::string_view name,
                                   const LoadOptions& options);

/// The text of a `.mtx` (Matrix Market) file as a matrix; see load_matrix() and
/// docs/use/matrices.md. Memory: about 8 bytes for each byte of text, plus the row offsets. Throws
/// IoError, and NotSupported for a matrix that is not real; `name` stands for the file in both.
[[nodiscard]] CsrMatrix parse_mtx(std::string_view text, std::string_view name,
                                  const LoadOptions& options);

/// The bytes of a `.npz` file as a matrix: what scipy.sparse.save_npz writes (format csr, csc or
/// coo), or an archive with a single dense array. Memory: about 40 bytes for each nonzero beside
/// the decompressed arrays. Throws IoError; `name` stands for the file in it.
[[nodiscard]] CsrMatrix parse_npz(Bytes bytes, std::string_view name, const LoadOptions& options);

/// The dense array called `array` (without ".npy"; empty: the only one) of a `.npz` file. Throws
/// IoError.
[[nodiscard]] DenseMatrix parse_npz_dense(Bytes bytes, std::string_view name,
                                          const std::string& array);

}  // namespace spjit
