#pragma once

#include <cstdint>
#include <utility>

#include "emulated_driver/forms.hpp"
#include "emulated_driver/ptx_type.hpp"
#include "emulated_driver/thread.hpp"

namespace spjit::emulated {

template <typename T>
struct Tag {
  using type = T;
};

/// Calls `use(Tag<T>)` with the C++ type of `type`; .b is unsigned, .pred is not taken.
template <typename Use>
decltype(auto) with_integer(Type type, Use&& use) {
  switch (type) {
    case Type::s8:
      return use(Tag<std::int8_t>{});
    case Type::b8:
    case Type::u8:
      return use(Tag<std::uint8_t>{});
    case Type::s16:
      return use(Tag<std::int16_t>{});
    case Type::b16:
    case Type::u16:
      return use(Tag<std::uint16_t>{});
    case Type::s32:
      return use(Tag<std::int32_t>{});
    case Type::b32:
    case Type::u32:
      return use(Tag<std::uint32_t>{});
    case Type::s64:
      return use(Tag<std::int64_t>{});
    default:
      return use(Tag<std::uint64_t>{});
  }
}

template <typename Use>
decltype(auto) with_float(Type type, Use&& use) {
  return type == Type::f32 ? use(Tag<float>{}) : use(Tag<double>{});
}

template <typename Use>
decltype(auto) with_any(Type type, Use&& use) {
  return is_float(type) ? with_float(type, use) : with_integer(type, use);
}

/// Handlers of `d = Operation::apply(a, ...)`, where all operands are Ts.
template <typename T, typename Operation>
void run_unary(Thread& thread, const Instruction& instruction) {
  const auto& [d, a, b, c] = instruction.operands;
  thread.write<T>(d, Operation::template apply<T>(thread.read<T>(a)));
}

template <typename T, typename Operation>
void run_binary(Thread& thread, const Instruction& instruction) {
  const auto& [d, a, b, c] = instruction.operands;
  thread.write<T>(d, Operation::template apply<T>(thread.read<T>(a), thread.read<T>(b)));
}

template <typename T, typename Operation>
void run_ternary(Thread& thread, const Instruction& instruction) {
  const auto& [d, a, b, c] = instruction.operands;
  thread.write<T>(
      d, Operation::template apply<T>(thread.read<T>(a), thread.read<T>(b), thread.read<T>(c)));
}

/// A form of `operands` operands, all of `type`.
[[nodiscard]] inline Form plain_form(Handler handler, std::uint32_t operands, Type type) {
  Form form;
  form.handler = handler;
  form.operands = operands;
  form.types.fill(type);
  return form;
}

}  // namespace spjit::emulated
