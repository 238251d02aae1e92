#include "matrix/npy_header.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <optional>
#include <set>
#include <string_view>

#include "matrix/text_lines.hpp"

namespace spjit {
namespace {

constexpr std::size_t k_most_dimensions = 64;  // NumPy's own limit

// Just enough Python: {'key': value, ...}, a value being a string, a bool or a tuple of integers.
class DictReader {
 public:
  DictReader(std::string_view text, std::string_view name) : rest_(text), name_(name) {}

  bool skip(char c) {
    skip_blanks();
    if (!rest_.starts_with(c)) {
      return false;
    }
    rest_.remove_prefix(1);
    return true;
  }

  void expect(char c) {
    if (!skip(c)) {
      fail_to_read(name_, fmt::format("the .npy header has {} where '{}' is expected",
                                      quoted_word(rest_), c));
    }
  }

  std::string_view string(const char* what) {
    skip_blanks();
    const char quote = rest_.empty() ? '\0' : rest_.front();
    const std::size_t end =
        quote == '\'' || quote == '"' ? rest_.find(quote, 1) : std::string_view::npos;
    if (end == std::string_view::npos) {
      fail_to_read(name_, fmt::format("the .npy header has {} where {} is expected",
                                      quoted_word(rest_), what));
    }
    const std::string_view text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return text;
  }

  bool boolean() {
    skip_blanks();
    for (const std::string_view word : {"True", "False"}) {
      if (rest_.starts_with(word)) {
        rest_.remove_prefix(word.size());
        return word == "True";
      }
    }
    fail_to_read(name_,
                 fmt::format("fortran_order in the .npy header is {}: expected True or False",
                             quoted_word(rest_)));
  }

  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> numbers;
    expect('(');
    while (!skip(')')) {
      const std::string_view digits = rest_.substr(0, rest_.find_first_not_of("0123456789"));
      const std::optional<std::int64_t> number = parse_integer(digits);
      if (!number) {
        fail_to_read(name_, fmt::format("the shape in the .npy header has {}: expected an integer",
                                        quoted_word(rest_)));
      }
      if (numbers.size() == k_most_dimensions) {
        fail_to_read(name_, fmt::format("the shape in the .npy header has more than {} dimensions",
                                        k_most_dimensions));
      }
      numbers.push_back(*number);
      rest_.remove_prefix(digits.size());
      static_cast<void>(skip('L'));  // a long of Python 2
      if (!skip(',')) {
        expect(')');
        break;
      }
    }
    return numbers;
  }

 private:
  void skip_blanks() {
    const std::size_t blanks = rest_.find_first_not_of(" \t\r\n");
    rest_.remove_prefix(blanks == std::string_view::npos ? rest_.size() : blanks);
  }

