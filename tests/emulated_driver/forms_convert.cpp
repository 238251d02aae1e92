// cvt between all integer and float types, and cvta.

#include <cfenv>
#include <cmath>
#include <limits>

#include "emulated_driver/form_types.hpp"

namespace spjit::emulated {

namespace {

enum Flag : std::uint16_t { ftz = 1, saturate = 2 };
constexpr unsigned k_rounding_shift = 2;

enum class Rounding : std::uint8_t {
  none,
  nearest,
  zero,
  down,
  up,
  int_nearest,
  int_zero,
  int_down,
  int_up
};  // clang-format off
// clang-format on

Rounding rounding_of(std::uint16_t flags) {
  return static_cast<Rounding>(flags >> k_rounding_shift);
}

int mode_of(Rounding rounding) {
  switch (rounding) {
    case Rounding::zero:
      return FE_TOWARDZERO;
    case Rounding::down:
      return FE_DOWNWARD;
    case Rounding::up:
      return FE_UPWARD;
    default:
      return FE_TONEAREST;
  }
}

template <typename T>
T flushed(T value) {
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(T{0}, value) : value;
}

template <typename T>
T to_integral(T value, Rounding rounding) {
  switch (rounding) {
    case Rounding::int_nearest:
      return std::nearbyint(value);
    case Rounding::int_zero:
      return std::trunc(value);
    case Rounding::int_down:
      return std::floor(value);
    case Rounding::int_up:
      return std::ceil(value);
    default:
      return value;
  }
}

// Integer to float, or a float to another: `volatile` keeps it between the changes of mode.
template <typename D, typename S>
D rounded(S source, Rounding rounding) {
  volatile S value = source;
  std::fesetround(mode_of(rounding));
  volatile D result = static_cast<D>(value);
  std::fesetround(FE_TONEAREST);
  return result;
}

// Out of range: the nearest value of D; NaN: 0.
template <typename D, typename S>
D float_to_integer(S value, Rounding rounding) {
  if (std::isnan(value)) {
    return 0;
  }
  const S whole = to_integral(value, rounding);
  const S end = std::ldexp(S{1}, std::numeric_limits<D>::digits);
  if (whole >= end) {
    return std::numeric_limits<D>::max();
  }
  const S lowest = std::is_signed_v<D> ? -end : S{0};
  return whole < lowest ? std::numeric_limits<D>::min() : static_cast<D>(whole);
}

template <typename D, typename S>
D integer_to_integer(S value, std::uint16_t flags) {
  if ((flags & saturate) != 0) {
    if (std::cmp_less(value, std::numeric_limits<D>::min())) {
      return std::numeric_limits<D>::min();
    }
    if (std::cmp_greater(value, std::numeric_limits<D>::max())) {
      return std::numeric_limits<D>::max();
    }
  }
  return static_cast<D>(value);
}

template <typename D, typename S>
D to_float(S value, std::uint16_t flags) {
  D result = 0;
  if constexpr (std::is_same_v<D, S>) {
    result = to_integral(value, rounding_of(flags));
  } else {
    result = rounded<D>(value, rounding_of(flags));
  }
  if (std::is_same_v<D, float> && (flags & ftz) != 0) {
    result = flushed(result);
  }
  if ((flags & saturate) != 0) {
    result = result > D{0} ? std::fmin(result, D{1}) : D{0};
  }
  if (std::is_same_v<D, float> && std::isnan(result)) {
    return static_cast<D>(std::bit_cast<float>(0x7fffffffU));
  }
  return result;
}

template <typename D, typename S>
void run_convert(Thread& thread, const Instruction& instruction) {
  const auto& [d, a, b, c] = instruction.operands;
  const std::uint16_t flags = instruction.flags;
  S value = thread.read<S>(a);
  if constexpr (std::is_same_v<S, float>) {
    value = (flags & ftz) != 0 ? flushed(value) : value;
  }
  D result = 0;
  if constexpr (std::is_floating_point_v<D>) {
    result = to_float<D>(value, flags);
  } else if constexpr (std::is_floating_point_v<S>) {
    result = float_to_integer<D>(value, rounding_of(flags));
  } else {
    result = integer_to_integer<D>(value, flags);
  }
  thread.write_extended<D>(d, result, instruction.width);
}

Rounding take_rounding(Modifiers& modifiers) {
  constexpr std::pair<std::string_view, Rounding> k_names[] = {
      {"rn", Rounding::nearest},   {"rz", Rounding::zero},         {"rm", Rounding::down},
      {"rp", Rounding::up},        {"rni", Rounding::int_nearest}, {"rzi", Rounding::int_zero},
      {"rmi", Rounding::int_down}, {"rpi", Rounding::int_up}};
  for (const auto& [name, rounding] : k_names) {
    if (modifiers.take(name)) {
      return rounding;
    }
  }
  return Rounding::none;
}

// Which rounding a pair of types has to name, and which it must not.
void check_rounding(const Modifiers& modifiers, Type to, Type from, Rounding rounding) {
  const bool to_nearest_float = rounding >= Rounding::nearest && rounding <= Rounding::up;
  const bool to_nearest_int = rounding >= Rounding::int_nearest;
  bool good = rounding == Rounding::none;
  if (is_float(to) && (!is_float(from) || size_bytes(from) > size_bytes(to))) {
    good = to_nearest_float;
  } else if (is_float(from) && !is_float(to)) {
    good = to_nearest_int;
  } else if (is_float(from) && to == from) {
    good = good || to_nearest_int;
  }
  if (!good) {
    modifiers.refuse("this pair of types wants another rounding, or none");
  }
}

Form convert(Modifiers& modifiers) {
  const Rounding rounding = take_rounding(modifiers);
  unsigned flags = modifiers.take("ftz") ? unsigned{ftz} : 0U;
  flags |= modifiers.take("sat") ? unsigned{saturate} : 0U;
  const Type to = modifiers.take_type();
  const Type from = modifiers.take_type();
  if (is_bits(to) || is_bits(from) || to == Type::pred || from == Type::pred) {
    modifiers.refuse("cvt takes .u, .s and .f types");
  }
  if ((flags & ftz) != 0 && to != Type::f32 && from != Type::f32) {
    modifiers.refuse(".ftz is for .f32");
  }
  check_rounding(modifiers, to, from, rounding);

  Form form;
  form.handler = with_any(to, [&]<typename D>(Tag<D>) {
    return with_any(from, []<typename S>(Tag<S>) -> Handler { return run_convert<D, S>; });
  });
  form.operands = 2;
  form.types = {to, from};
  form.may_be_wider = true;
  form.flags =
      static_cast<std::uint16_t>(flags | static_cast<unsigned>(rounding) << k_rounding_shift);
  return form;
}

Address window_of(Space space) {
  switch (space) {
    case Space::shared:
      return k_shared_window;
    case Space::local:
      return k_local_window;
    default:
      return 0;
  }
}

Address window_at(Address address) {
  if (address >= k_local_window) {
    return k_local_window;
  }
  return address >= k_shared_window ? k_shared_window : 0;
}

template <Space space, bool to_space>
void run_address(Thread& thread, const Instruction& instruction) {
  const auto address = thread.read<Address>(instruction.operands[1]);
  Address result = address + window_of(space);
  if (to_space) {
    if (window_at(address) != window_of(space)) {
      throw ProgramError(FaultKind::illegal_address,
                         "cvta.to of a generic address that is in another state space");
    }
    result = address - window_of(space);
  }
  thread.write(instruction.operands[0], result);
}

template <bool to_space>
Handler address_handler(Modifiers& modifiers) {
  if (modifiers.take("global") || modifiers.take("const")) {
    return run_address<Space::global, to_space>;
  }
  if (modifiers.take("shared")) {
    return run_address<Space::shared, to_space>;
  }
  if (modifiers.take("local")) {
    return run_address<Space::local, to_space>;
  }
  modifiers.refuse("global, const, shared or local is expected there");
}

}  // namespace

std::optional<Form> convert_form(std::string_view name, Modifiers& modifiers) {
  if (name == "cvt") {
    return convert(modifiers);
  }
  if (name == "cvta") {
    const Handler handler =
        modifiers.take("to") ? address_handler<true>(modifiers) : address_handler<false>(modifiers);
    if (!modifiers.take("u64")) {
      modifiers.refuse("addresses are .u64");
    }
    Form form = plain_form(handler, 2, Type::u64);
    form.shape = Shape::move;
    return form;
  }
  return std::nullopt;
}

}  // namespace spjit::emulated
