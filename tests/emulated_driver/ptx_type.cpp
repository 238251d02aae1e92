#include "emulated_driver/ptx_type.hpp"

#include <array>
#include <cstddef>

namespace spjit::emulated {

namespace {

struct TypeRow {
  std::string_view name;
  std::uint32_t bytes;
};

// In the order of the enumeration.
constexpr std::array<TypeRow, 15> k_types = {{{"pred", 1},
                                              {"b8", 1},
                                              {"b16", 2},
                                              {"b32", 4},
                                              {"b64", 8},
                                              {"u8", 1},
                                              {"u16", 2},
                                              {"u32", 4},
                                              {"u64", 8},
                                              {"s8", 1},
                                              {"s16", 2},
                                              {"s32", 4},
                                              {"s64", 8},
                                              {"f32", 4},
                                              {"f64", 8}}};

const TypeRow& row(Type type) { return k_types[static_cast<std::size_t>(type)]; }

}  // namespace

std::optional<Type> type_from_name(std::string_view name) {
  for (std::size_t i = 0; i < k_types.size(); ++i) {
    if (k_types[i].name == name) {
      return static_cast<Type>(i);
    }
  }
  return std::nullopt;
}

std::string_view name_of(Type type) { return row(type).name; }

std::uint32_t size_bytes(Type type) { return row(type).bytes; }

bool is_float(Type type) { return name_of(type)[0] == 'f'; }

bool is_signed(Type type) { return name_of(type)[0] == 's'; }

bool is_bits(Type type) { return name_of(type)[0] == 'b'; }

bool compatible(Type held, Type wanted, bool may_be_wider) {
  if (held == Type::pred || wanted == Type::pred) {
    return held == wanted;
  }
  const bool fits = may_be_wider ? size_bytes(held) >= size_bytes(wanted)
                                 : size_bytes(held) == size_bytes(wanted);
  const bool agrees = is_bits(held) || is_bits(wanted) || is_float(held) == is_float(wanted);
  return fits && agrees;
}

}  // namespace spjit::emulated
