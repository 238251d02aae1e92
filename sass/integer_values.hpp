#pragma once

/// @file
/// Results of integer operations of SASS, of one lane. Used by all that execute them, to check
/// results or to know addresses. Operands come with their signs applied, but where one is named.

#include <algorithm>
#include <bit>
#include <cstdint>

#include "sass/instruction.hpp"
#include "sass/lanes.hpp"

namespace spjit::sass {

/// Adds three words, each perhaps inverted or negated, and carries. A negated one is inverted plus
/// 1, so that a carry out means that nothing was borrowed.
struct Addend {
  std::uint32_t value = 0;
  bool is_negated = false;
};

[[nodiscard]] inline std::uint64_t plus(std::uint64_t sum, const Addend& addend) {
  return sum + (addend.is_negated ? std::uint64_t{~addend.value} + 1 : addend.value);
}

/// The part that all kinds of IMAD share.
struct Imad {
  bool is_signed = true;
  bool is_wide = false;        ///< both words of the sum are the result
  bool is_high = false;        ///< the upper one is
  bool has_pair = false;       ///< C has 64 bits
  bool has_carry_out = false;  ///< an operand for it
};

[[nodiscard]] inline Imad imad_of(const Instruction& instruction) {
  const bool is_wide = instruction.has(Modifier::wide);
  const bool is_high = instruction.has(Modifier::hi);
  return {.is_signed = !instruction.has(Modifier::u32),
          .is_wide = is_wide,
          .is_high = is_high,
          .has_pair = is_wide || is_high,
          .has_carry_out = is_wide || is_high};
}

/// A sum of 64 bits, and whether it carried.
struct WideSum {
  std::uint64_t value = 0;
  bool carries = false;
};

[[nodiscard]] inline std::uint64_t signed_pair(std::uint32_t low, std::uint32_t high,
                                               const Operand& operand) {
  const std::uint64_t value = std::uint64_t{high} << 32 | low;
  if (operand.inverted) return ~value;
  return operand.negated ? 0 - value : value;
}

/// a * b + c + carry, of which .HI keeps the upper word and others than .WIDE the lower one.
[[nodiscard]] WideSum imad_value(const Imad& kind, std::uint32_t a, std::uint32_t b,
                                 std::uint64_t c, bool carry);

/// (a << shift) + b, or of {c, a} << shift the upper half + b.
struct Lea {
  bool is_high = false;
  bool is_extended = false;
  unsigned shift = 0;
};

[[nodiscard]] inline Lea lea_of(const Instruction& instruction) {
  return {.is_high = instruction.has(Modifier::hi),
          .is_extended = instruction.has(Modifier::sx32),
          .shift = static_cast<unsigned>(instruction.operands[5].value)};
}

[[nodiscard]] inline std::uint64_t lea_value(const Lea& kind, std::uint32_t a, std::uint32_t b,
                                             std::uint32_t c, bool carry) {
  const std::uint32_t upper = kind.is_extended && (a & 0x80000000) != 0 ? 0xffffffff
                              : kind.is_extended                        ? 0
                                                                        : c;
  const std::uint64_t shifted = (std::uint64_t{kind.is_high ? upper : 0} << 32 | a) << kind.shift;
  const std::uint64_t scaled = kind.is_high ? shifted >> 32 : shifted & 0xffffffff;
  return scaled + b + (carry ? 1 : 0);
}

[[nodiscard]] inline std::uint32_t magnitude(std::uint32_t a) {
  return (a & 0x80000000) != 0 ? 0U - a : a;
}

[[nodiscard]] inline std::uint32_t extremum(std::uint32_t a, std::uint32_t b, bool is_signed,
                                            bool is_min) {
  const bool a_is_less =
      is_signed ? static_cast<std::int32_t>(a) < static_cast<std::int32_t>(b) : a < b;
  return a_is_less == is_min ? a : b;
}

/// The place of the highest bit that is set (of a negative number: that is not), or all ones; with
/// .SH how far it is from bit 31.
[[nodiscard]] inline std::uint32_t leading_bit(std::uint32_t a, const Instruction& instruction) {
  const bool inverts = !instruction.has(Modifier::u32) && (a & 0x80000000) != 0;
  const std::uint32_t searched = inverts ? ~a : a;
  if (searched == 0) return 0xffffffff;
  const auto from_top = static_cast<std::uint32_t>(std::countl_zero(searched));
  return instruction.has(Modifier::sh) ? from_top : 31 - from_top;
}

/// Each bit by a table of eight: bit 4a + 2b + c of `table`.
[[nodiscard]] inline std::uint32_t by_table(std::uint32_t a, std::uint32_t b, std::uint32_t c,
                                            std::uint32_t table) {
  std::uint32_t result = 0;
  for (std::uint32_t row = 0; row < 8; ++row) {
    if ((table >> row & 1) == 0) continue;
    result |= ((row & 4) != 0 ? a : ~a) & ((row & 2) != 0 ? b : ~b) & ((row & 1) != 0 ? c : ~c);
  }
  return result;
}

/// {c, a} << b or >> b, the lower or the upper half.
struct Shift {
  bool is_right = false;
  bool wraps = false;
  bool is_high = false;
  bool is_signed = false;
  unsigned bits = 32;
};

[[nodiscard]] inline Shift shift_of(const Instruction& instruction) {
  const bool is_wide = instruction.has(Modifier::u64) || instruction.has(Modifier::s64);
  return {.is_right = instruction.has(Modifier::r),
          .wraps = instruction.has(Modifier::w),
          .is_high = instruction.has(Modifier::hi),
          .is_signed = instruction.has(Modifier::s32) || instruction.has(Modifier::s64),
          .bits = is_wide ? 64U : 32U};
}

[[nodiscard]] inline std::uint32_t shifted(const Shift& kind, std::uint32_t a, std::uint32_t b,
                                           std::uint32_t c) {
  const unsigned amount = kind.wraps ? b & (kind.bits - 1) : std::min(b, kind.bits);
  const std::uint64_t value = std::uint64_t{c} << 32 | a;
  std::uint64_t result = 0;
  if (kind.is_right && kind.is_signed) {
    // The upper half alone of 32 bits has a sign.
    result = static_cast<std::uint64_t>(static_cast<std::int64_t>(value) >> std::min(amount, 63U));
  } else if (amount < 64) {
    result = kind.is_right ? value >> amount : value << amount;
  }
  return static_cast<std::uint32_t>((kind.is_high ? result >> 32 : result) & 0xffffffff);
}

/// Four bytes of {c, a}, each named by four bits of b, of which the highest asks for its sign.
[[nodiscard]] inline std::uint32_t permuted(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  const std::uint64_t bytes = std::uint64_t{c} << 32 | a;
  std::uint32_t result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const std::uint32_t selector = b >> 4 * i & 0xf;
    auto byte = static_cast<std::uint32_t>(bytes >> 8 * (selector & 7) & 0xff);
    if ((selector & 8) != 0) byte = (byte & 0x80) != 0 ? 0xff : 0;
    result |= byte << 8 * i;
  }
  return result;
}

