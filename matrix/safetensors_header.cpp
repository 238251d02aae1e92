#include "matrix/safetensors_header.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/arithmetic.hpp"
#include "base/json_text.hpp"
#include "base/printable.hpp"
#include "matrix/text_lines.hpp"

namespace spjit {
namespace {

constexpr std::int64_t k_most_header_bytes = 100'000'000;  // the format's own limit
constexpr std::size_t k_most_tensor_dimensions = 64;
constexpr std::int64_t k_most_64_bits = std::numeric_limits<std::int64_t>::max();

/// 0 for a type whose elements are not whole bytes, or that is not known.
std::int64_t item_bytes_of(std::string_view dtype) {
  struct Type {
    std::string_view name;
    std::int64_t bytes;
  };
  constexpr std::array k_types = {
      Type{"F64", 8},     Type{"F32", 4},    Type{"F16", 2},  Type{"BF16", 2}, Type{"I64", 8},
      Type{"I32", 4},     Type{"I16", 2},    Type{"I8", 1},   Type{"U64", 8},  Type{"U32", 4},
      Type{"U16", 2},     Type{"U8", 1},     Type{"BOOL", 1}, Type{"C64", 8},  Type{"F8_E4M3", 1},
      Type{"F8_E5M2", 1}, Type{"F8_E8M0", 1}};
  const auto* found = std::ranges::find(k_types, dtype, &Type::name);
  return found == k_types.end() ? 0 : found->bytes;
}

std::vector<std::int64_t> sizes_in(const nlohmann::json& list, const std::string& what) {
  if (!list.is_array() || list.size() > k_most_tensor_dimensions) {
    throw Error(fmt::format("{} is {}; expected an array of at most {} sizes", what,
                            quoted_json(list), k_most_tensor_dimensions));
  }
  std::vector<std::int64_t> sizes;
  for (const nlohmann::json& size : list) {
    sizes.push_back(json_integer(size, fmt::format("a number of {}", what), 0, k_most_64_bits));
  }
  return sizes;
}

Tensor tensor_of(const std::string& name, const nlohmann::json& described, std::int64_t data) {
  JsonMembers members(described, fmt::format("tensor '{}'", printable(name)));
  const std::string title = fmt::format("of tensor '{}'", printable(name));
  Tensor tensor;
  tensor.name = name;
  tensor.dtype = members.text("dtype");
  tensor.item_bytes = item_bytes_of(tensor.dtype);
  tensor.shape = sizes_in(members.at("shape"), "\"shape\" " + title);
  const auto offsets = sizes_in(members.at("data_offsets"), "\"data_offsets\" " + title);
  members.finish();
  if (offsets.size() != 2 || offsets[0] > offsets[1]) {
    throw Error(fmt::format("\"data_offsets\" {} are [{}]; expected begin and end", title,
                            fmt::join(offsets, ", ")));
  }
  for (const std::int64_t size : tensor.shape) {
    tensor.count = checked_multiply(tensor.count, size, "elements " + title);
  }
  tensor.bytes = offsets[1] - offsets[0];
  tensor.begin = checked_add(data, offsets[0], "offset " + title);
  if (tensor.item_bytes == 0) return tensor;
  const auto expected = checked_multiply(tensor.count, tensor.item_bytes, "bytes " + title);
  if (tensor.bytes != expected) {
    throw Error(fmt::format("tensor '{}' has {} bytes; expected {} for its shape and dtype {}",
                            printable(name), tensor.bytes, expected, tensor.dtype));
  }
  return tensor;
}

/// Each byte of the data belongs to one tensor.
void check_places(const std::vector<Tensor>& tensors, std::int64_t data, std::int64_t file_bytes) {
  std::vector<const Tensor*> by_place;
  by_place.reserve(tensors.size());
  for (const Tensor& tensor : tensors) by_place.push_back(&tensor);
  std::ranges::sort(by_place, {}, [](const Tensor* tensor) {
    return std::pair(tensor->begin, tensor->bytes);  // one without elements first
  });
  std::int64_t end = data;
  for (const Tensor* tensor : by_place) {
    if (tensor->begin != end) {
      throw Error(
          fmt::format("tensor '{}' begins at byte {} of the data; expected {}, without gap "
                      "or overlap",
                      printable(tensor->name), tensor->begin - data, end - data));
    }
    if (tensor->bytes > file_bytes - end) {
      throw Error(fmt::format("tensor '{}' ends behind the file, which has {} bytes",
                              printable(tensor->name), file_bytes));
    }
    end += tensor->bytes;
  }
  if (end != file_bytes) {
    throw Error(fmt::format("{} bytes follow the last tensor; expected none", file_bytes - end));
  }
}

std::map<std::string, std::string> metadata_of(const nlohmann::json& described) {
  std::map<std::string, std::string> metadata;
  if (!described.is_object()) {
    throw Error(fmt::format("__metadata__ is {}; expected an object", quoted_json(described)));
  }
  for (const auto& [name, value] : described.items()) {
    if (!value.is_string()) {
      throw Error(fmt::format("'{}' of __metadata__ is {}; expected a text", printable(name),
                              quoted_json(value)));
    }
    metadata.emplace(name, value.get<std::string>());
  }
  return metadata;
}

SafetensorsHeader header_of(std::string_view text, std::int64_t file_bytes) {
  const nlohmann::json described = parse_json(text);
  if (const auto twice = find_repeated_member(text)) {
    throw Error(fmt::format("'{}' is there twice", printable(*twice)));
  }
  if (!described.is_object()) {
    throw Error(fmt::format("it is {}; expected an object", quoted_json(described)));
  }
  const std::int64_t data = std::ssize(text) + std::int64_t{k_safetensors_length_bytes};
  SafetensorsHeader header;
  for (const auto& [name, value] : described.items()) {
    if (name == "__metadata__") {
      header.metadata = metadata_of(value);
    } else {
      header.tensors.push_back(tensor_of(name, value, data));
    }
  }
  check_places(header.tensors, data, file_bytes);
  std::ranges::sort(header.tensors, is_before_by_number, &Tensor::name);
  return header;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Takes the number in front of a text, without its zeros in front.
std::string_view take_number(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of('0'), text.size()));
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string_view number = text.substr(0, digits);
  text.remove_prefix(digits);
  return number;
}

}  // namespace

