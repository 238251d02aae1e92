#include "kernels/cuda/launch/cuda_matrix.hpp"

#include <cstring>

#include "base/arithmetic.hpp"
#include "matrix/cancellable.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

template <class Element>
void append(std::vector<std::byte>& file, const std::vector<Element>& elements,
            const Cancellation& cancel) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(elements));
  for_each_piece(std::ssize(bytes), cancel, [&](std::int64_t begin, std::int64_t end) {
    const auto piece = bytes.subspan(to_size(begin), to_size(end - begin));
    file.insert(file.end(), piece.begin(), piece.end());
  });
}

/// Takes an array from the front of what is left of a file.
template <class Element>
std::vector<Element> taken(std::span<const std::byte>& left, std::int64_t count) {
  std::vector<Element> elements(to_size(count));
  const std::size_t bytes = elements.size() * sizeof(Element);
  if (bytes > 0) std::memcpy(elements.data(), left.data(), bytes);
  left = left.subspan(bytes);
  return elements;
}

}  // namespace

std::vector<std::byte> write_cuda_matrix(const CsrMatrix& matrix, bool has_values,
                                         const Cancellation& cancel) {
  std::vector<std::byte> file;
  file.reserve(matrix.row_ptrs.size() * sizeof(std::int64_t) +
               matrix.col_idxs.size() * (has_values ? 8 : 4));
  append(file, matrix.row_ptrs, cancel);
  append(file, matrix.col_idxs, cancel);
  if (has_values) append(file, matrix.values, cancel);
  return file;
}

CsrMatrix read_cuda_matrix(std::span<const std::byte> file, const CudaProgram& program,
                           const Cancellation& cancel) {
  const bool has_values = !program.layer.runtime_values;
  constexpr std::int64_t k_most_nnz = std::int64_t{1} << 48;
  const std::int64_t row_bytes = (program.rows + 1) * std::int64_t{sizeof(std::int64_t)};
  if (program.nnz > k_most_nnz ||
      std::ssize(file) != row_bytes + program.nnz * (has_values ? 8 : 4)) {
    throw Error("kernel.matrix: the file has other sizes than the record of its kernel");
  }
  CsrMatrix matrix;
  matrix.rows = program.rows;
  matrix.cols = program.cols;
  matrix.row_ptrs = taken<std::int64_t>(file, program.rows + 1);
  matrix.col_idxs = taken<std::int32_t>(file, program.nnz);
  matrix.values =
      has_values ? taken<float>(file, program.nnz) : std::vector<float>(to_size(program.nnz));
  validate(matrix, cancel);
  if (!has_sorted_rows(matrix, cancel)) {
    throw Error("kernel.matrix: the columns of a row do not ascend");
  }
  return matrix;
}

}  // namespace spjit
