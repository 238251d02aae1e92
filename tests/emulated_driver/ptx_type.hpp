#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace spjit::emulated {

/// The scalar types of PTX that are understood; f16, bf16 and packed types are not.
enum class Type : std::uint8_t {
  pred,
  b8,
  b16,
  b32,
  b64,
  u8,
  u16,
  u32,
  u64,
  s8,
  s16,
  s32,
  s64,
  f32,
  f64,  // clang-format off
};  // clang-format on

enum class Space : std::uint8_t { generic, global, constant, shared, local, param };

/// The type called `name`, without its dot; nothing if there is none.
[[nodiscard]] std::optional<Type> type_from_name(std::string_view name);
[[nodiscard]] std::string_view name_of(Type type);

[[nodiscard]] std::uint32_t size_bytes(Type type);
[[nodiscard]] bool is_float(Type type);
[[nodiscard]] bool is_signed(Type type);
[[nodiscard]] bool is_bits(Type type);

/// Whether a register of type `held` may be an operand of type `wanted`. PTX wants the same size
/// and agreeing types, where .b agrees with all; `may_be_wider` is its rule for ld, st and cvt.
[[nodiscard]] bool compatible(Type held, Type wanted, bool may_be_wider);

}  // namespace spjit::emulated
