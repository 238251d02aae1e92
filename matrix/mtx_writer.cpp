#include "matrix/mtx_writer.hpp"

#include <array>
#include <charconv>

namespace spjit {
namespace {

// to_chars without a precision is the shortest text that reads back the same fp32.
template <typename Number>
void append_number(std::string& text, Number number) {
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  text.append(digits.data(), end);
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

}  // namespace spjit