std::int64_t safetensors_header_bytes(std::string_view length, std::int64_t file_bytes,
                                      std::string_view name) {
  static_assert(std::endian::native == std::endian::little, "numbers are read as they lie");
  std::uint64_t bytes = 0;
  if (length.size() < sizeof(bytes)) {
    fail_to_read(name, fmt::format("it has {} bytes: a safetensors file begins with 8 bytes of "
                                   "length",
                                   length.size()));
  }
  std::memcpy(&bytes, length.data(), sizeof(bytes));
  const std::int64_t most =
      std::min(k_most_header_bytes, file_bytes - std::int64_t{k_safetensors_length_bytes});
  if (bytes < 2 || std::cmp_greater(bytes, most)) {
    fail_to_read(name, fmt::format("its safetensors header has {} bytes: expected 2 to {}", bytes,
                                   std::max<std::int64_t>(most, 2)));
  }
  return static_cast<std::int64_t>(bytes);
}

SafetensorsHeader parse_safetensors_header(std::string_view text, std::int64_t file_bytes,
                                           std::string_view name) {
  try {
    return header_of(text, file_bytes);
  } catch (const Error& error) {
    fail_to_read(name, fmt::format("safetensors header: {}", error.what()));
  }
}

bool is_before_by_number(std::string_view a, std::string_view b) {
  const std::string_view whole_a = a;
  const std::string_view whole_b = b;
  while (!a.empty() && !b.empty()) {
    if (is_digit(a.front()) && is_digit(b.front())) {
      const std::string_view number_a = take_number(a);
      const std::string_view number_b = take_number(b);
      if (number_a.size() != number_b.size()) return number_a.size() < number_b.size();
      if (number_a != number_b) return number_a < number_b;
      continue;
    }
    if (a.front() != b.front()) return a.front() < b.front();
    a.remove_prefix(1);
    b.remove_prefix(1);
  }
  return a.size() != b.size() ? a.size() < b.size() : whole_a < whole_b;
}

}  // namespace spjit
