// Where a warp goes: BRA BRX CALL RET EXIT BSSY BSYNC BREAK WARPSYNC BMOV

#include <map>
#include <vector>

#include "clock/warp_walker.hpp"

namespace spjit {
namespace {

using sass::for_each_lane;
using sass::LaneMask;
using sass::Modifier;
using sass::Opcode;

}  // namespace

std::uint32_t WarpWalk::operation_at(std::uint64_t address) const {
  const std::uint64_t offset = address - k_clock_code_base;
  const std::uint64_t index = offset / sass::k_instruction_bytes;
  if (address < k_clock_code_base || offset % sass::k_instruction_bytes != 0 ||
      index >= launch_.program.operations.size()) {
    refuse("goes where no instruction is");
  }
  return static_cast<std::uint32_t>(index);
}

void WarpWalk::branch(const ClockOperation& operation) {
  const sass::Instruction& instruction = operation.instruction;
  const KnownMask condition = mask(instruction.operands[0]);
  LaneMask taken = certain_ & condition.certainly();
  const LaneMask perhaps = perhaps_ & condition.perhaps();
  // BRA.DIV leaves for a place where lanes that have gone apart are brought together.
  if (instruction.has(Modifier::div)) taken = 0;
  if (perhaps != taken && !instruction.has(Modifier::div)) {
    if (operation.target <= convergence_.place()) refuse("a loop's end depends on data");
    ++trace_.assumed_branches;
  }
  convergence_.branch(taken, operation.target);
}

void WarpWalk::go_to_addresses(const sass::Operand& pair, std::uint64_t beyond) {
  std::map<std::uint64_t, LaneMask> targets;
  const bool is_uniform = pair.kind == sass::OperandKind::uniform;
  for_each_lane(certain_, [&](unsigned lane) {
    std::uint64_t address = 0;
    for (unsigned part = 0; part < 2; ++part) {
      const unsigned number = pair.number + part;
      const KnownWord uniform = is_uniform ? registers_.uniform(number) : KnownWord{};
      const KnownLanes& lanes = registers_.lanes(is_uniform ? sass::k_zero_register : number);
      const bool is_known = is_uniform ? uniform.is_known : (lanes.known >> lane & 1) != 0;
      if (!is_known) refuse("branches to a place that depends on data");
      address |= std::uint64_t{is_uniform ? uniform.value : lanes.lanes[lane]} << 32 * part;
    }
    targets[address + beyond] |= LaneMask{1} << lane;
  });
  std::vector<sass::Convergence::Group> groups;
  groups.reserve(targets.size());
  for (const auto& [address, lanes] : targets) groups.push_back({lanes, operation_at(address)});
  convergence_.scatter(groups);
}

/// Of the lanes that execute the instruction the first one's value.
LaneMask WarpWalk::lane_mask(const sass::Operand& operand) const {
  const KnownLanes from = source(operand);
  const auto first = static_cast<unsigned>(__builtin_ctz(certain_));
  if ((from.known >> first & 1) == 0) refuse("lanes that meet depend on data");
  return from.lanes[first];
}

void WarpWalk::move_members(const sass::Instruction& instruction) {
  const auto& operands = instruction.operands;
  if (operands[0].kind != sass::OperandKind::reg) {
    convergence_.set_members(operands[0].number, lane_mask(operands[1]));
    return;
  }
  write(operands[0], KnownLanes::of(convergence_.members(operands[1].number)));
  if (instruction.has(Modifier::clear)) convergence_.set_members(operands[1].number, 0);
}

void WarpWalk::call(const ClockOperation& operation) {
  const sass::Operand& to = operation.instruction.operands[0];
  if (to.kind == sass::OperandKind::target) {
    convergence_.branch(certain_, operation.target);
  } else if (to.kind == sass::OperandKind::integer) {
    convergence_.branch(certain_, operation_at(static_cast<std::uint64_t>(to.value)));
  } else {
    go_by_register(operation);
  }
}

void WarpWalk::go_by_register(const ClockOperation& operation) {
  const auto& operands = operation.instruction.operands;
  const std::uint32_t first = launch_.program.functions[operation.function].first;
  const bool is_relative = operands[1].kind == sass::OperandKind::target;
  const std::uint64_t section =
      k_clock_code_base + std::uint64_t{first} * sass::k_instruction_bytes;
  go_to_addresses(operands[0],
                  (is_relative ? section : 0) + static_cast<std::uint64_t>(operands[1].value));
}

bool WarpWalk::control(const ClockOperation& operation) {
  const sass::Instruction& instruction = operation.instruction;
  const auto& operands = instruction.operands;
  const std::uint64_t next =
      k_clock_code_base + (convergence_.place() + std::uint64_t{1}) * sass::k_instruction_bytes;
  if (instruction.opcode == Opcode::bra) {
    branch(operation);
    return true;
  }
  if (certain_ != perhaps_) ++trace_.assumed_branches;
  if (certain_ == 0) return false;
  switch (instruction.opcode) {
    case Opcode::brx:
    case Opcode::brxu:
      go_to_addresses(operands[0], next + static_cast<std::uint64_t>(operands[1].value));
      return true;
    case Opcode::call:
      call(operation);
      return true;
    case Opcode::ret:
      go_by_register(operation);
      return true;
    case Opcode::exit:
      convergence_.exit(certain_);
      return true;
    case Opcode::bssy:
      convergence_.open(operands[0].number, operation.target);
      return true;
    case Opcode::bsync:
      convergence_.meet(operands[0].number);
      return true;
    case Opcode::break_:
      convergence_.leave(operands[0].number, certain_);
      return true;
    case Opcode::warpsync:
      if (instruction.has(Modifier::collective))
        refuse("lanes that have gone apart exchange values");
      convergence_.meet_all(operands.empty() ? sass::k_all_lanes : lane_mask(operands[0]));
      return true;
    case Opcode::endcollective:
      refuse("lanes that have gone apart exchange values");
    case Opcode::bmov:
      move_members(instruction);
      return false;
    default:  // BAR, NOP, YIELD
      return false;
  }
}

}  // namespace spjit
