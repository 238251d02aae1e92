#include "sass/reader.hpp"

#include <fmt/format.h>

#include "spjit/error.hpp"

namespace spjit::sass {
namespace {

// Forms of operations with two or three sources, by the bits 9 to 11. "Low" is the place at bits 32
// to 63, which also takes what is no register; what lies there is B or, in some forms, C.
constexpr std::uint32_t k_registers = 1;
constexpr std::uint32_t k_immediate_c = 2;
constexpr std::uint32_t k_constant_c = 3;
constexpr std::uint32_t k_immediate_b = 4;
constexpr std::uint32_t k_constant_b = 5;
constexpr std::uint32_t k_uniform_b = 6;
constexpr std::uint32_t k_uniform_c = 7;

constexpr unsigned k_uniform_bit = 91;

constexpr unsigned reuse_bit(Slot slot) { return 122 + static_cast<unsigned>(slot); }

}  // namespace

Reader::Reader(const Encoding& encoding, std::uint32_t offset, int arch)
    : unread_(encoding), arch_(arch) {
  instruction_.encoding = encoding;
  instruction_.offset = offset;
  take(0, 12);
}

std::uint64_t Reader::take(unsigned first, unsigned width) {
  std::uint64_t value = 0;
  for (unsigned i = 0; i < width;) {  // a field may lie across both words
    const unsigned word = (first + i) / 64;
    const unsigned bit = (first + i) % 64;
    const unsigned count = std::min(width - i, 64 - bit);
    const std::uint64_t mask = (count == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1);
    value |= (instruction_.encoding[word] >> bit & mask) << i;
    unread_[word] &= ~(mask << bit);
    i += count;
  }
  return value;
}

std::int64_t Reader::take_signed(unsigned first, unsigned width) {
  const unsigned unused = 64 - width;
  return static_cast<std::int64_t>(take(first, width) << unused) >> unused;
}

void Reader::expect(unsigned first, unsigned width, std::uint64_t value) {
  if (take(first, width) != value) refuse();
}

void Reader::refuse() const {
  throw Error(fmt::format("unknown instruction {:016x}{:016x} of sm_{}", instruction_.encoding[1],
                          instruction_.encoding[0], arch_));
}

void Reader::begin_uniform(Opcode opcode) {
  begin(opcode);
  is_uniform_ = true;
  expect(k_uniform_bit, 1, 1);
}

void Reader::add(Modifier modifier) {
  if (modifier == Modifier::refused) refuse();
  if (modifier != Modifier::none) instruction_.modifiers.push_back(modifier);
}

Modifier Reader::add_from(unsigned first, unsigned width, std::initializer_list<Modifier> names) {
  const std::uint64_t value = take(first, width);
  if (value >= names.size()) refuse();
  const Modifier modifier = names.begin()[value];
  add(modifier);
  return modifier;
}

Operand& Reader::add(const Operand& operand) {
  instruction_.operands.push_back(operand);
  return instruction_.operands.back();
}

Operand& Reader::plain_register(OperandKind kind, unsigned first, std::uint8_t registers) {
  const unsigned width = kind == OperandKind::reg ? 8 : 6;
  Operand operand;
  operand.kind = kind;
  operand.number = static_cast<std::uint8_t>(take(first, width));
  operand.registers = registers;
  return add(operand);
}

Operand& Reader::destination(std::uint8_t registers) {
  ++instruction_.destinations;
  return plain_register(is_uniform_ ? OperandKind::uniform : OperandKind::reg, 16, registers);
}

Operand& Reader::destination_predicate(unsigned first, bool always_shown) {
  Operand operand;
  operand.kind = is_uniform_ ? OperandKind::uniform_predicate : OperandKind::predicate;
  operand.number = static_cast<std::uint8_t>(take(first, 3));
  operand.hidden = !always_shown && operand.number == k_true;
  ++instruction_.destinations;
  return add(operand);
}

Operand& Reader::source_predicate(unsigned first, std::uint64_t neutral) {
  const std::uint64_t bits = take(first, 4);
  Operand operand;
  operand.kind = is_uniform_ ? OperandKind::uniform_predicate : OperandKind::predicate;
  operand.number = static_cast<std::uint8_t>(bits & 7);
  operand.negated = (bits & 8) != 0;
  operand.hidden = bits == neutral;
  return add(operand);
}

void Reader::sign(Operand& operand, Sign allowed, unsigned negate_bit, unsigned absolute_bit) {
  if (allowed == Sign::invert) operand.inverted = flag(negate_bit);
  if (allowed == Sign::negate || allowed == Sign::negate_absolute) {
    operand.negated = flag(negate_bit);
  }
  if (allowed == Sign::negate_absolute) operand.absolute = flag(absolute_bit);
}

Operand& Reader::source_a(Sign allowed, std::uint8_t registers) {
  Operand& operand =
      plain_register(is_uniform_ ? OperandKind::uniform : OperandKind::reg, 24, registers);
  sign(operand, allowed, 72, 73);
  if (!is_uniform_) operand.reuse = flag(reuse_bit(Slot::a));
  return operand;
}

Operand& Reader::register_high(Sign allowed, std::uint8_t registers, Slot slot) {
  Operand& operand =
      plain_register(is_uniform_ ? OperandKind::uniform : OperandKind::reg, 64, registers);
  sign(operand, allowed, 75, 74);
  if (!is_uniform_) operand.reuse = flag(reuse_bit(slot));
  return operand;
}

Operand& Reader::low_operand(Sign allowed, std::uint8_t registers, Slot slot) {
  switch (form()) {
    case k_registers: {
      Operand& operand =
          plain_register(is_uniform_ ? OperandKind::uniform : OperandKind::reg, 32, registers);
      sign(operand, allowed, 63, 62);
      if (!is_uniform_) operand.reuse = flag(reuse_bit(slot));
      return operand;
    }
    case k_immediate_b:
    case k_immediate_c: {
      Operand operand;
      operand.kind = immediate_ == Immediate::float32 ? OperandKind::float32 : OperandKind::integer;
      operand.value = immediate_ == Immediate::signed_integer
                          ? take_signed(32, 32)
                          : static_cast<std::int64_t>(take(32, 32));
      return add(operand);
    }
    case k_constant_b:
    case k_constant_c: {
      Operand operand;
      operand.kind = OperandKind::constant;
      operand.number = k_zero_register;
      operand.registers = registers;
      operand.value = take_signed(40, 14) * 4;
      operand.bank = static_cast<std::uint8_t>(take(54, 5));
      sign(operand, allowed, 63, 62);
      return add(operand);
    }
    case k_uniform_b:
    case k_uniform_c: {
      Operand& operand = plain_register(OperandKind::uniform, 32, registers);
      if (!is_uniform_) expect(k_uniform_bit, 1, 1);
      sign(operand, allowed, 63, 62);
      return operand;
    }
    default:
      refuse();
  }
}

bool Reader::low_is_c() const noexcept {
  return form() == k_immediate_c || form() == k_constant_c || form() == k_uniform_c;
}

Operand& Reader::source_b(Sign allowed, std::uint8_t registers, Slot slot) {
  return low_operand(allowed, registers, slot);
}

void Reader::sources_bc(Sign b, Sign c, std::uint8_t registers_of_c) {
  if (low_is_c()) {
    register_high(b, 1, Slot::b);
    low_operand(c, registers_of_c, Slot::c);
  } else {
    low_operand(b, 1, Slot::b);
    register_high(c, registers_of_c, Slot::c);
  }
}

Operand& Reader::integer(std::int64_t value) {
  Operand operand;
  operand.kind = OperandKind::integer;
  operand.value = value;
  return add(operand);
}

Operand& Reader::target(std::int64_t offset) {
  Operand operand;
  operand.kind = OperandKind::target;
  operand.value = std::int64_t{instruction_.offset} + k_instruction_bytes + offset;
  return add(operand);
}

void Reader::read_guard_and_control() {
  Guard& guard = instruction_.guard;
  guard.predicate = static_cast<std::uint8_t>(take(12, 3));
  guard.negated = flag(15);
  guard.uniform = guard.uniform || is_uniform_;
  Control& control = instruction_.control;
  control.stall = static_cast<std::uint8_t>(take(105, 4));
  control.yield = !flag(109);
  control.write_barrier = static_cast<std::uint8_t>(take(110, 3));
  control.read_barrier = static_cast<std::uint8_t>(take(113, 3));
  control.wait_mask = static_cast<std::uint8_t>(take(116, 6));
}

// What nvdisasm 13.2 refuses or does not print.
void Reader::check_control() const {
  constexpr std::uint8_t most_without_yield = 11;
  const Control& control = instruction_.control;
  const bool has_reuse = std::ranges::any_of(instruction_.operands, &Operand::reuse);
  if (!control.yield && (control.stall == 0 || control.stall > most_without_yield)) refuse();
  if (has_reuse && (control.yield || !has_operand_cache(instruction_.opcode))) refuse();
  const Scoreboards scoreboards = scoreboards_of(instruction_);
  if (!scoreboards.of_results && control.write_barrier != k_no_scoreboard) refuse();
  if (!scoreboards.of_sources && control.read_barrier != k_no_scoreboard) refuse();
}

Instruction Reader::finish() {
  read_guard_and_control();
  check_control();
  if (unread_[0] != 0 || unread_[1] != 0) refuse();
  instruction_.shows_descriptor = arch_ >= 90;
  return instruction_;
}

}  // namespace spjit::sass
