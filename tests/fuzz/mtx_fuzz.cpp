// .mtx: what is read is a valid matrix, the same after it was written as .mtx again, and without
// explicit zeros what dropping them leaves.

#include "matrix/mtx_header.hpp"
#include "matrix/readers.hpp"
#include "matrix/writers.hpp"
#include "tests/fuzz/matrix_checks.hpp"

namespace spjit::fuzz {
namespace {

std::int64_t rows_announced(std::string_view text) {
  try {
    TextLines lines(text, "x.mtx");
    return parse_mtx_header(lines, text.size()).rows;
  } catch (const Error&) {
    return 0;  // parse_mtx() refuses it too
  }
}

void run(std::string_view text) {
  constexpr std::size_t k_per_byte = 16;
  const std::int64_t rows = rows_announced(text);
  if (rows > k_most_rows) return;
  const auto matrix = read_within(matrix_allowance(k_per_byte, text.size(), rows), {"x.mtx", true},
                                  [&] { return parse_mtx(text, "x.mtx", {}); });
  if (!matrix) return;
  matrix->validate();
  expect(same_matrix(parse_mtx(format_mtx(*matrix), "x.mtx", {}), *matrix),
         "the matrix is another after writing and reading");

  LoadOptions without_zeros;
  without_zeros.keep_explicit_zeros = false;
  CsrMatrix dropped = *matrix;
  dropped.drop_explicit_zeros();
  expect(same_matrix(parse_mtx(text, "x.mtx", without_zeros), dropped),
         "the reader drops other entries than explicit zeros");
}

}  // namespace
}  // namespace spjit::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  spjit::fuzz::run(spjit::fuzz::as_text(spjit::fuzz::as_bytes(data, size)));
  return 0;
}
