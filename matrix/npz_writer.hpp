#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "spjit/matrix.hpp"

namespace spjit {

/// A valid matrix as the archive scipy.sparse.save_npz writes for a csr_matrix: format, shape,
/// data `<f4`, indices and indptr `<i4` (`<i8` from 2^31 entries). Throws IoError beginning with
/// `name`.
[[nodiscard]] std::vector<std::byte> format_npz(const CsrMatrix& matrix, bool compress,
                                                std::string_view name);

}  // namespace spjit
