#include "matrix/npy_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "matrix/half_float.hpp"
#include "matrix/limits.hpp"
#include "matrix/text_lines.hpp"

namespace spjit {
namespace {

template <typename Number>
float to_float(Number number) {
  return static_cast<float>(number);
}

template <typename Number>
void require_within_fp32(Number number, std::size_t at, std::string_view name) {
  if constexpr (std::is_same_v<Number, double>) {
    if (std::isfinite(number) && std::isinf(static_cast<float>(number))) {
      fail_to_read(name, fmt::format("element {} is {}, which does not fit fp32: expected at most "
                                     "3.4028235e38",
                                     at, number));
    }
  }
}

template <typename Element>
Element load_element(Bytes data, std::size_t index, bool swapped) {
  std::array<std::byte, sizeof(Element)> bytes;
  std::memcpy(bytes.data(), data.data() + index * sizeof(Element), sizeof(Element));
  if (swapped) {
    std::reverse(bytes.begin(), bytes.end());
  }
  return std::bit_cast<Element>(bytes);
}

template <typename Element>
std::vector<float> floats_from(const NpyArray& array, std::string_view name) {
  std::vector<float> values(static_cast<std::size_t>(array.header.count));
  for (std::size_t at = 0; at < values.size(); ++at) {
    const auto element = load_element<Element>(array.data, at, array.header.type.swapped);
    require_within_fp32(element, at, name);
    values[at] = to_float(element);
  }
  return values;
}

template <typename Element>
std::vector<std::int64_t> integers_from(const NpyArray& array, std::string_view name) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(array.header.count));
  for (std::size_t at = 0; at < values.size(); ++at) {
    const auto element = load_element<Element>(array.data, at, array.header.type.swapped);
    if (!std::in_range<std::int64_t>(element)) {
      fail_to_read(name, fmt::format("element {} is {}: expected less than 2^63", at, element));
    }
    values[at] = static_cast<std::int64_t>(element);
  }
  return values;
}

// Calls `visit` with a value of the C++ type of the array's integers; false if it holds others.
template <typename Visit>
bool visit_integer_type(const NpyType& type, Visit&& visit) {
  const bool is_signed = type.kind == 'i';
  if (!is_signed && type.kind != 'u') {
    return false;
  }
  switch (type.item_bytes) {
    case 1:
      is_signed ? visit(std::int8_t{}) : visit(std::uint8_t{});
      break;
    case 2:
      is_signed ? visit(std::int16_t{}) : visit(std::uint16_t{});
      break;
    case 4:
      is_signed ? visit(std::int32_t{}) : visit(std::uint32_t{});
      break;
    default:
      is_signed ? visit(std::int64_t{}) : visit(std::uint64_t{});
      break;
  }
  return true;
}

std::vector<float> bools_from(const NpyArray& array) {
  std::vector<float> values(static_cast<std::size_t>(array.header.count));
  std::transform(array.data.begin(), array.data.end(), values.begin(),
                 [](std::byte byte) { return byte == std::byte{0} ? 0.0F : 1.0F; });
  return values;
}

}  // namespace

NpyArray parse_npy_array(Bytes bytes, std::string_view name) {
  NpyArray array;
  array.header = parse_npy_header(bytes, bytes.size(), name);
  array.data = bytes.subspan(array.header.data_offset);
  return array;
}

std::vector<float> decode_floats(const NpyArray& array, std::string_view name) {
  const NpyType& type = array.header.type;
  if (type.kind == 'b') {
    return bools_from(array);
  }
  if (type.kind == 'f') {
    return type.item_bytes == 2   ? floats_from<Half>(array, name)
           : type.item_bytes == 4 ? floats_from<float>(array, name)
                                  : floats_from<double>(array, name);
  }
  std::vector<float> values;
  if (!visit_integer_type(type,
                          [&](auto zero) { values = floats_from<decltype(zero)>(array, name); })) {
    fail_to_read(name, fmt::format("dtype '{}' is text: expected numbers", array.header.descr));
  }
  return values;
}

std::vector<std::int64_t> decode_integers(const NpyArray& array, std::string_view name) {
  std::vector<std::int64_t> values;
  if (!visit_integer_type(array.header.type, [&](auto zero) {
        values = integers_from<decltype(zero)>(array, name);
      })) {
    fail_to_read(name, fmt::format("dtype is '{}': expected integers", array.header.descr));
  }
  return values;
}

std::string decode_text(const NpyArray& array, std::string_view name) {
  const NpyType& type = array.header.type;
  if ((type.kind != 'S' && type.kind != 'U') || array.header.count != 1) {
    fail_to_read(name, fmt::format("{} elements of dtype '{}': expected one text",
                                   array.header.count, array.header.descr));
  }
  // A U element is UTF-32: every fourth byte is the ASCII character, whichever end it is at.
  const std::size_t step = type.kind == 'U' ? 4 : 1;
  const std::size_t first = step == 4 && type.swapped ? 3 : 0;
  std::string text;
  for (std::size_t at = first; at < array.data.size(); at += step) {
    const char c = std::to_integer<char>(array.data[at]);
    if (c == '\0') {
      break;
    }
    text += c;
  }
  return text;
}

DenseMatrix decode_dense(const NpyArray& array, std::string_view name) {
  const std::vector<std::int64_t>& shape = array.header.shape;
  if (shape.empty() || shape.size() > 2) {
    fail_to_read(name, fmt::format("the array has {} dimensions: expected 1 or 2", shape.size()));
  }
  DenseMatrix matrix;
  matrix.rows = shape.size() == 2 ? shape[0] : 1;
  matrix.cols = shape.back();
  if (matrix.rows > k_max_dimension || matrix.cols > k_max_dimension) {
    fail_to_read(name, fmt::format("the shape is {} x {}: expected 0 to {} each", matrix.rows,
                                   matrix.cols, k_max_dimension));
  }
  std::vector<float> stored = decode_floats(array, name);
  if (!array.header.fortran_order) {
    matrix.values = std::move(stored);
    return matrix;
  }
  matrix.values.resize(stored.size());
  const auto rows = static_cast<std::size_t>(matrix.rows);
  const auto cols = static_cast<std::size_t>(matrix.cols);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t col = 0; col < cols; ++col) {
      matrix.values[row * cols + col] = stored[col * rows + row];
    }
  }
  return matrix;
}

CsrMatrix csr_from_array(const NpyArray& array, std::string_view name) {
  const DenseMatrix dense = decode_dense(array, name);
  if (dense.rows > most_rows(array.data.size())) {
    fail_to_read(name, fmt::format("the shape is {} x {}: a file of that size may have {} rows",
                                   dense.rows, dense.cols, most_rows(array.data.size())));
  }
  return csr_from_dense(dense.values.data(), dense.rows, dense.cols);
}

CsrMatrix parse_npy(Bytes bytes, std::string_view name, const LoadOptions&) {
  return csr_from_array(parse_npy_array(bytes, name), name);
}

}  // namespace spjit