/// Whether a comparison holds; with .EX of the upper halves, where equal ones leave it to the
/// lower.
[[nodiscard]] inline bool compares(const Instruction& instruction, std::uint32_t a, std::uint32_t b,
                                   bool low) {
  const bool is_signed = !instruction.has(Modifier::u32);
  const bool is_less =
      is_signed ? static_cast<std::int32_t>(a) < static_cast<std::int32_t>(b) : a < b;
  const bool is_equal = a == b;
  const bool equal_counts = !instruction.has(Modifier::ex) || low;
  switch (instruction.modifiers[0]) {
    case Modifier::lt:
      return is_less || (instruction.has(Modifier::ex) && is_equal && low);
    case Modifier::le:
      return is_less || (is_equal && equal_counts);
    case Modifier::gt:
      return (!is_less && !is_equal) || (instruction.has(Modifier::ex) && is_equal && low);
    case Modifier::ge:
      return !is_less && (!is_equal || equal_counts);
    case Modifier::eq:
      return is_equal && equal_counts;
    case Modifier::ne:
      return !is_equal || (instruction.has(Modifier::ex) && low);
    case Modifier::t:
      return true;
    default:  // .F
      return false;
  }
}

[[nodiscard]] inline LaneMask combined(const Instruction& instruction, LaneMask holds,
                                       LaneMask with) {
  if (instruction.has(Modifier::or_)) return holds | with;
  return instruction.has(Modifier::xor_) ? holds ^ with : holds & with;
}

}  // namespace spjit::sass