  std::string_view rest_;
  std::string_view name_;
};

bool size_is_legal(char kind, std::int64_t size) {
  switch (kind) {
    case 'b':
      return size == 1;
    case 'i':
    case 'u':
      return size == 1 || size == 2 || size == 4 || size == 8;
    case 'f':
      return size == 2 || size == 4 || size == 8;
    case 'S':
    case 'U':
      return size >= 0 && size <= 4096;
    default:
      return false;
  }
}

NpyType parse_descr(std::string_view descr, std::string_view name) {
  const std::string_view orders = "<>=|";
  const std::int64_t size =
      descr.size() > 2 ? parse_integer(descr.substr(2)).value_or(-1) : std::int64_t{-1};
  if (size < 0 || orders.find(descr[0]) == std::string_view::npos ||
      !size_is_legal(descr[1], size)) {
    fail_to_read(
        name, fmt::format("dtype {} is not read: expected bool, an integer of 1 to 8 bytes, or a "
                          "float of 2 to 8 bytes",
                          quoted_word(descr)));
  }
  constexpr char k_other = std::endian::native == std::endian::little ? '>' : '<';
  const char kind = descr[1];
  return {kind, kind == 'U' ? 4 * size : size, descr[0] == k_other};
}

struct Preamble {
  std::string_view dict;
  std::size_t data_offset = 0;
};

Preamble parse_preamble(Bytes bytes, std::string_view name) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with("\x93NUMPY") || text.size() < 10) {
    fail_to_read(name, "not a .npy array: expected it to start with \"\\x93NUMPY\"");
  }
  const int major = std::to_integer<int>(bytes[6]);
  if (major < 1 || major > 3) {
    fail_to_read(name,
                 fmt::format(".npy format version {} is not read: expected 1, 2 or 3", major));
  }
  const std::size_t length_bytes = major == 1 ? 2 : 4;
  const std::size_t start = 8 + length_bytes;
  std::size_t length = 0;
  for (std::size_t at = start; at-- > 8;) {
    if (at < bytes.size()) {
      length = length * 256 + std::to_integer<std::size_t>(bytes[at]);
    }
  }
  if (text.size() < start || length > text.size() - start) {
    fail_to_read(name, fmt::format("the .npy header claims {} bytes: the file has {}", length,
                                   text.size() - std::min(start, text.size())));
  }
  return {text.substr(start, length), start + length};
}

NpyHeader parse_dict(std::string_view dict, std::string_view name) {
  DictReader reader(dict, name);
  NpyHeader header;
  std::set<std::string_view> missing = {"descr", "fortran_order", "shape"};
  reader.expect('{');
  while (!reader.skip('}')) {
    const std::string_view key = reader.string("a quoted key");
    reader.expect(':');
    if (key == "descr") {
      header.descr = reader.string("a simple dtype string");
    } else if (key == "fortran_order") {
      header.fortran_order = reader.boolean();
    } else if (key == "shape") {
      header.shape = reader.tuple();
    } else {
      fail_to_read(
          name, fmt::format("the .npy header has the key {}: expected descr, fortran_order, shape",
                            quoted_word(key)));
    }
    missing.erase(key);
    if (!reader.skip(',')) {
      reader.expect('}');
      break;
    }
  }
  if (!missing.empty()) {
    fail_to_read(name,
                 fmt::format("the .npy header has no {}: expected descr, fortran_order, shape",
                             fmt::join(missing, ", ")));
  }
  header.type = parse_descr(header.descr, name);
  return header;
}

// Divides instead of multiplying, so that no shape can overflow.
std::int64_t count_elements(const NpyHeader& header, std::size_t data_bytes,
                            std::string_view name) {
  std::int64_t count = 1;
  for (const std::int64_t size : header.shape) {
    count = size == 0 ? 0 : count;
  }
  const auto most = static_cast<std::int64_t>(data_bytes);
  for (const std::int64_t size : header.shape) {
    if (count > 0 && size > most / count) {
      fail_to_read(name, fmt::format("the shape ({}) does not fit the {} bytes of data",
                                     fmt::join(header.shape, ", "), data_bytes));
    }
    count *= size;
  }
  const std::int64_t item_bytes = header.type.item_bytes;
  if (count > 0 && item_bytes > 0 && item_bytes > most / count) {
    fail_to_read(name, fmt::format("the shape ({}) of {} needs more than the {} bytes of data",
                                   fmt::join(header.shape, ", "), header.descr, data_bytes));
  }
  if (count * item_bytes != most) {
    fail_to_read(name,
                 fmt::format("the array ends {} bytes before the data does: expected one array",
                             most - count * item_bytes));
  }
  return count;
}

}  // namespace

NpyHeader parse_npy_header(Bytes head, std::size_t array_bytes, std::string_view name) {
  const Preamble preamble = parse_preamble(head, name);
  NpyHeader header = parse_dict(preamble.dict, name);
  header.data_offset = preamble.data_offset;
  header.count = count_elements(header, array_bytes - preamble.data_offset, name);
  return header;
}

}  // namespace spjit
