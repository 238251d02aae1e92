#include "matrix/mtx_header.hpp"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <string>

#include "matrix/limits.hpp"

namespace spjit {
namespace {

template <typename Value>
struct Keyword {
  std::string_view name;
  Value value;
};

constexpr std::array<Keyword<MtxFormat>, 2> k_formats = {
    {{"coordinate", MtxFormat::coordinate}, {"array", MtxFormat::array}}};
constexpr std::array<Keyword<MtxField>, 6> k_fields = {{{"real", MtxField::real},
                                                        {"double", MtxField::real},
                                                        {"integer", MtxField::integer},
                                                        {"unsigned-integer", MtxField::integer},
                                                        {"complex", MtxField::complex},
                                                        {"pattern", MtxField::pattern}}};
constexpr std::array<Keyword<MtxSymmetry>, 4> k_symmetries = {
    {{"general", MtxSymmetry::general},
     {"symmetric", MtxSymmetry::symmetric},
     {"skew-symmetric", MtxSymmetry::skew_symmetric},
     {"hermitian", MtxSymmetry::hermitian}}};

// Not std::tolower: that one asks the locale.
std::string lower(std::string_view word) {
  std::string text(word);
  for (char& c : text) {
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return text;
}

template <typename Value, std::size_t Count>
Value parse_keyword(const TextLines& lines, Words& words, const char* what,
                    const std::array<Keyword<Value>, Count>& keywords) {
  const std::string_view word = words.next();
  std::string known;
  for (const Keyword<Value>& keyword : keywords) {
    if (lower(word) == keyword.name) {
      return keyword.value;
    }
    known += (known.empty() ? "" : ", ") + std::string(keyword.name);
  }
  lines.fail(fmt::format("the {} in the banner is {}: expected one of {}", what, quoted_word(word),
                         known));
}

void refuse_illegal_combination(const TextLines& lines, const MtxHeader& header) {
  if (header.format == MtxFormat::array && header.field == MtxField::pattern) {
    lines.fail("the banner says array pattern: a pattern file must be coordinate");
  }
  if (header.symmetry == MtxSymmetry::hermitian && header.field != MtxField::complex) {
    lines.fail("the banner says hermitian, but not complex: only complex matrices are hermitian");
  }
  if (header.symmetry == MtxSymmetry::skew_symmetric && header.field == MtxField::pattern) {
    lines.fail("the banner says pattern skew-symmetric: a skew-symmetric file must have values");
  }
}

MtxHeader parse_banner(TextLines& lines) {
  constexpr const char* k_example = "\"%%MatrixMarket matrix coordinate real general\"";
  if (!lines.next()) {
    lines.fail(fmt::format("the file is empty: expected a banner such as {}", k_example));
  }
  Words words(lines.line());
  if (const std::string_view word = words.next(); lower(word) != "%%matrixmarket") {
    lines.fail(fmt::format("the file starts with {}: expected a banner such as {}",
                           quoted_word(word), k_example));
  }
  if (const std::string_view object = words.next(); lower(object) != "matrix") {
    lines.fail(fmt::format("the object in the banner is {}: expected matrix", quoted_word(object)));
  }
  MtxHeader header;
  header.format = parse_keyword(lines, words, "format", k_formats);
  header.field = parse_keyword(lines, words, "field", k_fields);
  header.symmetry = parse_keyword(lines, words, "symmetry", k_symmetries);
  if (const std::string_view extra = words.next(); !extra.empty()) {
    lines.fail(
        fmt::format("{} follows the symmetry in the banner: expected nothing", quoted_word(extra)));
  }
  refuse_illegal_combination(lines, header);
  return header;
}

std::int64_t parse_size(const TextLines& lines, Words& words, const char* what) {
  const std::string_view word = words.next();
  const std::optional<std::int64_t> value = parse_integer(word);
  if (word.empty()) {
    lines.fail(fmt::format("the size line has no number of {}", what));
  }
  if (!value || *value < 0) {
    lines.fail(
        fmt::format("the number of {} is {}: expected an integer from 0", what, quoted_word(word)));
  }
  return *value;
}

// Numbers an array file stores; at most 2^62.
std::int64_t array_size(const MtxHeader& header) {
  switch (header.symmetry) {
    case MtxSymmetry::general:
      return header.rows * header.cols;
    case MtxSymmetry::skew_symmetric:
      return header.rows * (header.rows - 1) / 2;
    case MtxSymmetry::symmetric:
    case MtxSymmetry::hermitian:
      break;
  }
  return header.rows * (header.rows + 1) / 2;
}

// The shortest line of an entry: "1 1 0" and its end, say.
std::int64_t least_entry_bytes(const MtxHeader& header) {
  const std::int64_t indices = header.format == MtxFormat::coordinate ? 4 : 0;
  switch (header.field) {
    case MtxField::pattern:
      return indices;
    case MtxField::complex:
      return indices + 4;
    case MtxField::real:
    case MtxField::integer:
      break;
  }
  return indices + 2;
}

void check_sizes(const TextLines& lines, const MtxHeader& header, std::size_t text_bytes) {
  if (header.rows != header.cols && header.symmetry != MtxSymmetry::general) {
    lines.fail(fmt::format("the size is {} x {}: the banner says symmetric, so expected a square",
                           header.rows, header.cols));
  }
  if (header.rows > most_rows(text_bytes)) {
    lines.fail(fmt::format("the size line asks for {} rows: a file of {} bytes may have {}",
                           header.rows, text_bytes, most_rows(text_bytes)));
  }
  // The last line may lack its end.
  const auto left = static_cast<std::int64_t>(lines.bytes_left()) + 1;
  if (header.stored > left / least_entry_bytes(header)) {
    lines.fail(
        fmt::format("the size line asks for {} entries: the rest of the file cannot hold "
                    "more than {}",
                    header.stored, left / least_entry_bytes(header)));
  }
}

}  // namespace

bool next_content_line(TextLines& lines) {
  while (lines.next()) {
    const std::string_view word = Words(lines.line()).next();
    if (!word.empty() && word.front() != '%') {
      return true;
    }
  }
  return false;
}

MtxHeader read_mtx_header(TextLines& lines) {
  MtxHeader header = parse_banner(lines);
  if (!next_content_line(lines)) {
    lines.fail("the file ends before the size line");
  }
  Words words(lines.line());
  header.rows = parse_size(lines, words, "rows");
  header.cols = parse_size(lines, words, "columns");
  if (header.rows > k_max_dimension || header.cols > k_max_dimension) {
    lines.fail(fmt::format("the size is {} x {}: expected 0 to {} rows and columns", header.rows,
                           header.cols, k_max_dimension));
  }
  header.stored = header.format == MtxFormat::coordinate ? parse_size(lines, words, "entries")
                                                         : array_size(header);
  if (const std::string_view extra = words.next(); !extra.empty()) {
    lines.fail(fmt::format("the size line goes on with {}: expected {} numbers", quoted_word(extra),
                           header.format == MtxFormat::coordinate ? 3 : 2));
  }
  return header;
}

MtxHeader parse_mtx_header(TextLines& lines, std::size_t text_bytes) {
  const MtxHeader header = read_mtx_header(lines);
  check_sizes(lines, header, text_bytes);
  return header;
}

}  // namespace spjit
