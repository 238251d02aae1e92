// What a warp compares, selects and moves: LOP3 SHF PRMT SEL ISETP PLOP3 VOTE P2R R2P MOV S2R ...

#include <algorithm>

#include "clock/warp_walker.hpp"
#include "sass/integer_values.hpp"
#include "sass/launch_constants.hpp"

namespace spjit {
namespace {

using sass::k_lanes;
using sass::LaneMask;
using sass::Modifier;
using sass::Opcode;

}  // namespace

void WarpWalk::lop3(const ClockOperation& operation) {
  const auto& operands = operation.instruction.operands;
  const KnownLanes a = source(operands[2]);
  const KnownLanes b = source(operands[3]);
  const KnownLanes c = source(operands[4]);
  const auto table = static_cast<std::uint32_t>(operands[5].value);
  KnownLanes made;
  made.known = a.known & b.known & c.known;
  made.loaded = a.loaded | b.loaded | c.loaded;
  LaneMask some = 0;
  for (unsigned i = 0; i < k_lanes; ++i) {
    made.lanes[i] = sass::by_table(a.lanes[i], b.lanes[i], c.lanes[i], table);
    some |= LaneMask{made.lanes[i] != 0} << i;
  }
  const KnownMask with = mask(operands[6]);
  write(operands[1], made);
  write_mask(operands[0], {some | with.values, made.known & with.known});
}

void WarpWalk::isetp(const ClockOperation& operation) {
  const sass::Instruction& instruction = operation.instruction;
  const auto& operands = instruction.operands;
  const KnownLanes a = source(operands[2]);
  const KnownLanes b = source(operands[3]);
  const KnownMask low = mask(operands[5]);
  const KnownMask with = mask(operands[4]);
  LaneMask holds = 0;
  for (unsigned i = 0; i < k_lanes; ++i) {
    const bool of_lane =
        sass::compares(instruction, a.lanes[i], b.lanes[i], (low.values >> i & 1) != 0);
    holds |= LaneMask{of_lane} << i;
  }
  const bool uses_low = instruction.has(Modifier::ex);
  LaneMask known = a.known & b.known & (uses_low ? low.known : sass::k_all_lanes);
  // What is combined by AND with something false is false, whatever it is.
  const bool is_and = !instruction.has(Modifier::or_) && !instruction.has(Modifier::xor_);
  known = is_and ? (known & with.known) | (with.known & ~with.values) : known & with.known;
  write_mask(operands[0], {sass::combined(instruction, holds, with.values), known});
  write_mask(operands[1], {sass::combined(instruction, ~holds, with.values), known});
}

void WarpWalk::from_predicates(const ClockOperation& operation) {
  const auto& operands = operation.instruction.operands;
  KnownLanes made = source(operands[2]);
  const auto bits = static_cast<std::uint32_t>(operands[3].value);
  for (unsigned p = 0; p < sass::k_true; ++p) {
    if ((bits >> p & 1) == 0) continue;
    const KnownMask predicate = registers_.predicate(p);
    made.known &= predicate.known;
    for (unsigned i = 0; i < k_lanes; ++i) {
      made.lanes[i] = (made.lanes[i] & ~(1U << p)) | (predicate.values >> i & 1) << p;
    }
  }
  write(operands[0], made);
}

void WarpWalk::to_predicates(const ClockOperation& operation) {
  const auto& operands = operation.instruction.operands;
  const KnownLanes from = source(operands[1]);
  const unsigned byte = static_cast<unsigned>(operands[3].value) * 8;
  for (unsigned p = 0; p < sass::k_true; ++p) {
    if ((operands[2].value >> p & 1) == 0) continue;
    KnownMask made;
    made.known = from.known;
    for (unsigned i = 0; i < k_lanes; ++i) {
      made.values |= (from.lanes[i] >> (byte + p) & 1) << i;
    }
    registers_.write_predicate(p, made, certain_, perhaps_);
  }
}

bool WarpWalk::logic(const ClockOperation& operation) {
  const sass::Instruction& instruction = operation.instruction;
  const auto& operands = instruction.operands;
  switch (instruction.opcode) {
    case Opcode::lop3:
      lop3(operation);
      return true;
    case Opcode::isetp:
      isetp(operation);
      return true;
    case Opcode::sel: {
      const KnownMask takes_a = mask(operands[3]);
      const KnownLanes a = source(operands[1]);
      const KnownLanes b = source(operands[2]);
      KnownLanes made;
      made.loaded = a.loaded | b.loaded;
      made.known = takes_a.known & ((takes_a.values & a.known) | (~takes_a.values & b.known));
      for (unsigned i = 0; i < k_lanes; ++i) {
        made.lanes[i] = (takes_a.values >> i & 1) != 0 ? a.lanes[i] : b.lanes[i];
      }
      write(operands[0], made);
      return true;
    }
    case Opcode::plop3: {
      const KnownMask a = mask(operands[2]);
      const KnownMask b = mask(operands[3]);
      const KnownMask c = mask(operands[4]);
      const LaneMask known = a.known & b.known & c.known;
      const auto by = [&](std::size_t table) {
        return sass::by_table(a.values, b.values, c.values,
                              static_cast<std::uint32_t>(operands[table].value));
      };
      write_mask(operands[0], {by(5), known});
      write_mask(operands[1], {by(6), known});
      return true;
    }
    case Opcode::p2r:
      if (!instruction.modifiers.empty()) return false;
      from_predicates(operation);
      return true;
    case Opcode::r2p:
      to_predicates(operation);
      return true;
    default:
      return false;
  }
}

KnownLanes WarpWalk::special(std::uint8_t number) const {
  const auto& [bx, by, bz] = launch_.block;
  KnownLanes made = KnownLanes::of(0);
  if (number >= sass::k_ctaid_x && number <= sass::k_ctaid_z) {
    return KnownLanes::of(index_[number - sass::k_ctaid_x]);
  }
  if (number >= sass::k_tid_x && number <= sass::k_tid_z) {
    for (unsigned i = 0; i < k_lanes; ++i) {
      const std::uint32_t thread = warp_ * k_lanes + i;
      made.lanes[i] = number == sass::k_tid_x   ? thread % bx
                      : number == sass::k_tid_z ? thread / bx / by
                                                : thread / bx % by;
    }
    return made;
  }
  switch (number) {
    case sass::k_lane_id:
      for (unsigned i = 0; i < k_lanes; ++i) made.lanes[i] = i;
      return made;
    case sass::k_cta_of_cluster:  // a cluster is one block
    case sass::k_special_zero:
      return made;
    default:
      made.known = 0;
      return made;
  }
}

bool WarpWalk::moves(const ClockOperation& operation) {
  const sass::Instruction& instruction = operation.instruction;
  const auto& operands = instruction.operands;
  switch (instruction.opcode) {
    case Opcode::mov:
      write(operands[0], source(operands[1]));
      return true;
    case Opcode::s2r:
      write(operands[0], special(operands[1].number));
      return true;
    case Opcode::cs2r:
      write(operands[0], special(operands[1].number));
      if (operands[0].registers == 2) write(operands[0], KnownLanes::of(0), 1);
      return true;
    case Opcode::s2ur: {
      const KnownLanes from = special(operands[1].number);
      registers_.write_uniform(operands[0].number, {from.lanes[0], from.known != 0, false});
      return true;
    }
    case Opcode::uldc: {
      const sass::Operand& from = operands[1];
      const KnownWord base = registers_.uniform(from.uniform);
      for (unsigned part = 0; part < operands[0].registers; ++part) {
        const unsigned bytes = std::min<unsigned>(operation.width_bytes, 4);
        KnownWord word =
            this->word(from.bank, from.value + base.value + 4 * std::int64_t{part}, bytes);
        word.is_known = word.is_known && base.is_known;
        registers_.write_uniform(operands[0].number + part, word);
      }
      return true;
    }
    case Opcode::r2ur: {
      if (certain_ == 0) return false;
      const KnownLanes& from = registers_.lanes(operands[1].number);
      const auto first = static_cast<unsigned>(__builtin_ctz(certain_));
      registers_.write_uniform(
          operands[0].number,
          {from.lanes[first], (from.known >> first & 1) != 0, (from.loaded >> first & 1) != 0});
      return true;
    }
    default:
      return false;
  }
}

}  // namespace spjit
