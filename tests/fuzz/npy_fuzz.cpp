// .npy: what is read is a valid matrix, and the same after it was written as .npy again. Integers
// and text are decoded too, as from an archive.

#include <fmt/format.h>

#include <vector>

#include "matrix/npy_reader.hpp"
#include "matrix/writers.hpp"
#include "tests/fuzz/matrix_checks.hpp"

namespace spjit::fuzz {
namespace {

constexpr std::size_t k_per_byte = 16;
constexpr Refusal k_refusal = {"x.npy", false};

std::vector<float> dense_values(const CsrMatrix& matrix) {
  std::vector<float> values(static_cast<std::size_t>(matrix.rows * matrix.cols), 0.0F);
  for (std::size_t row = 0; row + 1 < matrix.row_ptrs.size(); ++row) {
    for (auto at = static_cast<std::size_t>(matrix.row_ptrs[row]);
         at < static_cast<std::size_t>(matrix.row_ptrs[row + 1]); ++at) {
      const auto col = static_cast<std::size_t>(matrix.col_idxs[at]);
      values[row * static_cast<std::size_t>(matrix.cols) + col] = matrix.values[at];
    }
  }
  return values;
}

void check_matrix(Bytes bytes, std::int64_t rows) {
  const auto matrix = read_within(matrix_allowance(k_per_byte, bytes.size(), rows), k_refusal,
                                  [&] { return parse_npy(bytes, k_refusal.name, {}); });
  if (!matrix) return;
  matrix->validate();
  const std::vector<float> values = dense_values(*matrix);
  const auto written = make_npy("<f4", fmt::format("({}, {})", matrix->rows, matrix->cols),
                                std::as_bytes(std::span(values)));
  expect(same_matrix(parse_npy(written, k_refusal.name, {}), *matrix),
         "the matrix is another after writing and reading");
}

void run(Bytes bytes) {
  const std::size_t most = matrix_allowance(k_per_byte, bytes.size(), 0);
  const auto array =
      read_within(most, k_refusal, [&] { return parse_npy_array(bytes, k_refusal.name); });
  if (!array) return;
  read_within(most, k_refusal, [&] { return decode_integers(*array, k_refusal.name); });
  read_within(most, k_refusal, [&] { return decode_text(*array, k_refusal.name); });
  const std::int64_t rows = array->header.shape.size() == 2 ? array->header.shape.front() : 1;
  if (rows <= k_most_rows) check_matrix(bytes, rows);
}

}  // namespace
}  // namespace spjit::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  spjit::fuzz::run(spjit::fuzz::as_bytes(data, size));
  return 0;
}
