// add sub mul mad div rem min max abs neg of .u16 to .s64. All wrap, as in PTX.

#include <limits>

#include "emulated_driver/form_types.hpp"

namespace spjit::emulated {

namespace {

// Computed in 64 unsigned bits, where nothing overflows, and cut to T.
template <typename T>
constexpr std::uint64_t wide(T value) {
  return static_cast<std::uint64_t>(value);
}

template <typename T>
T high_half(T a, T b) {
  if constexpr (sizeof(T) < 8) {
    return static_cast<T>((wide(a) * wide(b)) >> (8 * sizeof(T)));
  } else {
    const std::uint64_t a_low = wide(a) & 0xffffffffU;
    const std::uint64_t a_high = wide(a) >> 32;
    const std::uint64_t b_low = wide(b) & 0xffffffffU;
    const std::uint64_t b_high = wide(b) >> 32;
    const std::uint64_t middle = ((a_low * b_low) >> 32) + ((a_high * b_low) & 0xffffffffU) +
                                 ((a_low * b_high) & 0xffffffffU);
    std::uint64_t high =
        a_high * b_high + ((a_high * b_low) >> 32) + ((a_low * b_high) >> 32) + (middle >> 32);
    if constexpr (std::is_signed_v<T>) {
      high -= (a < 0 ? wide(b) : 0) + (b < 0 ? wide(a) : 0);
    }
    return static_cast<T>(high);
  }
}

struct Add {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(wide(a) + wide(b));
  }
};
struct Sub {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(wide(a) - wide(b));
  }
};
struct MulLow {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(wide(a) * wide(b));
  }
};
struct MulHigh {
  template <typename T>
  static T apply(T a, T b) {
    return high_half(a, b);
  }
};
struct MadLow {
  template <typename T>
  static T apply(T a, T b, T c) {
    return static_cast<T>(wide(a) * wide(b) + wide(c));
  }
};
struct MadHigh {
  template <typename T>
  static T apply(T a, T b, T c) {
    return static_cast<T>(wide(high_half(a, b)) + wide(c));
  }
};
struct Min {
  template <typename T>
  static T apply(T a, T b) {
    return b < a ? b : a;
  }
};
struct Max {
  template <typename T>
  static T apply(T a, T b) {
    return a < b ? b : a;
  }
};
struct Abs {
  template <typename T>
  static T apply(T a) {
    return a < 0 ? static_cast<T>(0 - wide(a)) : a;
  }
};
struct Neg {
  template <typename T>
  static T apply(T a) {
    return static_cast<T>(0 - wide(a));
  }
};

// What the hardware gives for x / 0 is not specified, so a program must not get there.
template <typename T>
void check_divisor(T divisor) {
  if (divisor == 0) {
    throw ProgramError(FaultKind::trap, "divides by zero");
  }
}

template <typename T>
bool overflows(T a, T b) {
  return std::is_signed_v<T> && a == std::numeric_limits<T>::min() && b == static_cast<T>(-1);
}

struct Div {
  template <typename T>
  static T apply(T a, T b) {
    check_divisor(b);
    return overflows(a, b) ? a : static_cast<T>(a / b);
  }
};
struct Rem {
  template <typename T>
  static T apply(T a, T b) {
    check_divisor(b);
    return overflows(a, b) ? T{0} : static_cast<T>(a % b);
  }
};

template <typename T, bool adds>
void run_wide(Thread& thread, const Instruction& instruction) {
  using Twice =
      std::conditional_t<sizeof(T) == 2,
                         std::conditional_t<std::is_signed_v<T>, std::int32_t, std::uint32_t>,
                         std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>>;
  const auto& [d, a, b, c] = instruction.operands;
  std::uint64_t product = wide(thread.read<T>(a)) * wide(thread.read<T>(b));
  if constexpr (adds) {
    product += wide(thread.read<Twice>(c));
  }
  thread.write<Twice>(d, static_cast<Twice>(product));
}

Type twice(Type type, const Modifiers& modifiers) {
  switch (type) {
    case Type::u16:
      return Type::u32;
    case Type::s16:
      return Type::s32;
    case Type::u32:
      return Type::u64;
    case Type::s32:
      return Type::s64;
    default:
      modifiers.refuse(".wide takes 16 and 32 bits");
  }
}

Type take_integer(Modifiers& modifiers, bool only_signed = false) {
  const Type type = modifiers.take_type();
  if (is_bits(type) || is_float(type) || type == Type::pred || size_bytes(type) == 1 ||
      (only_signed && !is_signed(type))) {
    modifiers.refuse("another integer type is expected");
  }
  return type;
}

template <typename Operation>
Form binary(Modifiers& modifiers) {
  const Type type = take_integer(modifiers);
  return with_integer(
      type, [&]<typename T>(Tag<T>) { return plain_form(run_binary<T, Operation>, 3, type); });
}

template <typename Operation>
Form unary(Modifiers& modifiers) {
  const Type type = take_integer(modifiers, true);
  return with_integer(
      type, [&]<typename T>(Tag<T>) { return plain_form(run_unary<T, Operation>, 2, type); });
}

template <bool adds>
Form wide_form(Modifiers& modifiers) {
  const Type type = take_integer(modifiers);
  const Type result = twice(type, modifiers);
  Form form = plain_form(nullptr, adds ? 4 : 3, type);
  form.types[0] = form.types[3] = result;
  form.handler = with_integer(type, [&]<typename T>(Tag<T>) -> Handler {
    if constexpr (sizeof(T) == 2 || sizeof(T) == 4) {
      return run_wide<T, adds>;
    } else {
      return nullptr;
    }
  });
  return form;
}

template <typename Operation>
Form ternary(Modifiers& modifiers) {
  const Type type = take_integer(modifiers);
  return with_integer(
      type, [&]<typename T>(Tag<T>) { return plain_form(run_ternary<T, Operation>, 4, type); });
}

Form product_form(std::string_view name, Modifiers& modifiers) {
  const bool adds = name == "mad";
  if (modifiers.take("wide")) {
    return adds ? wide_form<true>(modifiers) : wide_form<false>(modifiers);
  }
  if (modifiers.take("lo")) {
    return adds ? ternary<MadLow>(modifiers) : binary<MulLow>(modifiers);
  }
  if (modifiers.take("hi")) {
    return adds ? ternary<MadHigh>(modifiers) : binary<MulHigh>(modifiers);
  }
  modifiers.refuse(".lo, .hi or .wide is expected there");
}

}  // namespace

std::optional<Form> integer_form(std::string_view name, Modifiers& modifiers) {
  if (name == "add") {
    return binary<Add>(modifiers);
  }
  if (name == "sub") {
    return binary<Sub>(modifiers);
  }
  if (name == "mul" || name == "mad") {
    return product_form(name, modifiers);
  }
  if (name == "div") {
    return binary<Div>(modifiers);
  }
  if (name == "rem") {
    return binary<Rem>(modifiers);
  }
  if (name == "min") {
    return binary<Min>(modifiers);
  }
  if (name == "max") {
    return binary<Max>(modifiers);
  }
  if (name == "abs") {
    return unary<Abs>(modifiers);
  }
  if (name == "neg") {
    return unary<Neg>(modifiers);
  }
  return std::nullopt;
}

}  // namespace spjit::emulated
