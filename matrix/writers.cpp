#include "matrix/writers.hpp"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <charconv>
#include <limits>
#include <span>

#include "matrix/zip_archive.hpp"

namespace spjit {
namespace {

static_assert(std::endian::native == std::endian::little, "arrays are written as they lie");

// to_chars without a precision is the shortest text that reads back the same fp32.
template <typename Number>
void append_number(std::string& text, Number number) {
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  text.append(digits.data(), end);
}

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

std::string format_mtx(const CsrMatrix& matrix) {
  std::string text = "%%MatrixMarket matrix coordinate real general\n";
  append_number(text, matrix.rows);
  text += ' ';
  append_number(text, matrix.cols);
  text += ' ';
  append_number(text, matrix.nnz());
  text += '\n';
  std::size_t at = 0;
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    const auto end = static_cast<std::size_t>(matrix.row_ptrs[static_cast<std::size_t>(row) + 1]);
    for (; at < end; ++at) {
      append_number(text, row + 1);
      text += ' ';
      append_number(text, std::int64_t{matrix.col_idxs[at]} + 1);
      text += ' ';
      append_number(text, matrix.values[at]);
      text += '\n';
    }
  }
  return text;
}

std::vector<std::byte> make_npy(std::string_view descr, std::string_view shape,
                                std::span<const std::byte> data) {
  constexpr std::size_t k_preamble = 10;   // magic, version, length
  constexpr std::size_t k_alignment = 64;  // NumPy starts the data there
  std::string dict =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", descr, shape);
  const std::size_t unpadded = k_preamble + dict.size() + 1;
  dict.append((k_alignment - unpadded % k_alignment) % k_alignment, ' ');
  dict += '\n';
  std::string head("\x93NUMPY\x01\x00", 8);
  head += static_cast<char>(dict.size() & 0xFFU);
  head += static_cast<char>(dict.size() >> 8U);
  head += dict;
  const auto head_bytes = std::as_bytes(std::span(head));
  std::vector<std::byte> bytes;
  bytes.reserve(head_bytes.size() + data.size());
  bytes.insert(bytes.end(), head_bytes.begin(), head_bytes.end());
  bytes.insert(bytes.end(), data.begin(), data.end());
  return bytes;
}

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
