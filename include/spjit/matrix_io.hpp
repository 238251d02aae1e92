#pragma once

/// @file
/// Matrix files in and out: `.smtx`, `.mtx`, `.npy`, `.npz`. docs/use/matrices.md has
/// further rules.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "spjit/export.hpp"
#include "spjit/matrix.hpp"

namespace spjit {

/// How a file becomes a CsrMatrix.
struct LoadOptions {
  /// Explicit zeros of `.mtx` coordinate files and scipy `.npz` files: kept as entries, or dropped.
  /// (`.npy` and `.mtx` array files are dense: their zeros are never entries.)
  bool keep_explicit_zeros = true;
  /// Seed of the values given to pattern-only files (`.smtx`, `.mtx` pattern); see
  /// `pattern_value()`.
  std::uint64_t value_seed = 1;
};

/// The value that a pattern-only file gets for its entry at (row, col), counted from 0. It depends
/// on the arguments alone, and is uniform in [-1, 1) on a grid of 2^-23. With
/// `h = mix(mix(mix(seed) ^ row) ^ col)`, where `mix(x)` is the output of SplitMix64 from state x,
/// it is `(h >> 40) * 2^-23 - 1`. Instead of 0 it is 2^-23. The mirrored entry of a symmetric file
/// copies the value of the entry that the file stores.
[[nodiscard]] SPJIT_EXPORT float pattern_value(std::uint64_t seed, std::int64_t row,
                                               std::int64_t col);

/// Reads a matrix; the format is chosen by the extension (any case), of texts also with `.gz`:
///  - `.smtx`  DLMC: `rows, cols, nnz` / row offsets / columns; pattern only
///  - `.mtx`   Matrix Market coordinate or array, every legal field and symmetry. A complex file is
///             read as its real part if every imaginary part is 0; otherwise NotSupported is
///             thrown, naming file and line of the first that is not
///  - `.npy`   NumPy dense array of a real dtype, C or Fortran order: 2-D, or 1-D as a single row
///  - `.npz`   scipy.sparse.save_npz CSR (also CSC, COO), or an archive with one dense array
/// Rows come back sorted by column and validated. Values are rounded to the nearest fp32. NaN and
/// infinities are taken as they are; a finite number beyond the range of fp32 is refused. Throws
/// IoError: file, line (of text) and reason; also for what is no regular file.
[[nodiscard]] SPJIT_EXPORT CsrMatrix load_matrix(const std::filesystem::path& path,
                                                 const LoadOptions& options = {});

/// How a CsrMatrix becomes a file.
struct SaveOptions {
  bool compress = true;  ///< `.npz`: deflate the arrays, or store them
};

/// Writes `.mtx` or `.npz`, by extension. `.mtx` is coordinate real general, with the shortest
/// decimal text that reads back the same bits; of a NaN only the sign survives. `.npz` is CSR that
/// scipy.sparse.load_npz reads. The same matrix gives the same bytes. Published by rename: the file
/// is whole or absent. Throws IoError, and InvalidMatrix if the matrix is not valid.
SPJIT_EXPORT void save_matrix(const CsrMatrix& matrix, const std::filesystem::path& path,
                              const SaveOptions& options = {});

/// A dense row-major fp32 array `[rows x cols]`, for B, C and test inputs.
struct DenseMatrix {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<float> values;  ///< rows * cols, row-major
};

/// Reads a `.npy` array, or the array called `name` in an `.npz` (empty: the only one there). It
/// has any real dtype and one or two dimensions; one becomes a single row. Throws IoError.
[[nodiscard]] SPJIT_EXPORT DenseMatrix load_dense(const std::filesystem::path& path,
                                                  const std::string& name = {});

/// Writes a `.npy` (fp32, C order), published by rename. Throws IoError, and InvalidArgument if
/// `values` does not hold rows * cols numbers.
SPJIT_EXPORT void save_dense(const DenseMatrix& matrix, const std::filesystem::path& path);

}  // namespace spjit
