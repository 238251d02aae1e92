#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "matrix/coordinate.hpp"
#include "matrix/limits.hpp"
#include "matrix/pattern_value.hpp"
#include "matrix/readers.hpp"
#include "matrix/text_lines.hpp"

namespace spjit {
namespace {

struct Header {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t nnz = 0;
};

// Integers on one line need a digit and a separator each: no honest header asks for more.
std::int64_t most_integers_in(std::string_view line) {
  return static_cast<std::int64_t>((line.size() + 1) / 2);
}

std::int64_t next_integer(const TextLines& lines, Words& words, const char* what) {
  const std::string_view word = words.next();
  if (word.empty()) {
    lines.fail(fmt::format("{} is missing: expected \"rows, cols, nnz\"", what));
  }
  const std::optional<std::int64_t> value = parse_integer(word);
  if (!value) {
    lines.fail(fmt::format("{} is {}: expected an integer", what, quoted_word(word)));
  }
  return *value;
}

Header parse_header(TextLines& lines) {
  if (!lines.next()) {
    lines.fail("the file is empty: expected \"rows, cols, nnz\"");
  }
  Words words(lines.line(), true);
  Header header;
  header.rows = next_integer(lines, words, "rows");
  header.cols = next_integer(lines, words, "cols");
  header.nnz = next_integer(lines, words, "nnz");
  if (const std::string_view extra = words.next(); !extra.empty()) {
    lines.fail(fmt::format("{} follows nnz: expected \"rows, cols, nnz\"", quoted_word(extra)));
  }
  if (header.rows < 0 || header.rows > k_max_dimension || header.cols < 0 ||
      header.cols > k_max_dimension) {
    lines.fail(fmt::format("the header says {} x {}: expected 0 to {} rows and columns",
                           header.rows, header.cols, k_max_dimension));
  }
  if (header.nnz < 0 || header.nnz > header.rows * header.cols) {
    lines.fail(fmt::format("the header says nnz = {}: expected 0 to rows * cols = {}", header.nnz,
                           header.rows * header.cols));
  }
  return header;
}

// The words of the current line as `expected` integers in [0, bound).
template <typename Integer>
std::vector<Integer> parse_integers(const TextLines& lines, const char* what, std::int64_t expected,
                                    std::int64_t bound) {
  std::vector<Integer> integers;
  integers.reserve(static_cast<std::size_t>(std::min(expected, most_integers_in(lines.line()))));
  Words words(lines.line());
  std::int64_t count = 0;
  for (std::string_view word = words.next(); !word.empty(); word = words.next(), ++count) {
    if (count >= expected) {
      continue;
    }
    const std::optional<std::int64_t> value = parse_integer(word);
    if (!value) {
      lines.fail(fmt::format("{} {} is {}: expected an integer from 0 to {}", what, count,
                             quoted_word(word), bound - 1));
    }
    if (*value < 0 || *value >= bound) {
      lines.fail(fmt::format("{} {} is {}: expected 0 to {}", what, count, *value, bound - 1));
    }
    integers.push_back(static_cast<Integer>(*value));
  }
  if (count != expected) {
    lines.fail(fmt::format("the line has {} {}s: the header asks for {}", count, what, expected));
  }
  return integers;
}

std::vector<std::int64_t> parse_row_ptrs(TextLines& lines, const Header& header) {
  if (!lines.next()) {
    lines.fail(fmt::format("the line of row offsets is missing: expected {}", header.rows + 1));
  }
  std::vector<std::int64_t> ptrs = parse_integers<std::int64_t>(
      lines, "row offset", header.rows + 1, std::numeric_limits<std::int64_t>::max());
  if (ptrs.front() != 0) {
    lines.fail(fmt::format("row offset 0 is {}: expected 0", ptrs.front()));
  }
  const auto drop = std::adjacent_find(ptrs.begin(), ptrs.end(), std::greater<>());
  if (drop != ptrs.end()) {
    lines.fail(fmt::format("row offsets fall from {} to {} at row {}: expected ascending", drop[0],
                           drop[1], drop - ptrs.begin()));
  }
  if (ptrs.back() != header.nnz) {
    lines.fail(fmt::format("the last row offset is {}: the header says nnz = {}", ptrs.back(),
                           header.nnz));
  }
  return ptrs;
}

std::vector<std::int32_t> parse_col_idxs(TextLines& lines, const Header& header) {
  if (!lines.next()) {
    if (header.nnz == 0) {
      return {};
    }
    lines.fail(fmt::format("the line of column indices is missing: expected {}", header.nnz));
  }
  return parse_integers<std::int32_t>(lines, "column index", header.nnz, header.cols);
}

}  // namespace

std::int64_t numbers_of_smtx(TextLines& head) {
  const Header header = parse_header(head);
  return header.rows + 1 + header.nnz;
}

CsrMatrix parse_smtx(std::string_view text, std::string_view name, const LoadOptions& options) {
  TextLines lines(text, name);
  const Header header = parse_header(lines);
  CsrMatrix matrix;
  matrix.rows = header.rows;
  matrix.cols = header.cols;
  matrix.row_ptrs = parse_row_ptrs(lines, header);
  matrix.col_idxs = parse_col_idxs(lines, header);
  matrix.values.resize(matrix.col_idxs.size());
  matrix.sort_columns();
  if (const std::optional<Position> twin = find_duplicate(matrix)) {
    lines.fail(
        fmt::format("row {} has column {} twice: expected each column once", twin->row, twin->col));
  }
  while (lines.next()) {
    if (const std::string_view extra = Words(lines.line()).next(); !extra.empty()) {
      lines.fail(
          fmt::format("{} follows the column indices: expected three lines", quoted_word(extra)));
    }
  }
  fill_pattern_values(matrix, options.value_seed);
  return matrix;
}

}  // namespace spjit
