#pragma once

#include <string_view>
#include <vector>

#include "matrix/npy_header.hpp"
#include "spjit/matrix.hpp"
#include "spjit/matrix_io.hpp"

namespace spjit {

/// One array: its header and its elements, still as the file has them.
struct NpyArray {
  NpyHeader header;
  Bytes data;  ///< view of the bytes given to parse_npy_array()
};

/// The bytes of a `.npy` file taken apart, without decoding elements. Throws IoError.
[[nodiscard]] NpyArray parse_npy_array(Bytes bytes, std::string_view name);

/// The elements in storage order as fp32, from any real dtype (bool: 0 and 1). Throws IoError for
/// text, and for a finite number that does not fit fp32.
[[nodiscard]] std::vector<float> decode_floats(const NpyArray& array, std::string_view name);

/// The elements in storage order as 64-bit integers. Throws IoError if the dtype is not an integer
/// one, or an element does not fit.
[[nodiscard]] std::vector<std::int64_t> decode_integers(const NpyArray& array,
                                                        std::string_view name);

/// The single element of a text array (dtype S or U), ASCII only. Throws IoError.
[[nodiscard]] std::string decode_text(const NpyArray& array, std::string_view name);

/// An array of one dimension (as a single row) or two, row-major. Throws IoError.
[[nodiscard]] DenseMatrix decode_dense(const NpyArray& array, std::string_view name);

/// A dense array as CSR; its zeros are left out. Throws IoError, also for more rows than
/// most_rows() allows.
[[nodiscard]] CsrMatrix csr_from_array(const NpyArray& array, std::string_view name);

/// The bytes of a `.npy` file as a matrix. Memory: up to 8 bytes for each element. Throws IoError;
/// `name` stands for the file in it.
[[nodiscard]] CsrMatrix parse_npy(Bytes bytes, std::string_view name, const LoadOptions& options);

}  // namespace spjit
