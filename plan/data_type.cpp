#include "spjit/data_type.hpp"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "spjit/error.hpp"

namespace spjit {
namespace {

// In the order of the enumeration.
constexpr std::array<DataTypeInfo, 7> k_types = {{
    {"f32", 32, false, 0x1p-24, -0x1.fffffep127, 0x1.fffffep127},
    {"bf16", 16, false, 0x1p-8, -0x1.fep127, 0x1.fep127},
    {"f16", 16, false, 0x1p-11, -65504, 65504},
    {"i32", 32, true, 0, -2147483648.0, 2147483647.0},
    {"i8", 8, true, 0, -128, 127},
    {"u8", 8, true, 0, 0, 255},
    {"i4", 4, true, 0, -8, 7},
}};

}  // namespace

const DataTypeInfo& info_of(DataType type) {
  const auto index = static_cast<std::size_t>(type);
  if (index < k_types.size()) return k_types[index];
  throw InvalidArgument(
      fmt::format("the data type is {}; expected 0 to {}", index, k_types.size() - 1));
}

std::int64_t bytes_of(DataType type, std::int64_t count) {
  const int bits = info_of(type).bits;
  const std::int64_t whole = bits / 8;
  const bool fits = whole == 0 || count <= std::numeric_limits<std::int64_t>::max() / whole;
  if (count < 0 || !fits) {
    throw InvalidArgument(fmt::format("a number of {} elements is {}; expected 0 to 2^63 - 1 bytes",
                                      to_string(type), count));
  }
  // Two elements a byte; the last may be half of one.
  return whole == 0 ? count / 2 + count % 2 : count * whole;
}

DataType parse_data_type(std::string_view name) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < k_types.size(); ++i) {
    if (name == k_types[i].name) return static_cast<DataType>(i);
    names.emplace_back(k_types[i].name);
  }
  throw InvalidArgument(
      fmt::format("data type \"{}\" is unknown; expected {}", name, fmt::join(names, ", ")));
}

std::string_view to_string(DataType type) {
  const auto index = static_cast<std::size_t>(type);
  return index < k_types.size() ? k_types[index].name : "?";
}

}  // namespace spjit
