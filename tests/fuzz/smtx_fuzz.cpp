// .smtx: what is read is a valid matrix, and the same after it was written as .smtx again.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "matrix/readers.hpp"
#include "tests/fuzz/matrix_checks.hpp"

namespace spjit::fuzz {
namespace {

std::string format_smtx(const CsrMatrix& matrix) {
  return fmt::format("{}, {}, {}\n{}\n{}\n", matrix.rows, matrix.cols, matrix.nnz(),
                     fmt::join(matrix.row_ptrs, " "), fmt::join(matrix.col_idxs, " "));
}

void run(std::string_view text) {
  constexpr std::size_t k_per_byte = 16;
  const auto matrix = read_within(matrix_allowance(k_per_byte, text.size(), 0), {"x.smtx", true},
                                  [&] { return parse_smtx(text, "x.smtx", {}); });
  if (!matrix) return;
  matrix->validate();
  expect(same_matrix(parse_smtx(format_smtx(*matrix), "x.smtx", {}), *matrix),
         "the matrix is another after writing and reading");
}

}  // namespace
}  // namespace spjit::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  spjit::fuzz::run(spjit::fuzz::as_text(spjit::fuzz::as_bytes(data, size)));
  return 0;
}
