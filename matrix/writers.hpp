#pragma once

/// @file
/// Matrices and arrays as the bytes of files.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "spjit/matrix.hpp"

namespace spjit {

/// A valid matrix as Matrix Market text, coordinate real general, row by row.
[[nodiscard]] std::string format_mtx(const CsrMatrix& matrix);

/// `data` as a `.npy` array, format version 1.0, C order: with a header before it, `descr` as in
/// "<f4", `shape` as Python writes a tuple, "(2, 3)".
[[nodiscard]] std::vector<std::byte> make_npy(std::string_view descr, std::string_view shape,
                                              std::span<const std::byte> data);

/// A valid matrix as the archive scipy.sparse.save_npz writes for a csr_matrix: format, shape,
/// data `<f4`, indices and indptr `<i4` (`<i8` from 2^31 entries). Throws IoError beginning with
/// `name`.
[[nodiscard]] std::vector<std::byte> format_npz(const CsrMatrix& matrix, bool compress,
                                                std::string_view name);

}  // namespace spjit
