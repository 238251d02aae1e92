#pragma once

#include <string>
#include <string_view>

#include "matrix/npy_header.hpp"
#include "spjit/matrix.hpp"
#include "spjit/matrix_io.hpp"

namespace spjit {

/// The bytes of a `.npz` file as a matrix: what scipy.sparse.save_npz writes (format csr, csc or
/// coo), or an archive with a single dense array. Memory: about 40 bytes for each nonzero beside
/// the decompressed arrays. Throws IoError; `name` stands for the file in it.
[[nodiscard]] CsrMatrix parse_npz(Bytes bytes, std::string_view name, const LoadOptions& options);

/// The dense array called `array` (without ".npy"; empty: the only one) of a `.npz` file. Throws
/// IoError.
[[nodiscard]] DenseMatrix parse_npz_dense(Bytes bytes, std::string_view name,
                                          const std::string& array);

}  // namespace spjit
