// BRA BRX BRXU CALL RET EXIT BSSY BSYNC BREAK WARPSYNC ENDCOLLECTIVE BAR YIELD NOP

#include <fmt/format.h>

#include <map>
#include <vector>

#include "emulated_driver/sass/handlers.hpp"

namespace spjit::emulated {

namespace {

using sass::Modifier;
using sass::Opcode;

// BRA.DIV jumps where lanes of its mask are missing, all to where they are brought together.
bool goes_apart(Warp& warp, const SassOperation& operation) {
  LaneMask expected = k_all_lanes;
  const sass::Operand& mask = operation.at(1);
  if (mask.kind == sass::OperandKind::uniform) {
    const bool is_zero = mask.number == sass::k_zero_uniform;
    expected = is_zero ? 0 : warp.registers().uniform(mask.number);
    if (mask.inverted) expected = ~expected;
  }
  return warp.exec() != expected;
}

void bra(Warp& warp, const SassOperation& operation) {
  LaneMask lanes = warp.exec() & warp.predicate(operation.at(0));
  if (operation.instruction.has(Modifier::div) && !goes_apart(warp, operation)) lanes = 0;
  warp.convergence().branch(lanes, operation.target);
}

/// Lanes go where their own address says; those of one address together.
void go_to(Warp& warp, const std::map<Address, LaneMask>& targets) {
  std::vector<Convergence::Group> groups;
  groups.reserve(targets.size());
  for (const auto& [address, lanes] : targets) {
    groups.push_back({lanes, warp.program().operation_at(address)});
  }
  warp.convergence().scatter(groups);
}

Address section_of(const Warp& warp, const SassOperation& operation) {
  return warp.program().address_of(warp.program().functions[operation.function].first);
}

/// The addresses that the lanes' register pair and `beyond` give.
std::map<Address, LaneMask> targets_of(Warp& warp, const sass::Operand& pair, Address beyond) {
  std::map<Address, LaneMask> targets;
  const bool is_uniform = pair.kind == sass::OperandKind::uniform;
  RegisterFile& registers = warp.registers();
  for_each_lane(warp.exec(), [&](unsigned lane) {
    const std::uint64_t low =
        is_uniform ? registers.uniform(pair.number) : registers.lanes(pair.number)[lane];
    const std::uint64_t high =
        is_uniform ? registers.uniform(pair.number + 1U) : registers.lanes(pair.number + 1U)[lane];
    targets[(high << 32 | low) + beyond] |= LaneMask{1} << lane;
  });
  return targets;
}

void brx(Warp& warp, const SassOperation& operation) {
  const Address next = warp.program().address_of(warp.place() + 1);
  go_to(warp,
        targets_of(warp, operation.at(0), next + static_cast<Address>(operation.at(1).value)));
}

void call_target(Warp& warp, const SassOperation& operation) {
  warp.convergence().branch(warp.exec(), operation.target);
}

void call_absolute(Warp& warp, const SassOperation& operation) {
  const auto address = static_cast<Address>(operation.at(0).value);
  warp.convergence().branch(warp.exec(), warp.program().operation_at(address));
}

/// A register with an address, or with a distance from one in the section.
void by_register(Warp& warp, const SassOperation& operation) {
  const sass::Operand& beyond = operation.at(1);
  const bool is_relative = beyond.kind == sass::OperandKind::target;
  const Address base = is_relative ? section_of(warp, operation) : 0;
  go_to(warp, targets_of(warp, operation.at(0), base + static_cast<Address>(beyond.value)));
}

void exit(Warp& warp, const SassOperation& /*operation*/) { warp.convergence().exit(warp.exec()); }

void bssy(Warp& warp, const SassOperation& operation) {
  warp.convergence().open(operation.at(0).number, operation.target);
}

void check_unguarded(Warp& warp) {
  if (warp.exec() != warp.convergence().active()) {
    throw ProgramError(FaultKind::illegal_barrier, "a part of the lanes would wait");
  }
}

void bsync(Warp& warp, const SassOperation& operation) {
  check_unguarded(warp);
  warp.convergence().meet(operation.at(0).number);
}

void break_out(Warp& warp, const SassOperation& operation) {
  warp.convergence().leave(operation.at(0).number, warp.exec());
}

void warpsync(Warp& warp, const SassOperation& operation) {
  check_unguarded(warp);
  LaneMask mask = k_all_lanes;
  if (!operation.instruction.operands.empty()) {
    const sass::Operand& from = operation.at(0);
    const auto first = static_cast<unsigned>(__builtin_ctz(warp.exec()));
    mask = from.kind == sass::OperandKind::reg ? warp.registers().lanes(from.number)[first]
                                               : static_cast<LaneMask>(from.value);
  }
  warp.convergence().meet_all(mask);
}

/// What ptxas has behind BRA.DIV, for a shuffle of lanes that have gone apart.
[[noreturn]] void collective(Warp& /*warp*/, const SassOperation& /*operation*/) {
  throw ProgramError(FaultKind::trap, "lanes that have gone apart exchange values: not emulated");
}

void bar(Warp& warp, const SassOperation& operation) {
  const sass::Operand& number = operation.at(0);
  BlockBarrier barrier;
  barrier.number = static_cast<std::uint32_t>(number.value);
  if (number.kind == sass::OperandKind::reg) {
    const Lanes& lanes = warp.registers().lanes(number.number);
    barrier.number = lanes[static_cast<unsigned>(__builtin_ctz(warp.exec()))];
    for_each_lane(warp.exec(), [&](unsigned i) {
      if (lanes[i] == barrier.number) return;
      throw ProgramError(FaultKind::illegal_barrier, "lanes name different barriers");
    });
  }
  constexpr std::uint32_t barriers = 16;
  if (barrier.number >= barriers) {
    throw ProgramError(FaultKind::illegal_barrier, fmt::format("barrier {} of 16", barrier.number));
  }
  barrier.threads = static_cast<std::uint32_t>(operation.at(1).value);
  warp.wait_at(barrier);
}

void nothing(Warp& /*warp*/, const SassOperation& /*operation*/) {}

SassHandler call_handler(const sass::Instruction& instruction) {
  switch (instruction.operands[0].kind) {
    case sass::OperandKind::target:
      return call_target;
    case sass::OperandKind::integer:
      return call_absolute;
    default:
      return by_register;
  }
}

}  // namespace

SassHandler control_handler(const sass::Instruction& instruction) {
  switch (instruction.opcode) {
    case Opcode::bra:
      return bra;
    case Opcode::brx:
    case Opcode::brxu:
      return brx;
    case Opcode::call:
      return call_handler(instruction);
    case Opcode::ret:
      return by_register;
    case Opcode::exit:
      return exit;
    case Opcode::bssy:
      return bssy;
    case Opcode::bsync:
      return bsync;
    case Opcode::break_:
      return break_out;
    case Opcode::warpsync:
      return instruction.has(Modifier::collective) ? collective : warpsync;
    case Opcode::endcollective:
      return collective;
    case Opcode::bar:
      return bar;
    case Opcode::yield:
    case Opcode::nop:
      return nothing;
    default:
      return nullptr;
  }
}

}  // namespace spjit::emulated
