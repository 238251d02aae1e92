#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "matrix/coordinate.hpp"
#include "matrix/mtx_header.hpp"
#include "matrix/readers.hpp"
#include "matrix/text_lines.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

float parse_number(const TextLines& lines, Words& words, const char* what) {
  const std::string_view word = words.next();
  if (word.empty()) {
    lines.fail(fmt::format("the {} is missing", what));
  }
  const ParsedFloat number = parse_float(word);
  if (number.error == NumberError::not_a_number) {
    lines.fail(fmt::format("the {} is {}: expected a number", what, quoted_word(word)));
  }
  if (number.error == NumberError::too_large) {
    lines.fail(fmt::format("the {} {} does not fit fp32: expected at most 3.4028235e38", what,
                           quoted_word(word)));
  }
  return number.value;
}

float parse_integer_value(const TextLines& lines, Words& words) {
  Words ahead = words;
  const std::string_view word = ahead.next();
  if (word.find_first_not_of("+-0123456789") != std::string_view::npos) {
    lines.fail(fmt::format("the value is {}: the banner says integer", quoted_word(word)));
  }
  return parse_number(lines, words, "value");
}

float parse_complex_value(const TextLines& lines, Words& words) {
  const float real = parse_number(lines, words, "real part");
  const float imaginary = parse_number(lines, words, "imaginary part");
  if (imaginary != 0.0F) {
    throw NotSupported(lines.located(
        fmt::format("the imaginary part is {}: expected 0, matrices are real here", imaginary)));
  }
  return real;
}

float parse_value(const TextLines& lines, Words& words, const MtxHeader& header) {
  switch (header.field) {
    case MtxField::real:
      return parse_number(lines, words, "value");
    case MtxField::integer:
      return parse_integer_value(lines, words);
    case MtxField::complex:
      return parse_complex_value(lines, words);
    case MtxField::pattern:
      break;
  }
  return 0;
}

std::int32_t parse_index(const TextLines& lines, Words& words, const char* what,
                         std::int64_t size) {
  const std::string_view word = words.next();
  const std::optional<std::int64_t> index = parse_integer(word);
  if (!index) {
    lines.fail(fmt::format("the {} is {}: expected an integer from 1 to {}", what,
                           quoted_word(word), size));
  }
  if (*index < 1 || *index > size) {
    lines.fail(fmt::format("the {} is {}: expected 1 to {}", what, *index, size));
  }
  return static_cast<std::int32_t>(*index - 1);
}

void expect_end_of_line(const TextLines& lines, Words& words) {
  if (const std::string_view extra = words.next(); !extra.empty()) {
    lines.fail(
        fmt::format("the entry goes on with {}: expected the end of the line", quoted_word(extra)));
  }
}

void go_to_entry(TextLines& lines, const MtxHeader& header, std::int64_t done) {
  if (!next_content_line(lines)) {
    lines.fail(fmt::format("the file ends after {} of {} entries", done, header.stored));
  }
}

void expect_end_of_file(TextLines& lines, const MtxHeader& header) {
  if (next_content_line(lines)) {
    lines.fail(
        fmt::format("the file goes on after the {} entries of its size line", header.stored));
  }
}

CoordinateEntry parse_entry(const TextLines& lines, const MtxHeader& header,
                            const LoadOptions& options) {
  Words words(lines.line());
  CoordinateEntry entry;
  entry.row = parse_index(lines, words, "row", header.rows);
  entry.col = parse_index(lines, words, "column", header.cols);
  entry.value = header.field == MtxField::pattern
                    ? pattern_value(options.value_seed, entry.row, entry.col)
                    : parse_value(lines, words, header);
  expect_end_of_line(lines, words);
  if (header.symmetry == MtxSymmetry::skew_symmetric && entry.row == entry.col) {
    lines.fail(fmt::format("entry ({0}, {0}) is on the diagonal: a skew-symmetric file stores none",
                           entry.row + 1));
  }
  return entry;
}

std::vector<CoordinateEntry> parse_entries(TextLines& lines, const MtxHeader& header,
                                           const LoadOptions& options) {
  std::vector<CoordinateEntry> entries;
  const bool mirrored = header.symmetry != MtxSymmetry::general;
  entries.reserve(static_cast<std::size_t>(header.stored) * (mirrored ? 2 : 1));
  for (std::int64_t done = 0; done < header.stored; ++done) {
    go_to_entry(lines, header, done);
    entries.push_back(parse_entry(lines, header, options));
  }
  expect_end_of_file(lines, header);
  return entries;
}

