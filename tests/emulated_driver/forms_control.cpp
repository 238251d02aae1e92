// bra brx.idx call ret exit trap bar.sync barrier.sync bar.warp.sync.

#include <fmt/format.h>

#include <algorithm>

#include "emulated_driver/form_types.hpp"

namespace spjit::emulated {

namespace {

constexpr std::uint32_t k_barriers = 16;

void run_branch(Thread& thread, const Instruction& instruction) { thread.jump(instruction.extra); }

void run_branch_table(Thread& thread, const Instruction& instruction) {
  const auto& table = thread.function().branch_tables[instruction.extra];
  const auto index = thread.read<std::uint32_t>(instruction.operands[0]);
  if (index >= table.size()) {
    throw ProgramError(FaultKind::trap,
                       fmt::format("index {} of a table of {} targets", index, table.size()));
  }
  thread.jump(table[index]);
}

void run_call(Thread& thread, const Instruction& instruction) {
  thread.call(thread.function().calls[instruction.extra]);
}

void run_return(Thread& thread, const Instruction& /*instruction*/) { thread.return_from_call(); }

void run_exit(Thread& thread, const Instruction& /*instruction*/) { thread.exit(); }

void run_trap(Thread& /*thread*/, const Instruction& /*instruction*/) {
  throw ProgramError(FaultKind::trap, "the program traps");
}

[[noreturn]] void refuse_barrier(const std::string& why) {
  throw ProgramError(FaultKind::illegal_barrier, why);
}

template <bool is_aligned>
void run_barrier(Thread& thread, const Instruction& instruction) {
  const auto barrier = thread.read<std::uint32_t>(instruction.operands[0]);
  std::uint32_t expected = thread.block().threads;
  if (instruction.operands[1] != k_no_operand) {
    expected = thread.read<std::uint32_t>(instruction.operands[1]);
    if (expected == 0 || expected % k_warp != 0 || expected > thread.block().threads) {
      refuse_barrier(fmt::format("a barrier for {} threads of {}; a multiple of 32 is expected",
                                 expected, thread.block().threads));
    }
  }
  if (barrier >= k_barriers) {
    refuse_barrier(fmt::format("barrier {} of {}", barrier, k_barriers));
  }
  thread.wait_at({barrier, expected, instruction.line, is_aligned});
}

void run_warp_barrier(Thread& thread, const Instruction& instruction) {
  const auto mask = thread.read<std::uint32_t>(instruction.operands[0]);
  const auto lane = thread.read<std::uint32_t>(laneid);
  const auto warp = thread.read<std::uint32_t>(warpid);
  const std::uint32_t lanes = std::min(k_warp, thread.block().threads - warp * k_warp);
  const std::uint32_t present = lanes == k_warp ? ~0U : (1U << lanes) - 1;
  if ((mask >> lane & 1U) == 0) {
    refuse_barrier(fmt::format("lane {} waits with mask {:#x}, which leaves it out", lane, mask));
  }
  thread.wait_at({k_barriers + warp, static_cast<std::uint32_t>(std::popcount(mask & present)),
                  instruction.line, false});
}

Form control(Shape shape, Handler handler) {
  Form form;
  form.shape = shape;
  form.handler = handler;
  return form;
}

Form barrier_form(std::string_view name, Modifiers& modifiers) {
  if (name == "bar" && modifiers.take("warp")) {
    if (!modifiers.take("sync")) {
      modifiers.refuse("only bar.warp.sync is known");
    }
    return control(Shape::barrier, run_warp_barrier);
  }
  modifiers.take("cta");
  if (!modifiers.take("sync")) {
    modifiers.refuse("of barriers only .sync is known");
  }
  const bool is_aligned = name == "bar" || modifiers.take("aligned");
  Form form = control(Shape::barrier, is_aligned ? run_barrier<true> : run_barrier<false>);
  form.operands = 2;
  return form;
}

}  // namespace

std::optional<Form> control_form(std::string_view name, Modifiers& modifiers) {
  if (name == "bra") {
    modifiers.take("uni");
    return control(Shape::branch, run_branch);
  }
  if (name == "brx") {
    if (!modifiers.take("idx")) {
      modifiers.refuse(".idx is expected there");
    }
    modifiers.take("uni");
    return control(Shape::branch_table, run_branch_table);
  }
  if (name == "call") {
    modifiers.take("uni");
    return control(Shape::call, run_call);
  }
  if (name == "ret") {
    modifiers.take("uni");
    return control(Shape::none, run_return);
  }
  if (name == "exit") {
    return control(Shape::none, run_exit);
  }
  if (name == "trap") {
    return control(Shape::none, run_trap);
  }
  if (name == "bar" || name == "barrier") {
    return barrier_form(name, modifiers);
  }
  return std::nullopt;
}

}  // namespace spjit::emulated
