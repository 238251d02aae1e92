// and or xor not shl shr shf bfe bfi prmt popc clz brev selp mov.

#include <algorithm>

#include "emulated_driver/form_types.hpp"

namespace spjit::emulated {

namespace {

struct And {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};
struct Not {
  template <typename T>
  static T apply(T a) {
    if constexpr (std::is_same_v<T, bool>) {
      return !a;
    } else {
      return static_cast<T>(~a);
    }
  }
};

// Shifts by the width or more leave nothing but the sign.
template <typename T>
void run_left(Thread& thread, const Instruction& instruction) {
  const auto& [d, a, b, c] = instruction.operands;
  const auto amount = thread.read<std::uint32_t>(b);
  const auto value = static_cast<std::uint64_t>(thread.read<T>(a));
  thread.write<T>(d, amount >= 8 * sizeof(T) ? T{0} : static_cast<T>(value << amount));
}

template <typename T>
void run_right(Thread& thread, const Instruction& instruction) {
  const auto& [d, a, b, c] = instruction.operands;
  const auto amount = thread.read<std::uint32_t>(b);
  const T value = thread.read<T>(a);
  constexpr std::uint32_t bits = 8 * sizeof(T);
  if constexpr (std::is_signed_v<T>) {
    thread.write<T>(d, static_cast<T>(value >> std::min(amount, bits - 1)));
  } else {
    thread.write<T>(d, amount >= bits ? T{0} : static_cast<T>(value >> amount));
  }
}

template <bool is_left, bool wraps>
void run_funnel(Thread& thread, const Instruction& instruction) {
  const auto& [d, a, b, c] = instruction.operands;
  const std::uint64_t both =
      (std::uint64_t{thread.read<std::uint32_t>(b)} << 32) | thread.read<std::uint32_t>(a);
  const auto given = thread.read<std::uint32_t>(c);
  const std::uint32_t amount = wraps ? given & 31U : std::min(given, 32U);
  const std::uint64_t shifted = is_left ? both << amount >> 32 : both >> amount;
  thread.write<std::uint32_t>(d, static_cast<std::uint32_t>(shifted));
}

// The bits beyond the value's end are its sign's, or zero.
template <typename T>
void run_extract(Thread& thread, const Instruction& instruction) {
  const auto& [d, a, b, c] = instruction.operands;
  constexpr std::uint32_t bits = 8 * sizeof(T);
  const auto value = static_cast<std::uint64_t>(thread.read<T>(a));
  const std::uint32_t position = thread.read<std::uint32_t>(b) & 0xffU;
  const std::uint32_t length = thread.read<std::uint32_t>(c) & 0xffU;
  bool sign = false;
  if (std::is_signed_v<T> && length > 0) {
    sign = (value >> std::min(position + length - 1, bits - 1) & 1) != 0;
  }
  std::uint64_t result = 0;
  for (std::uint32_t i = 0; i < bits; ++i) {
    const bool inside = i < length && position + i < bits;
    const bool bit = inside ? (value >> (position + i) & 1) != 0 : sign;
    result |= std::uint64_t{bit} << i;
  }
  thread.write<T>(d, static_cast<T>(result));
}

// Bits beyond the value's end are left out.
template <typename T>
void run_insert(Thread& thread, const Instruction& instruction) {
  const auto& [d, a, b, c] = instruction.operands;
  constexpr std::uint32_t bits = 8 * sizeof(T);
  const T inserted = thread.read<T>(a);
  T result = thread.read<T>(b);
  const std::uint32_t position = thread.read<std::uint32_t>(c) & 0xffU;
  const std::uint32_t length = thread.read<std::uint32_t>(instruction.extra) & 0xffU;
  for (std::uint32_t i = 0; i < length && position + i < bits; ++i) {
    const T bit = T{1} << (position + i);
    result = (inserted >> i & 1U) != 0 ? result | bit : result & ~bit;
  }
  thread.write<T>(d, result);
}

struct Permute {
  template <typename T>
  static T apply(T a, T b, T selector) {
    const std::uint64_t bytes = (std::uint64_t{b} << 32) | a;
    T result = 0;
    for (std::uint32_t i = 0; i < 4; ++i) {
      const std::uint32_t choice = selector >> (4 * i) & 0xfU;
      auto byte = static_cast<std::uint32_t>(bytes >> (8 * (choice & 7U)) & 0xffU);
      if ((choice & 8U) != 0) {
        byte = (byte & 0x80U) != 0 ? 0xffU : 0;
      }
      result |= byte << (8 * i);
    }
    return result;
  }
};

struct Reverse {
  template <typename T>
  static T apply(T a) {
    T result = 0;
    for (std::uint32_t i = 0; i < 8 * sizeof(T); ++i) {
      result = static_cast<T>((result << 1) | (a >> i & 1U));
    }
    return result;
  }
};

template <typename T, bool leading_zeros>
void run_count(Thread& thread, const Instruction& instruction) {
  const T value = thread.read<T>(instruction.operands[1]);
  const int count = leading_zeros ? std::countl_zero(value) : std::popcount(value);
  thread.write<std::uint32_t>(instruction.operands[0], static_cast<std::uint32_t>(count));
}

template <typename T>
void run_select(Thread& thread, const Instruction& instruction) {
  const auto& [d, a, b, p] = instruction.operands;
  // Both are read: an undefined one is an error whichever is chosen.
  const T if_true = thread.read<T>(a);
  const T if_false = thread.read<T>(b);
  thread.write<T>(d, thread.read<bool>(p) ? if_true : if_false);
}

template <typename T>
void run_move(Thread& thread, const Instruction& instruction) {
  thread.write<T>(instruction.operands[0], thread.read<T>(instruction.operands[1]));
}

void run_unpack(Thread& thread, const Instruction& instruction) {
  const auto bits = thread.read<std::uint64_t>(instruction.operands[1]);
  const std::uint32_t element_bits = 8U * instruction.width;
  const std::uint64_t mask = (std::uint64_t{1} << element_bits) - 1;
  for (std::uint32_t i = 0; i < instruction.flags; ++i) {
    const Operand slot = thread.function().vector_slots[instruction.extra + i];
    if (slot != k_no_operand) {
      thread.write<std::uint64_t>(slot, bits >> (element_bits * i) & mask);
    }
  }
}

void run_pack(Thread& thread, const Instruction& instruction) {
  const std::uint32_t element_bits = 8U * instruction.width;
  const std::uint64_t mask = (std::uint64_t{1} << element_bits) - 1;
  std::uint64_t bits = 0;
  for (std::uint32_t i = 0; i < instruction.flags; ++i) {
    const Operand slot = thread.function().vector_slots[instruction.extra + i];
    bits |= (thread.read<std::uint64_t>(slot) & mask) << (element_bits * i);
  }
  thread.write<std::uint64_t>(instruction.operands[0], bits);
}

Type take_bits(Modifiers& modifiers, bool with_predicates, std::uint32_t least_bytes = 2) {
  const Type type = modifiers.take_type();
  if ((type == Type::pred && with_predicates) ||
      (is_bits(type) && size_bytes(type) >= least_bytes)) {
    return type;
  }
  modifiers.refuse("another .b type is expected");
}

template <typename Operation, std::uint32_t operands>
Form bitwise(Modifiers& modifiers) {
  const Type type = take_bits(modifiers, true);
  const auto choose = [&]<typename T>(Tag<T>) -> Form {
    if constexpr (operands == 2) {
      return plain_form(run_unary<T, Operation>, operands, type);
    } else {
      return plain_form(run_binary<T, Operation>, operands, type);
    }
  };
  return type == Type::pred ? choose(Tag<bool>{}) : with_integer(type, choose);
}

Form shift_form(bool is_left, Modifiers& modifiers) {
  const Type type = modifiers.take_type();
  if (is_float(type) || type == Type::pred || size_bytes(type) == 1 ||
      (is_left && !is_bits(type))) {
    modifiers.refuse("another type is expected");
  }
  Form form = with_integer(type, [&]<typename T>(Tag<T>) {
    return plain_form(is_left ? run_left<T> : run_right<T>, 3, type);
  });
  form.types[2] = Type::u32;
  return form;
}

Form funnel_form(Modifiers& modifiers) {
  const bool is_left = modifiers.take("l");
  if (!is_left && !modifiers.take("r")) {
    modifiers.refuse(".l or .r is expected there");
  }
  const bool wraps = modifiers.take("wrap");
  if (!wraps && !modifiers.take("clamp")) {
    modifiers.refuse(".wrap or .clamp is expected there");
  }
  if (modifiers.take_type() != Type::b32) {
    modifiers.refuse(".b32 is expected");
  }
  const Handler left = wraps ? run_funnel<true, true> : run_funnel<true, false>;
  const Handler right = wraps ? run_funnel<false, true> : run_funnel<false, false>;
  return plain_form(is_left ? left : right, 4, Type::b32);
}

Form extract_form(Modifiers& modifiers) {
  const Type type = modifiers.take_type();
  if (is_bits(type) || is_float(type) || size_bytes(type) < 4) {
    modifiers.refuse("u32, u64, s32 or s64 is expected");
  }
  Form form =
      with_integer(type, [&]<typename T>(Tag<T>) { return plain_form(run_extract<T>, 4, type); });
  form.types[2] = form.types[3] = Type::u32;
  return form;
}

Form insert_form(Modifiers& modifiers) {
  const Type type = take_bits(modifiers, false, 4);
  Form form = plain_form(type == Type::b32 ? run_insert<std::uint32_t> : run_insert<std::uint64_t>,
                         5, type);
  form.types[3] = form.types[4] = Type::u32;
  return form;
}

template <bool leading_zeros>
Form count_form(Modifiers& modifiers) {
  const Type type = take_bits(modifiers, false, 4);
  Form form = plain_form(type == Type::b32 ? run_count<std::uint32_t, leading_zeros>
                                           : run_count<std::uint64_t, leading_zeros>,
                         2, type);
  form.types[0] = Type::u32;
  return form;
}

Form select_form(Modifiers& modifiers) {
  const Type type = modifiers.take_type();
  if (type == Type::pred || size_bytes(type) == 1) {
    modifiers.refuse("a type of 16 bits or more is expected");
  }
  Form form =
      with_any(type, [&]<typename T>(Tag<T>) { return plain_form(run_select<T>, 4, type); });
  form.types[3] = Type::pred;
  return form;
}

Form move_form(Modifiers& modifiers) {
  const Type type = modifiers.take_type();
  Form form = plain_form(run_move<bool>, 2, type);
  if (type != Type::pred) {
    form.handler = with_integer(
        type, []<typename T>(Tag<T>) -> Handler { return run_move<std::make_unsigned_t<T>>; });
  }
  if (is_float(type)) {
    form.handler = type == Type::f32 ? run_move<std::uint32_t> : run_move<std::uint64_t>;
  }
  form.shape = Shape::move;
  form.vector_moves = {run_unpack, run_pack};
  return form;
}

}  // namespace

std::optional<Form> logic_form(std::string_view name, Modifiers& modifiers) {
  if (name == "and") {
    return bitwise<And, 3>(modifiers);
  }
  if (name == "or") {
    return bitwise<Or, 3>(modifiers);
  }
  if (name == "xor") {
    return bitwise<Xor, 3>(modifiers);
  }
  if (name == "not") {
    return bitwise<Not, 2>(modifiers);
  }
  if (name == "shl" || name == "shr") {
    return shift_form(name == "shl", modifiers);
  }
  if (name == "shf") {
    return funnel_form(modifiers);
  }
  if (name == "bfe") {
    return extract_form(modifiers);
  }
  if (name == "bfi") {
    return insert_form(modifiers);
  }
  if (name == "prmt" && modifiers.take("b32")) {
    return plain_form(run_ternary<std::uint32_t, Permute>, 4, Type::b32);
  }
  if (name == "brev") {
    const Type type = take_bits(modifiers, false, 4);
    return plain_form(
        type == Type::b32 ? run_unary<std::uint32_t, Reverse> : run_unary<std::uint64_t, Reverse>,
        2, type);
  }
  if (name == "popc") {
    return count_form<false>(modifiers);
  }
  if (name == "clz") {
    return count_form<true>(modifiers);
  }
  if (name == "selp") {
    return select_form(modifiers);
  }
  if (name == "mov") {
    return move_form(modifiers);
  }
  return std::nullopt;
}

}  // namespace spjit::emulated
