// BRA BRX BRXU CALL RET EXIT BSSY BSYNC BREAK BMOV WARPSYNC ENDCOLLECTIVE BAR YIELD NOP

#include <cstdint>

#include "sass/decoders.hpp"

namespace spjit::sass {
namespace {

using enum Modifier;

constexpr int k_first_arch_with_masks = 80;
constexpr int k_first_arch_with_far_targets = 90;

/// A condition that the compiler leaves out.
void no_condition(Reader& in) { in.expect(87, 4, k_true); }

/// Distances are in units of 4 bytes; sm_90 has eight more bits of them.
std::int64_t distance(Reader& in) {
  const std::int64_t high = in.take_signed(34, 48);
  if (in.arch() < k_first_arch_with_far_targets) return high * 4;
  return high * 1024 + static_cast<std::int64_t>(in.take(16, 8)) * 4;
}

Operand& convergence(Reader& in, unsigned first) {
  Operand operand;
  operand.kind = OperandKind::convergence;
  operand.number = static_cast<std::uint8_t>(in.take(first, 4));
  return in.add(operand);
}

// BRA.DIV jumps where lanes of a mask are missing: the mask is a uniform register, or on sm_75 all.
void bra(Reader& in) {
  in.begin(Opcode::bra);
  const std::uint64_t kind = in.take(32, 2);
  in.add_if(kind == 1, u);
  in.add_if(kind == 2, div);
  if (kind == 3) in.refuse();
  in.source_predicate(87, k_true);  // a condition besides the guard
  if (in.flag(91)) {
    if (kind != 2 || in.arch() < k_first_arch_with_masks) in.refuse();
    Operand& mask = in.plain_register(OperandKind::uniform, 24);
    mask.inverted = in.flag(30);
  }
  in.target(distance(in));
}

Operand& indirect(Reader& in, OperandKind kind) {
  no_condition(in);
  return in.plain_register(kind, 24, 2);
}

/// What is added to the register.
void beyond(Reader& in) {
  Operand& bytes = in.integer(distance(in));
  bytes.hidden = bytes.value == 0;
}

void brx(Reader& in) {
  in.begin(Opcode::brx);
  indirect(in, OperandKind::reg);
  beyond(in);
}

void brxu(Reader& in) {
  in.begin(Opcode::brxu);
  in.expect(91, 1, 1);
  indirect(in, OperandKind::uniform);
  beyond(in);
}

// Only calls that do not count themselves: what compilers make since sm_70.
void call_as(Reader& in, Modifier kind) {
  in.begin(Opcode::call);
  in.add(kind);
  in.expect(85, 2, 2);
  in.add(noinc);
  no_condition(in);
}

void call_absolute(Reader& in) {
  call_as(in, abs);
  if (in.integer(distance(in)).value < 0) in.refuse();
}

void call_relative(Reader& in) {
  call_as(in, rel);
  in.target(distance(in));
}

void call_register(Reader& in) {
  call_as(in, abs);
  indirect(in, OperandKind::reg);
  beyond(in);
}

void call_register_relative(Reader& in) {
  call_as(in, rel);
  indirect(in, OperandKind::reg);
  in.target(distance(in));
}

void ret(Reader& in) {
  in.begin(Opcode::ret);
  const bool is_absolute = in.flag(85);
  in.add(is_absolute ? abs : rel);
  in.expect(86, 1, 1);
  in.add(nodec);
  indirect(in, OperandKind::reg);
  if (is_absolute) {
    in.integer(distance(in));
  } else {
    in.target(distance(in));
  }
}

void exit(Reader& in) {
  in.begin(Opcode::exit);
  no_condition(in);
}

void bssy(Reader& in) {
  in.begin(Opcode::bssy);
  no_condition(in);
  convergence(in, 16);
  in.target(in.take_signed(34, 30) * 4);
}

void bsync(Reader& in) {
  in.begin(Opcode::bsync);
  no_condition(in);
  convergence(in, 16);
}

void break_out(Reader& in) {
  in.begin(Opcode::break_);
  no_condition(in);
  convergence(in, 16);
}

void bmov_from(Reader& in) {
  in.begin(Opcode::bmov);
  in.add(b32);
  in.add_if(in.flag(84), clear);
  in.destination();
  convergence(in, 24);
}

void bmov_to(Reader& in) {
  in.begin(Opcode::bmov);
  in.add(b32);
  convergence(in, 24);
  in.written(1);
  in.plain_register(OperandKind::reg, 32);
}

void warpsync(Reader& in) {
  in.begin(Opcode::warpsync);
  no_condition(in);
  in.immediates(Immediate::bits);
  if (in.arch() >= k_first_arch_with_far_targets) {
    in.expect(85, 2, 0);
    in.add(all);
    return;
  }
  in.integer(static_cast<std::int64_t>(in.take(32, 32)));
}

// On sm_90 lanes of the mask that are elsewhere come to the target, which ENDCOLLECTIVE ends.
void warpsync_register(Reader& in) {
  in.begin(Opcode::warpsync);
  no_condition(in);
  const bool is_collective = in.arch() >= k_first_arch_with_far_targets && in.flag(86);
  in.add_if(is_collective, collective);
  const bool is_new = in.arch() >= k_first_arch_with_far_targets;
  in.plain_register(OperandKind::reg, is_new ? 24 : 32);
  if (is_collective) in.target(distance(in));
}

void endcollective(Reader& in) {
  in.begin(Opcode::endcollective);
  no_condition(in);
}

/// Which barrier: a number, or a register with one.
void bar(Reader& in) {
  in.begin(Opcode::bar);
  in.expect(77, 3, 0);
  in.add(sync);
  in.add_if(in.flag(80), defer_blocking);
  if (in.form() == 2) {
    in.plain_register(OperandKind::reg, 32);
  } else {
    in.integer(static_cast<std::int64_t>(in.take(54, 4)));
  }
  Operand& threads = in.integer(static_cast<std::int64_t>(in.take(42, 12)));
  threads.hidden = threads.value == 0;
}

void yield(Reader& in) {
  in.begin(Opcode::yield);
  no_condition(in);
}

void nop(Reader& in) { in.begin(Opcode::nop); }

constexpr Decoder k_control_decoders[] = {
    {0x147, forms_of({4}), bra},
    {0x149, forms_of({4}), brx},
    {0x158, forms_of({4}), brxu},
    {0x143, forms_of({1}), call_register},
    {0x144, forms_of({1}), call_register_relative},
    {0x150, forms_of({4}), ret},
    {0x14d, forms_of({4}), exit},
    {0x145, forms_of({4}), bssy},
    {0x141, forms_of({4}), bsync},
    {0x142, forms_of({4}), break_out},
    {0x155, forms_of({1}), bmov_from},
    {0x156, forms_of({1}), bmov_to},
    {0x11b, forms_of({4}), endcollective, 90},
    {0x11d, forms_of({2, 5}), bar},
    {0x146, forms_of({4}), yield},
    {0x118, forms_of({4}), nop},
    {0x143, forms_of({4}), call_absolute},
    {0x144, forms_of({4}), call_relative},
    {0x148, forms_of({4}), warpsync},
    {0x148, forms_of({1}), warpsync_register},
};

}  // namespace

std::span<const Decoder> control_decoders() noexcept { return k_control_decoders; }

}  // namespace spjit::sass
