// MOV UMOV ULDC S2R CS2R S2UR R2UR P2R R2P PLOP3 VOTE VOTEU SHFL

#include <cstdint>

#include "sass/decoders.hpp"

namespace spjit::sass {
namespace {

using enum Modifier;

void mov(Reader& in) {
  in.begin(Opcode::mov);
  in.immediates(Immediate::bits);
  in.expect(72, 4, 15);  // all four bytes
  in.destination();
  in.source_b(Sign::none);
}

void umov(Reader& in) {
  in.begin_uniform(Opcode::umov);
  in.immediates(Immediate::bits);
  in.destination();
  in.source_b(Sign::none);
}

// Without the bit of the uniform datapath.
void umov_immediate(Reader& in) {
  in.begin(Opcode::umov);
  in.guarded_by_uniform();
  in.immediates(Immediate::bits);
  in.plain_register(OperandKind::uniform, 16);
  in.written(1);
  in.source_b(Sign::none);
}

void uldc_as(Reader& in, bool has_register) {
  in.begin(Opcode::uldc);
  in.guarded_by_uniform();
  const std::uint64_t size = in.take(73, 3);
  if (size > 5) in.refuse();
  constexpr Modifier sizes[] = {u8, s8, u16, s16, none, b64};
  in.add(sizes[size]);
  const std::uint8_t registers = sizes[size] == b64 ? 2 : 1;
  in.plain_register(OperandKind::uniform, 16, registers);
  in.written(1);
  Operand from;
  from.kind = OperandKind::constant;
  from.number = k_zero_register;
  if (has_register) from.uniform = static_cast<std::uint8_t>(in.take(24, 6));
  from.value = in.take_signed(38, 16);
  from.bank = static_cast<std::uint8_t>(in.take(54, 5));
  from.registers = registers;
  in.expect(91, 1, has_register ? 1 : 0);
  in.add(from);
}

void uldc(Reader& in) { uldc_as(in, false); }
void uldc_at(Reader& in) { uldc_as(in, true); }

Operand& special_register(Reader& in) {
  Operand operand;
  operand.kind = OperandKind::special;
  operand.number = static_cast<std::uint8_t>(in.take(72, 8));
  if (special_register_name(operand.number).empty()) in.refuse();
  return in.add(operand);
}

void s2r(Reader& in) {
  in.begin(Opcode::s2r);
  in.destination();
  special_register(in);
}

void cs2r(Reader& in) {
  in.begin(Opcode::cs2r);
  const bool is_single = !in.flag(80);
  in.add_if(is_single, b32);
  in.destination(is_single ? 1 : 2);
  special_register(in);
}

void s2ur(Reader& in) {
  in.begin(Opcode::s2ur);
  in.guarded_by_uniform();
  in.plain_register(OperandKind::uniform, 16);
  in.written(1);
  special_register(in);
}

void r2ur_to(Reader& in) {
  in.begin(Opcode::r2ur);
  in.expect(81, 3, k_true);  // no predicate is written
  in.plain_register(OperandKind::uniform, 16);
  in.written(1);
}

void r2ur(Reader& in) {
  r2ur_to(in);
  in.plain_register(OperandKind::reg, 24);
}

// sm_90's, of fixed latency.
void r2ur_fixed(Reader& in) {
  r2ur_to(in);
  in.source_a(Sign::none);
}

constexpr std::int64_t k_all_predicates = 0x7f;

Operand& all_predicates(Reader& in) {
  Operand operand;
  operand.kind = OperandKind::all_predicates;
  return in.add(operand);
}

void p2r(Reader& in) {
  in.begin(Opcode::p2r);
  in.add_from(76, 2, {none, b1, b2, b3});
  in.destination();
  all_predicates(in);
  in.source_a(Sign::none);
  const std::int64_t mask = in.source_b(Sign::none).value;
  if (mask < 0 || mask > k_all_predicates) in.refuse();
}

void r2p(Reader& in) {
  in.begin(Opcode::r2p);
  in.immediates(Immediate::bits);
  all_predicates(in);
  in.written(1);
  in.source_a(Sign::none);
  // Which byte of the register; printed behind it.
  Operand byte;
  byte.kind = OperandKind::integer;
  byte.value = static_cast<std::int64_t>(in.take(76, 2));
  byte.hidden = true;
  in.source_b(Sign::none);
  in.add(byte);
}

void plop3(Reader& in) {
  in.begin(Opcode::plop3);
  in.add(lut);
  in.destination_predicate(81, true);
  in.destination_predicate(84, true);
  in.source_predicate(87);
  in.source_predicate(77);
  in.source_predicate(68);
  // The table of the first result lies in two pieces, that of the second in one.
  const std::uint64_t low = in.take(64, 3);
  in.integer(static_cast<std::int64_t>(in.take(72, 5) << 3 | low));
  in.integer(static_cast<std::int64_t>(in.take(16, 8)));
}

void vote(Reader& in) {
  in.begin(Opcode::vote);
  in.add_from(72, 2, {all, any, eq});
  Operand& to = in.destination();
  to.hidden = to.is_fixed();
  in.destination_predicate(81, true);
  in.source_predicate(87);
}

void voteu(Reader& in) {
  in.begin(Opcode::voteu);
  in.add_from(72, 2, {all, any, eq});
  Operand& to = in.plain_register(OperandKind::uniform, 16);
  to.hidden = to.is_fixed();
  in.written(1);
  in.destination_predicate(81, true).kind = OperandKind::uniform_predicate;
  in.source_predicate(87);
}

// Where to read and the clamp: each in a register or an immediate, by the form.
void shfl(Reader& in) {
  in.begin(Opcode::shfl);
  const bool lane_is_register = in.form() == 1 || in.form() == 2;
  const bool clamp_is_register = in.form() == 1 || in.form() == 4;
  in.add_from(58, 2, {idx, up, down, bfly});
  in.destination_predicate(81, true);
  in.destination();
  in.source_a(Sign::none);
  if (lane_is_register) {
    in.plain_register(OperandKind::reg, 32);
  } else {
    in.integer(static_cast<std::int64_t>(in.take(53, 5)));
  }
  if (clamp_is_register) {
    in.plain_register(OperandKind::reg, 64);
  } else {
    in.integer(static_cast<std::int64_t>(in.take(40, 13)));
  }
}

constexpr Decoder k_move_decoders[] = {
    {0x002, forms_of({1, 4, 5, 6}), mov}, {0x119, forms_of({4}), s2r},
    {0x005, forms_of({4}), cs2r},         {0x1c3, forms_of({4}), s2ur},
    {0x1c2, forms_of({1}), r2ur, 75, 89}, {0x0ca, forms_of({1}), r2ur_fixed, 90},
    {0x003, forms_of({4}), p2r},          {0x004, forms_of({4}), r2p},
    {0x01c, forms_of({4}), plop3},        {0x006, forms_of({4}), vote},
    {0x086, forms_of({4}), voteu},        {0x189, forms_of({1, 2, 4, 7}), shfl},
    {0x082, forms_of({6}), umov},         {0x082, forms_of({4}), umov_immediate},
    {0x0b9, forms_of({5}), uldc},         {0x0bb, forms_of({5}), uldc_at},
};

}  // namespace

std::span<const Decoder> move_decoders() noexcept { return k_move_decoders; }

}  // namespace spjit::sass
