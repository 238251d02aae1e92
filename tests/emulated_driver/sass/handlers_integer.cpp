// IADD3 IMAD IABS LEA VIADD IMNMX VIMNMX VIMNMX3 VIADDMNMX FLO POPC, and UIADD3 UIMAD ULEA UFLO

#include <algorithm>
#include <bit>

#include "emulated_driver/sass/handlers.hpp"
#include "sass/integer_values.hpp"

namespace spjit::emulated {

namespace {

using sass::Addend;
using sass::extremum;
using sass::Imad;
using sass::imad_of;
using sass::imad_value;
using sass::Lea;
using sass::lea_of;
using sass::lea_value;
using sass::leading_bit;
using sass::magnitude;
using sass::Modifier;
using sass::Opcode;
using sass::plus;
using sass::signed_pair;
using sass::WideSum;

/// An operand of a sum without its sign, which the sum takes care of.
sass::Operand without_negation(const sass::Operand& operand) {
  sass::Operand plain = operand;
  plain.negated = false;
  return plain;
}

/// A sum has room for two carries; one that nothing keeps is a mistake if another is kept.
void check_carries(std::uint64_t most, bool keeps_first, bool keeps_second) {
  if (most < 2 || !keeps_first || keeps_second) return;
  throw ProgramError(FaultKind::trap, "gives two carries, of which one is kept");
}

constexpr std::size_t k_first_addend = 3;

void iadd3(Warp& warp, const SassOperation& operation) {
  std::array<Lanes, 3> rooms;
  std::array<const Lanes*, 3> values = {};
  std::array<bool, 3> is_negated = {};
  for (std::size_t i = 0; i < 3; ++i) {
    const sass::Operand& operand = operation.at(k_first_addend + i);
    is_negated[i] = operand.negated;
    values[i] = &warp.integers(without_negation(operand), rooms[i]);
  }
  const LaneMask first_carry = warp.predicate(operation.at(6));
  const LaneMask second_carry = warp.predicate(operation.at(7));
  Lanes d;
  LaneMask once = 0;
  LaneMask twice = 0;
  for (unsigned i = 0; i < k_lanes; ++i) {
    std::uint64_t sum = (first_carry >> i & 1) + (second_carry >> i & 1);
    for (std::size_t k = 0; k < 3; ++k) sum = plus(sum, {(*values[k])[i], is_negated[k]});
    d[i] = static_cast<std::uint32_t>(sum & 0xffffffff);
    once |= LaneMask{sum >> 32 >= 1} << i;
    twice |= LaneMask{sum >> 32 >= 2} << i;
  }
  const sass::Operand& first = operation.at(1);
  const sass::Operand& second = operation.at(2);
  check_carries((twice & warp.exec()) != 0 ? 2 : 0, !first.is_fixed(), !second.is_fixed());
  warp.write(operation.at(0), d);
  warp.write_predicate(first, once);
  warp.write_predicate(second, twice);
}

void uiadd3(Warp& warp, const SassOperation& operation) {
  std::uint64_t sum = 0;
  for (const std::size_t carry : {6U, 7U}) {
    sum += warp.uniform_predicate(operation.at(carry)) ? 1U : 0U;
  }
  for (std::size_t i = k_first_addend; i < k_first_addend + 3; ++i) {
    const sass::Operand& operand = operation.at(i);
    sum = plus(sum, {warp.scalar(without_negation(operand)), operand.negated});
  }
  const sass::Operand& first = operation.at(1);
  const sass::Operand& second = operation.at(2);
  check_carries(sum >> 32, !first.is_fixed(), !second.is_fixed());
  warp.write_scalar(operation.at(0), static_cast<std::uint32_t>(sum & 0xffffffff));
  warp.registers().write_uniform_predicate(first.number, sum >> 32 >= 1);
  warp.registers().write_uniform_predicate(second.number, sum >> 32 >= 2);
}

/// Refuses carries of .HI, and a C of 64 bits whose upper half its immediate does not tell.
void refuse_unclear(const sass::Instruction& instruction) {
  const Imad kind = imad_of(instruction);
  if (!kind.has_pair) return;
  const bool has_carry = !instruction.operands[1].is_fixed() || instruction.has(Modifier::x);
  const sass::Operand& c = instruction.operands[4];
  const bool is_unclear =
      c.kind == sass::OperandKind::integer && (c.value & 0xffffffff) >= 0x80000000;
  if ((kind.is_high && has_carry) || is_unclear) refuse_form(instruction);
}

sass::Operand without_signs(const sass::Operand& operand) {
  sass::Operand plain = operand;
  plain.negated = false;
  plain.inverted = false;
  return plain;
}

void imad(Warp& warp, const SassOperation& operation) {
  const Imad kind = imad_of(operation.instruction);
  const std::size_t first = kind.has_carry_out ? 2 : 1;
  const sass::Operand& c_operand = operation.at(first + 2);
  Lanes room_a;
  Lanes room_b;
  Lanes room_c;
  Lanes room_c_high;
  const Lanes& a = warp.integers(operation.at(first), room_a);
  const Lanes& b = warp.integers(operation.at(first + 1), room_b);
  const sass::Operand plain = without_signs(c_operand);
  const Lanes& c = warp.integers(plain, room_c);
  const Lanes& c_high = kind.has_pair ? warp.integers(plain, room_c_high, 1) : c;
  const LaneMask carry_in = warp.predicate(operation.at(first + 3));
  Lanes d;
  Lanes d_high;
  LaneMask carries = 0;
  for (unsigned i = 0; i < k_lanes; ++i) {
    const std::uint64_t added = signed_pair(c[i], kind.has_pair ? c_high[i] : 0, c_operand);
    const WideSum sum = imad_value(kind, a[i], b[i], added, (carry_in >> i & 1) != 0);
    d[i] = static_cast<std::uint32_t>(sum.value & 0xffffffff);
    d_high[i] = static_cast<std::uint32_t>(sum.value >> 32);
    carries |= LaneMask{sum.carries} << i;
  }
  warp.write(operation.at(0), d);
  if (kind.is_wide) warp.write(operation.at(0), d_high, 1);
  if (kind.has_carry_out) warp.write_predicate(operation.at(1), carries);
}

void uimad(Warp& warp, const SassOperation& operation) {
  const Imad kind = imad_of(operation.instruction);
  const std::size_t first = kind.has_carry_out ? 2 : 1;
  const sass::Operand& c = operation.at(first + 2);
  const sass::Operand plain = without_signs(c);
  const std::uint64_t added =
      signed_pair(warp.scalar(plain), kind.has_pair ? warp.scalar(plain, 1) : 0, c);
  const WideSum sum =
      imad_value(kind, warp.scalar(operation.at(first)), warp.scalar(operation.at(first + 1)),
                 added, warp.uniform_predicate(operation.at(first + 3)));
  warp.write_scalar(operation.at(0), static_cast<std::uint32_t>(sum.value & 0xffffffff));
  if (kind.is_wide) {
    warp.write_scalar(operation.at(0), static_cast<std::uint32_t>(sum.value >> 32), 1);
  }
  if (kind.has_carry_out) {
    warp.registers().write_uniform_predicate(operation.at(1).number, sum.carries);
  }
}

void lea(Warp& warp, const SassOperation& operation) {
  const Lea kind = lea_of(operation.instruction);
  Lanes room_a;
  Lanes room_b;
  Lanes room_c;
  const Lanes& a = warp.integers(operation.at(2), room_a);
  const Lanes& b = warp.integers(operation.at(3), room_b);
  const Lanes& c = warp.integers(operation.at(4), room_c);
  const LaneMask carry_in = warp.predicate(operation.at(6));
  Lanes d;
  LaneMask carries = 0;
  for (unsigned i = 0; i < k_lanes; ++i) {
    // Without a carry in, the field says !PT.
    const std::uint64_t sum = lea_value(kind, a[i], b[i], c[i], (carry_in >> i & 1) != 0);
    d[i] = static_cast<std::uint32_t>(sum & 0xffffffff);
    carries |= LaneMask{sum >> 32 != 0} << i;
  }
  warp.write(operation.at(0), d);
  warp.write_predicate(operation.at(1), carries);
}

void ulea(Warp& warp, const SassOperation& operation) {
  const std::uint64_t sum = lea_value(lea_of(operation.instruction), warp.scalar(operation.at(2)),
                                      warp.scalar(operation.at(3)), warp.scalar(operation.at(4)),
                                      warp.uniform_predicate(operation.at(6)));
  warp.write_scalar(operation.at(0), static_cast<std::uint32_t>(sum & 0xffffffff));
  warp.registers().write_uniform_predicate(operation.at(1).number, sum >> 32 != 0);
}

/// -a is shifted as a word of its own; the sum then carries in another way than its parts would.
void refuse_signs(const sass::Instruction& instruction) {
  const bool has_carry = !instruction.operands[1].is_fixed() || instruction.has(Modifier::x);
  const bool is_word = !has_carry && !instruction.has(Modifier::hi);
  for (std::size_t i = 2; i < 5; ++i) {
    const sass::Operand& operand = instruction.operands[i];
    const bool is_first = i == 2 && operand.negated && !operand.inverted;
    if ((operand.negated || operand.inverted) && !(is_first && is_word)) refuse_form(instruction);
  }
}

std::uint32_t sum_of_two(std::uint32_t a, std::uint32_t b) { return a + b; }

void minimum_or_maximum(Warp& warp, const SassOperation& operation) {
  Lanes room_a;
  Lanes room_b;
  Lanes d;
  const Lanes& a = warp.integers(operation.at(1), room_a);
  const Lanes& b = warp.integers(operation.at(2), room_b);
  const LaneMask is_min = warp.predicate(operation.at(3));
  const bool is_signed = !operation.instruction.has(Modifier::u32);
  for (unsigned i = 0; i < k_lanes; ++i) {
    d[i] = extremum(a[i], b[i], is_signed, (is_min >> i & 1) != 0);
  }
  warp.write(operation.at(0), d);
}

void extremum_of_three(Warp& warp, const SassOperation& operation) {
  Lanes room_a;
  Lanes room_b;
  Lanes room_c;
  Lanes d;
  const Lanes& a = warp.integers(operation.at(1), room_a);
  const Lanes& b = warp.integers(operation.at(2), room_b);
  const Lanes& c = warp.integers(operation.at(3), room_c);
  const LaneMask is_min = warp.predicate(operation.at(4));
  const bool is_signed = !operation.instruction.has(Modifier::u32);
  for (unsigned i = 0; i < k_lanes; ++i) {
    const bool is_least = (is_min >> i & 1) != 0;
    d[i] = extremum(extremum(a[i], b[i], is_signed, is_least), c[i], is_signed, is_least);
  }
  warp.write(operation.at(0), d);
}

void sum_and_extremum(Warp& warp, const SassOperation& operation) {
  Lanes room_a;
  Lanes room_b;
  Lanes room_c;
  Lanes d;
  const Lanes& a = warp.integers(operation.at(1), room_a);
  const Lanes& b = warp.integers(operation.at(2), room_b);
  const Lanes& c = warp.integers(operation.at(3), room_c);
  const LaneMask is_min = warp.predicate(operation.at(4));
  const bool is_signed = !operation.instruction.has(Modifier::u32);
  for (unsigned i = 0; i < k_lanes; ++i) {
    d[i] = extremum(a[i] + b[i], c[i], is_signed, (is_min >> i & 1) != 0);
  }
  warp.write(operation.at(0), d);
}

void flo(Warp& warp, const SassOperation& operation) {
  Lanes room;
  Lanes d;
  const Lanes& a = warp.integers(operation.at(2), room);
  LaneMask found = 0;
  for (unsigned i = 0; i < k_lanes; ++i) {
    d[i] = leading_bit(a[i], operation.instruction);
    found |= LaneMask{d[i] != 0xffffffff} << i;
  }
  warp.write(operation.at(0), d);
  warp.write_predicate(operation.at(1), found);
}

void uflo(Warp& warp, const SassOperation& operation) {
  const std::uint32_t place = leading_bit(warp.scalar(operation.at(2)), operation.instruction);
  warp.write_scalar(operation.at(0), place);
  warp.registers().write_uniform_predicate(operation.at(1).number, place != 0xffffffff);
}

std::uint32_t ones(std::uint32_t a) { return static_cast<std::uint32_t>(std::popcount(a)); }

}  // namespace

SassHandler integer_handler(const sass::Instruction& instruction) {
  switch (instruction.opcode) {
    case Opcode::iadd3:
      return iadd3;
    case Opcode::uiadd3:
      return uiadd3;
    case Opcode::imad:
      refuse_unclear(instruction);
      return imad;
    case Opcode::uimad:
      refuse_unclear(instruction);
      return uimad;
    case Opcode::lea:
      refuse_signs(instruction);
      return lea;
    case Opcode::ulea:
      refuse_signs(instruction);
      return ulea;
    case Opcode::viadd:
      return integers_of_two<sum_of_two>;
    case Opcode::iabs:
      return integers_of_one<magnitude>;
    case Opcode::imnmx:
    case Opcode::vimnmx:
      return minimum_or_maximum;
    case Opcode::vimnmx3:
      return extremum_of_three;
    case Opcode::viaddmnmx:
      return sum_and_extremum;
    case Opcode::flo:
      return flo;
    case Opcode::uflo:
      return uflo;
    case Opcode::popc:
      return integers_of_one<ones>;
    default:
      return nullptr;
  }
}

}  // namespace spjit::emulated
