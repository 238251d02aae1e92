// LOP3 PLOP3 SHF PRMT SEL ISETP VOTE P2R R2P, and ULOP3 USHF USEL UISETP VOTEU

#include <algorithm>

#include "emulated_driver/sass/handlers.hpp"
#include "sass/integer_values.hpp"

namespace spjit::emulated {

namespace {

using sass::by_table;
using sass::combined;
using sass::compares;
using sass::Modifier;
using sass::Opcode;
using sass::permuted;
using sass::Shift;
using sass::shift_of;
using sass::shifted;

void lop3(Warp& warp, const SassOperation& operation) {
  Lanes room_a;
  Lanes room_b;
  Lanes room_c;
  Lanes d;
  const Lanes& a = warp.integers(operation.at(2), room_a);
  const Lanes& b = warp.integers(operation.at(3), room_b);
  const Lanes& c = warp.integers(operation.at(4), room_c);
  const auto table = static_cast<std::uint32_t>(operation.at(5).value);
  LaneMask some = 0;
  for (unsigned i = 0; i < k_lanes; ++i) {
    d[i] = by_table(a[i], b[i], c[i], table);
    some |= LaneMask{d[i] != 0} << i;
  }
  warp.write(operation.at(1), d);
  warp.write_predicate(operation.at(0), some | warp.predicate(operation.at(6)));
}

void ulop3(Warp& warp, const SassOperation& operation) {
  const std::uint32_t value =
      by_table(warp.scalar(operation.at(2)), warp.scalar(operation.at(3)),
               warp.scalar(operation.at(4)), static_cast<std::uint32_t>(operation.at(5).value));
  warp.write_scalar(operation.at(1), value);
  warp.registers().write_uniform_predicate(operation.at(0).number,
                                           value != 0 || warp.uniform_predicate(operation.at(6)));
}

void plop3(Warp& warp, const SassOperation& operation) {
  const LaneMask a = warp.predicate(operation.at(2));
  const LaneMask b = warp.predicate(operation.at(3));
  const LaneMask c = warp.predicate(operation.at(4));
  warp.write_predicate(operation.at(0),
                       by_table(a, b, c, static_cast<std::uint32_t>(operation.at(5).value)));
  warp.write_predicate(operation.at(1),
                       by_table(a, b, c, static_cast<std::uint32_t>(operation.at(6).value)));
}

void shf(Warp& warp, const SassOperation& operation) {
  Lanes room_a;
  Lanes room_b;
  Lanes room_c;
  Lanes d;
  const Shift kind = shift_of(operation.instruction);
  const Lanes& a = warp.integers(operation.at(1), room_a);
  const Lanes& b = warp.integers(operation.at(2), room_b);
  const Lanes& c = warp.integers(operation.at(3), room_c);
  for (unsigned i = 0; i < k_lanes; ++i) d[i] = shifted(kind, a[i], b[i], c[i]);
  warp.write(operation.at(0), d);
}

void ushf(Warp& warp, const SassOperation& operation) {
  warp.write_scalar(operation.at(0),
                    shifted(shift_of(operation.instruction), warp.scalar(operation.at(1)),
                            warp.scalar(operation.at(2)), warp.scalar(operation.at(3))));
}

void sel(Warp& warp, const SassOperation& operation) {
  Lanes room_a;
  Lanes room_b;
  Lanes d;
  const Lanes& a = warp.integers(operation.at(1), room_a);
  const Lanes& b = warp.integers(operation.at(2), room_b);
  const LaneMask takes_a = warp.predicate(operation.at(3));
  for (unsigned i = 0; i < k_lanes; ++i) d[i] = (takes_a >> i & 1) != 0 ? a[i] : b[i];
  warp.write(operation.at(0), d);
}

void usel(Warp& warp, const SassOperation& operation) {
  const bool takes_a = warp.uniform_predicate(operation.at(3));
  warp.write_scalar(operation.at(0), warp.scalar(operation.at(takes_a ? 1 : 2)));
}

void isetp(Warp& warp, const SassOperation& operation) {
  Lanes room_a;
  Lanes room_b;
  const Lanes& a = warp.integers(operation.at(2), room_a);
  const Lanes& b = warp.integers(operation.at(3), room_b);
  const LaneMask low = warp.predicate(operation.at(5));
  LaneMask holds = 0;
  for (unsigned i = 0; i < k_lanes; ++i) {
    const bool of_lane = compares(operation.instruction, a[i], b[i], (low >> i & 1) != 0);
    holds |= LaneMask{of_lane} << i;
  }
  write_combined(warp, operation, holds, warp.predicate(operation.at(4)));
}

void uisetp(Warp& warp, const SassOperation& operation) {
  const bool holds =
      compares(operation.instruction, warp.scalar(operation.at(2)), warp.scalar(operation.at(3)),
               warp.uniform_predicate(operation.at(5)));
  const LaneMask with = warp.uniform_predicate(operation.at(4)) ? 1 : 0;
  RegisterFile& registers = warp.registers();
  registers.write_uniform_predicate(operation.at(0).number,
                                    combined(operation.instruction, holds ? 1 : 0, with) != 0);
  registers.write_uniform_predicate(operation.at(1).number,
                                    combined(operation.instruction, holds ? 0 : 1, with) != 0);
}

struct Vote {
  LaneMask ballot = 0;
  bool holds = false;
};

Vote voted(Warp& warp, const SassOperation& operation) {
  const LaneMask lanes = warp.exec();
  const LaneMask ballot = warp.predicate(operation.at(2)) & lanes;
  switch (operation.instruction.modifiers[0]) {
    case Modifier::all:
      return {ballot, ballot == lanes};
    case Modifier::any:
      return {ballot, ballot != 0};
    default:  // .EQ
      return {ballot, ballot == lanes || ballot == 0};
  }
}

void vote(Warp& warp, const SassOperation& operation) {
  const Vote result = voted(warp, operation);
  Lanes d;
  d.values.fill(result.ballot);
  warp.write(operation.at(0), d);
  warp.write_predicate(operation.at(1), result.holds ? k_all_lanes : 0);
}

void voteu(Warp& warp, const SassOperation& operation) {
  const Vote result = voted(warp, operation);
  warp.write_scalar(operation.at(0), result.ballot);
  warp.registers().write_uniform_predicate(operation.at(1).number, result.holds);
}

void p2r(Warp& warp, const SassOperation& operation) {
  Lanes room;
  Lanes d;
  const Lanes& others = warp.integers(operation.at(2), room);
  const auto mask = static_cast<std::uint32_t>(operation.at(3).value);
  for (unsigned i = 0; i < k_lanes; ++i) {
    std::uint32_t bits = 0;
    for (unsigned p = 0; p < sass::k_true; ++p) {
      bits |= (warp.registers().predicate(p) >> i & 1) << p;
    }
    d[i] = (bits & mask) | (others[i] & ~mask);
  }
  warp.write(operation.at(0), d);
}

void r2p(Warp& warp, const SassOperation& operation) {
  Lanes room;
  const Lanes& from = warp.integers(operation.at(1), room);
  const unsigned byte = static_cast<unsigned>(operation.at(3).value) * 8;
  for (unsigned p = 0; p < sass::k_true; ++p) {
    if ((operation.at(2).value >> p & 1) == 0) continue;
    LaneMask bits = 0;
    for (unsigned i = 0; i < k_lanes; ++i) bits |= (from[i] >> (byte + p) & 1) << i;
    warp.registers().write_predicate(p, bits, warp.exec());
  }
}

}  // namespace

void write_combined(Warp& warp, const SassOperation& operation, LaneMask holds, LaneMask with) {
  warp.write_predicate(operation.at(0), combined(operation.instruction, holds, with));
  warp.write_predicate(operation.at(1), combined(operation.instruction, ~holds, with));
}

SassHandler logic_handler(const sass::Instruction& instruction) {
  switch (instruction.opcode) {
    case Opcode::lop3:
      return lop3;
    case Opcode::ulop3:
      return ulop3;
    case Opcode::plop3:
      return plop3;
    case Opcode::shf:
      return shf;
    case Opcode::ushf:
      return ushf;
    case Opcode::prmt:
      return integers_of_three<permuted>;
    case Opcode::sel:
      return sel;
    case Opcode::usel:
      return usel;
    case Opcode::isetp:
      return isetp;
    case Opcode::uisetp:
      return uisetp;
    case Opcode::vote:
      return vote;
    case Opcode::voteu:
      return voteu;
    case Opcode::p2r:
      if (!instruction.modifiers.empty()) refuse_form(instruction);
      return p2r;
    case Opcode::r2p:
      return r2p;
    default:
      return nullptr;
  }
}

}  // namespace spjit::emulated
