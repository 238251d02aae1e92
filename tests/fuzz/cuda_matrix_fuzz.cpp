// A of a CUDA kernel that reads it, behind the first line, which is the record of the kernel: what
// is read fits the record, is the same after it was written, and rows as kernels read them are
// those of A.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/json_text.hpp"
#include "kernels/cuda/csr/csr_rows.hpp"
#include "kernels/cuda/launch/cuda_matrix.hpp"
#include "kernels/cuda/launch/cuda_reading.hpp"
#include "tests/fuzz/fuzz_support.hpp"

namespace spjit::fuzz {
namespace {

/// Every entry of A is in the row that `order` says, at its place.
void check_rows(const CsrMatrix& matrix, const CudaProgram& program) {
  const CsrRows rows(matrix, program.layer.convolution);
  expect(std::ssize(rows.order) == matrix.rows && std::ssize(rows.begins) == matrix.rows &&
             std::ssize(rows.lengths) == matrix.rows,
         "other rows than A's");
  std::vector<bool> is_there(static_cast<std::size_t>(matrix.rows), false);
  for (std::size_t i = 0; i < rows.order.size(); ++i) {
    const std::uint32_t row = rows.order[i];
    expect(row < is_there.size() && !is_there[row], "a row that is there twice, or not in A");
    is_there[row] = true;
    expect(rows.lengths[i] == static_cast<std::size_t>(matrix.row_ptrs[row + 1]) -
                                  static_cast<std::size_t>(matrix.row_ptrs[row]),
           "a row of another length");
    expect(rows.begins[i] >= 0 && rows.begins[i] + rows.lengths[i] <= rows.entries,
           "a row past the entries");
  }
  expect(std::ssize(rows.columns) == rows.entries, "other entries than there are");
  expect(std::ranges::all_of(rows.columns,
                             [&](std::uint32_t column) {
                               return column == 0 ||
                                      column < static_cast<std::size_t>(program.cols);
                             }),
         "a column past A's");
}

void run(std::string_view text) {
  const std::size_t line = std::min(text.find('\n'), text.size());
  constexpr std::size_t k_fixed = std::size_t{64} << 10;
  const auto record =
      read_within(64 * line + k_fixed, {}, [&] { return parse_json(text.substr(0, line)); });
  if (!record) return;
  const auto program = read_within(
      64 * line + k_fixed, {}, [&] { return read_cuda_program(*record, k_most_reading_distance); });
  if (!program) return;
  const Bytes file = std::as_bytes(std::span(text.substr(std::min(line + 1, text.size()))));
  const auto matrix = read_within(4 * file.size() + k_fixed, {},
                                  [&] { return read_cuda_matrix(file, *program, {}); });
  if (!matrix) return;
  expect(matrix->rows == program->rows && matrix->cols == program->cols &&
             std::ssize(matrix->col_idxs) == program->nnz,
         "a matrix of other sizes than the record's");
  expect(std::ranges::equal(write_cuda_matrix(*matrix, !program->layer.runtime_values, {}), file),
         "the matrix is another file after writing");
  check_rows(*matrix, *program);
}

}  // namespace
}  // namespace spjit::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  spjit::fuzz::run(spjit::fuzz::as_text(spjit::fuzz::as_bytes(data, size)));
  return 0;
}