// Behind the stored entries, so that a file sorted by columns still gives sorted rows.
void append_mirrored(std::vector<CoordinateEntry>& entries, const MtxHeader& header) {
  const float sign = header.symmetry == MtxSymmetry::skew_symmetric ? -1.0F : 1.0F;
  for (std::size_t at = 0; at < static_cast<std::size_t>(header.stored); ++at) {
    const CoordinateEntry entry = entries[at];
    if (entry.row != entry.col) {
      entries.push_back({entry.col, entry.row, sign * entry.value});
    }
  }
}

// Which line repeats a position matters only to a file that is refused, so that it is looked for
// again from the start instead of kept with every entry.
[[noreturn]] void fail_duplicate(TextLines lines, const MtxHeader& header, Position twin) {
  bool seen = false;
  const LoadOptions options;
  for (;;) {
    go_to_entry(lines, header, 0);
    const CoordinateEntry entry = parse_entry(lines, header, options);
    const bool same = entry.row == twin.row && entry.col == twin.col;
    const bool mirrored =
        header.symmetry != MtxSymmetry::general && entry.row == twin.col && entry.col == twin.row;
    if ((same || mirrored) && seen) {
      lines.fail(fmt::format("entry ({}, {}) was given before: expected each position once",
                             entry.row + 1, entry.col + 1));
    }
    seen = seen || same || mirrored;
  }
}

CsrMatrix parse_coordinate(TextLines lines, const MtxHeader& header, const LoadOptions& options) {
  const TextLines start = lines;
  std::vector<CoordinateEntry> entries = parse_entries(lines, header, options);
  if (header.symmetry != MtxSymmetry::general) {
    append_mirrored(entries, header);
  }
  CsrMatrix matrix = csr_from_coordinates(entries, header.rows, header.cols);
  if (const std::optional<Position> twin = find_duplicate(matrix)) {
    fail_duplicate(start, header, *twin);
  }
  if (!options.keep_explicit_zeros) {
    matrix.drop_explicit_zeros();
  }
  return matrix;
}

// The first row an array file stores of a column.
std::int64_t first_stored_row(const MtxHeader& header, std::int64_t col) {
  switch (header.symmetry) {
    case MtxSymmetry::general:
      return 0;
    case MtxSymmetry::skew_symmetric:
      return col + 1;
    case MtxSymmetry::symmetric:
    case MtxSymmetry::hermitian:
      break;
  }
  return col;
}

CsrMatrix parse_array(TextLines lines, const MtxHeader& header) {
  std::vector<float> dense(static_cast<std::size_t>(header.rows * header.cols), 0.0F);
  const bool mirrored = header.symmetry != MtxSymmetry::general;
  const float sign = header.symmetry == MtxSymmetry::skew_symmetric ? -1.0F : 1.0F;
  std::int64_t done = 0;
  for (std::int64_t col = 0; col < header.cols && header.rows > 0; ++col) {
    for (std::int64_t row = first_stored_row(header, col); row < header.rows; ++row, ++done) {
      go_to_entry(lines, header, done);
      Words words(lines.line());
      const float value = parse_value(lines, words, header);
      expect_end_of_line(lines, words);
      dense[static_cast<std::size_t>(row * header.cols + col)] = value;
      if (mirrored && row != col) {
        dense[static_cast<std::size_t>(col * header.cols + row)] = sign * value;
      }
    }
  }
  expect_end_of_file(lines, header);
  return csr_from_dense(dense.data(), header.rows, header.cols);
}

}  // namespace

std::int64_t numbers_of_mtx(TextLines& head) {
  const MtxHeader header = read_mtx_header(head);
  constexpr std::int64_t k_most_entries = std::int64_t{1} << 48;
  const std::int64_t entries = std::min({header.stored, header.rows * header.cols, k_most_entries});
  const std::int64_t indices = header.format == MtxFormat::coordinate ? 2 : 0;
  const std::int64_t values = header.field == MtxField::pattern   ? 0
                              : header.field == MtxField::complex ? 2
                                                                  : 1;
  return entries * (indices + values);
}

CsrMatrix parse_mtx(std::string_view text, std::string_view name, const LoadOptions& options) {
  TextLines lines(text, name);
  const MtxHeader header = parse_mtx_header(lines, text.size());
  if (header.format == MtxFormat::array) {
    return parse_array(lines, header);
  }
  return parse_coordinate(lines, header, options);
}

}  // namespace spjit
