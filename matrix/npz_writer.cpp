#include "matrix/npz_writer.hpp"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <limits>
#include <span>

#include "matrix/npy_writer.hpp"
#include "matrix/zip_archive.hpp"

namespace spjit {
namespace {

static_assert(std::endian::native == std::endian::little, "arrays are written as they lie");

template <typename Range>
std::vector<std::byte> vector_npy(std::string_view descr, const Range& range) {
  return make_npy(descr, fmt::format("({},)", range.size()), std::as_bytes(std::span(range)));
}

// scipy wants both index arrays of one type.
template <typename Index>
std::vector<ZipMember> index_members(const CsrMatrix& matrix, std::string_view descr) {
  const std::vector<Index> indices(matrix.col_idxs.begin(), matrix.col_idxs.end());
  std::vector<Index> offsets;
  offsets.reserve(matrix.row_ptrs.size());
  for (const std::int64_t offset : matrix.row_ptrs) {
    offsets.push_back(static_cast<Index>(offset));
  }
  return {{"indices.npy", vector_npy(descr, indices)}, {"indptr.npy", vector_npy(descr, offsets)}};
}

}  // namespace

std::vector<std::byte> format_npz(const CsrMatrix& matrix, bool compress, std::string_view name) {
  const std::array<std::int64_t, 2> shape = {matrix.rows, matrix.cols};
  const bool is_small = matrix.nnz() <= std::numeric_limits<std::int32_t>::max();
  std::vector<ZipMember> members = is_small ? index_members<std::int32_t>(matrix, "<i4")
                                            : index_members<std::int64_t>(matrix, "<i8");
  members.push_back(
      {"format.npy", make_npy("|S3", "()", std::as_bytes(std::span("csr").first<3>()))});
  members.push_back({"shape.npy", vector_npy("<i8", shape)});
  members.push_back({"data.npy", vector_npy("<f4", matrix.values)});
  return make_zip(members, compress, name);
}

}  // namespace spjit
