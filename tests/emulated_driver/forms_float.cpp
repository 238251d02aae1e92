// add sub mul fma mad div sqrt rcp min max abs neg copysign of .f32 and .f64.

#include <cfenv>
#include <cmath>
#include <limits>

#include "emulated_driver/form_types.hpp"

namespace spjit::emulated {

namespace {

enum Flag : std::uint16_t { ftz = 1, saturate = 2, toward_zero = 4, down = 8, up = 16, nan = 32 };

// PTX has one NaN of .f32, where x86 keeps an operand's payload.
template <typename T>
T canonical(T value) {
  if constexpr (std::is_same_v<T, float>) {
    return std::isnan(value) ? std::bit_cast<float>(0x7fffffffU) : value;
  } else {
    return value;
  }
}

template <typename T>
T flushed(T value, std::uint16_t flags) {
  const bool flush = (flags & ftz) != 0 && std::fpclassify(value) == FP_SUBNORMAL;
  return flush ? std::copysign(T{0}, value) : value;
}

struct Add {
  template <typename T>
  static T apply(T a, T b) {
    return a + b;
  }
};
struct Sub {
  template <typename T>
  static T apply(T a, T b) {
    return a - b;
  }
};
struct Mul {
  template <typename T>
  static T apply(T a, T b) {
    return a * b;
  }
};
struct Div {
  template <typename T>
  static T apply(T a, T b) {
    return a / b;
  }
};
struct Fma {
  template <typename T>
  static T apply(T a, T b, T c) {
    return std::fma(a, b, c);
  }
};
struct Sqrt {
  template <typename T>
  static T apply(T a) {
    return std::sqrt(a);
  }
};
struct Rcp {
  template <typename T>
  static T apply(T a) {
    return T{1} / a;
  }
};

template <typename Operation, typename T>
void run_exact(Thread& thread, const Instruction& instruction) {
  const auto& [d, a, b, c] = instruction.operands;
  if constexpr (requires { Operation::template apply<T>(T{}); }) {
    thread.write<T>(d, canonical(Operation::template apply<T>(thread.read<T>(a))));
  } else if constexpr (requires { Operation::template apply<T>(T{}, T{}); }) {
    thread.write<T>(d,
                    canonical(Operation::template apply<T>(thread.read<T>(a), thread.read<T>(b))));
  } else {
    thread.write<T>(d, canonical(Operation::template apply<T>(thread.read<T>(a), thread.read<T>(b),
                                                              thread.read<T>(c))));
  }
}

int rounding_of(std::uint16_t flags) {
  if ((flags & toward_zero) != 0) {
    return FE_TOWARDZERO;
  }
  if ((flags & down) != 0) {
    return FE_DOWNWARD;
  }
  return (flags & up) != 0 ? FE_UPWARD : FE_TONEAREST;
}

// The compiler knows nothing of the rounding mode: volatile keeps the operation between the two
// calls.
template <typename Operation, typename T>
T apply_rounded(std::uint16_t flags, T a_in, T b_in, T c_in) {
  volatile T a = flushed(a_in, flags);
  volatile T b = flushed(b_in, flags);
  volatile T c = flushed(c_in, flags);
  volatile T result = 0;
  std::fesetround(rounding_of(flags));
  if constexpr (requires { Operation::template apply<T>(T{}); }) {
    result = Operation::template apply<T>(a);
  } else if constexpr (requires { Operation::template apply<T>(T{}, T{}); }) {
    result = Operation::template apply<T>(a, b);
  } else {
    result = Operation::template apply<T>(a, b, c);
  }
  std::fesetround(FE_TONEAREST);
  return result;
}

template <typename Operation, typename T>
void run_flagged(Thread& thread, const Instruction& instruction) {
  const auto& [d, a, b, c] = instruction.operands;
  const std::uint16_t flags = instruction.flags;
  const T second = b == k_no_operand ? T{0} : thread.read<T>(b);
  const T third = c == k_no_operand ? T{0} : thread.read<T>(c);
  T result = flushed(apply_rounded<Operation, T>(flags, thread.read<T>(a), second, third), flags);
  if ((flags & saturate) != 0) {
    result = result > T{0} ? std::fmin(result, T{1}) : T{0};
  }
  thread.write<T>(d, canonical(result));
}

// +0 is larger than -0, and a NaN loses against a number unless .NaN is given.
template <bool is_max, typename T>
void run_extremum(Thread& thread, const Instruction& instruction) {
  const auto& [d, a_slot, b_slot, c] = instruction.operands;
  const T a = flushed(thread.read<T>(a_slot), instruction.flags);
  const T b = flushed(thread.read<T>(b_slot), instruction.flags);
  if (std::isnan(a) || std::isnan(b)) {
    const bool stays = (instruction.flags & nan) != 0;
    const T number = std::isnan(a) ? b : a;
    thread.write<T>(d, canonical(stays ? std::numeric_limits<T>::quiet_NaN() : number));
    return;
  }
  const bool a_is_smaller = a < b || (a == b && std::signbit(a));
  thread.write<T>(d, a_is_smaller == is_max ? b : a);
}

struct Abs {
  template <typename T>
  static T apply(T a) {
    return std::fabs(a);
  }
};
struct Neg {
  template <typename T>
  static T apply(T a) {
    return -a;
  }
};

template <typename Operation, typename T>
void run_sign(Thread& thread, const Instruction& instruction) {
  const auto& [d, a, b, c] = instruction.operands;
  const T value = flushed(thread.read<T>(a), instruction.flags);
  thread.write<T>(d, Operation::template apply<T>(value));
}

// PTX: the magnitude of b with the sign of a.
struct Copysign {
  template <typename T>
  static T apply(T a, T b) {
    return std::copysign(b, a);
  }
};

struct Allowed {
  bool rounding;
  bool required;  // the rounding has to be written
  bool saturation;
};

std::uint16_t take_flags(Modifiers& modifiers, Type type, const Allowed& allowed) {
  std::uint16_t flags = 0;
  if (allowed.rounding) {
    if (modifiers.peek() == "approx" || modifiers.peek() == "full") {
      modifiers.refuse("its result is not fixed to the bit; use .rn");
    }
    if (modifiers.take("rz")) {
      flags = toward_zero;
    } else if (modifiers.take("rm")) {
      flags = down;
    } else if (modifiers.take("rp")) {
      flags = up;
    } else if (!modifiers.take("rn") && allowed.required) {
      modifiers.refuse("a rounding mode (.rn .rz .rm .rp) is expected there");
    }
  }
  if (type == Type::f32 && modifiers.take("ftz")) {
    flags |= ftz;
  }
  if (type == Type::f32 && allowed.saturation && modifiers.take("sat")) {
    flags |= saturate;
  }
  return flags;
}

template <typename Operation>
Form arithmetic(Modifiers& modifiers, Type type, std::uint32_t operands, const Allowed& allowed) {
  const std::uint16_t flags = take_flags(modifiers, type, allowed);
  modifiers.take_type();
  Form form = with_float(type, [&]<typename T>(Tag<T>) {
    return plain_form(flags == 0 ? run_exact<Operation, T> : run_flagged<Operation, T>, operands,
                      type);
  });
  form.flags = flags;
  return form;
}

template <typename Operation>
Form sign_form(Modifiers& modifiers, Type type) {
  const std::uint16_t flags = take_flags(modifiers, type, {false, false, false});
  modifiers.take_type();
  Form form = with_float(
      type, [&]<typename T>(Tag<T>) { return plain_form(run_sign<Operation, T>, 2, type); });
  form.flags = flags;
  return form;
}

template <bool is_max>
Form extremum_form(Modifiers& modifiers, Type type) {
  std::uint16_t flags = take_flags(modifiers, type, {false, false, false});
  if (type == Type::f32 && modifiers.take("NaN")) {
    flags |= nan;
  }
  modifiers.take_type();
  Form form = with_float(
      type, [&]<typename T>(Tag<T>) { return plain_form(run_extremum<is_max, T>, 3, type); });
  form.flags = flags;
  return form;
}

}  // namespace

std::optional<Form> float_form(std::string_view name, Modifiers& modifiers) {
  const std::optional<Type> last = modifiers.last_type();
  if (!last || !is_float(*last)) {
    return std::nullopt;
  }
  const Type type = *last;
  if (name == "add") {
    return arithmetic<Add>(modifiers, type, 3, {true, false, true});
  }
  if (name == "sub") {
    return arithmetic<Sub>(modifiers, type, 3, {true, false, true});
  }
  if (name == "mul") {
    return arithmetic<Mul>(modifiers, type, 3, {true, false, true});
  }
  if (name == "fma" || name == "mad") {
    return arithmetic<Fma>(modifiers, type, 4, {true, true, true});
  }
  if (name == "div") {
    return arithmetic<Div>(modifiers, type, 3, {true, true, false});
  }
  if (name == "sqrt") {
    return arithmetic<Sqrt>(modifiers, type, 2, {true, true, false});
  }
  if (name == "rcp") {
    return arithmetic<Rcp>(modifiers, type, 2, {true, true, false});
  }
  if (name == "min") {
    return extremum_form<false>(modifiers, type);
  }
  if (name == "max") {
    return extremum_form<true>(modifiers, type);
  }
  if (name == "abs") {
    return sign_form<Abs>(modifiers, type);
  }
  if (name == "neg") {
    return sign_form<Neg>(modifiers, type);
  }
  if (name == "copysign") {
    modifiers.take_type();
    return with_float(
        type, [&]<typename T>(Tag<T>) { return plain_form(run_binary<T, Copysign>, 3, type); });
  }
  return std::nullopt;
}

}  // namespace spjit::emulated
