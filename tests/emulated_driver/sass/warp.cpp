#include "emulated_driver/sass/warp.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace spjit::emulated {

namespace {

constexpr std::uint32_t k_sign = 0x80000000;

/// The lanes of the last warp may be fewer.
std::uint32_t threads_of(const SassBlock& block, std::uint32_t warp) {
  return std::min(k_lanes, block.threads - warp * k_lanes);
}

LaneMask mask_of(std::uint32_t threads) {
  return threads == k_lanes ? k_all_lanes : (LaneMask{1} << threads) - 1;
}

const SassFunction& entry_of(const SassBlock& block) {
  return block.program->functions[block.kernel->function];
}

}  // namespace

Warp::Warp(SassBlock& block, std::uint32_t index)
    : block_(block),
      index_(index),
      threads_(threads_of(block, index)),
      registers_(static_cast<unsigned>(block.kernel->info.registers)),
      hazards_(block.program->arch),
      convergence_(mask_of(threads_), entry_of(block).first) {}

std::uint64_t Warp::run(std::uint64_t budget) {
  std::uint64_t executed = 0;
  while (state_ == WarpState::running && executed < budget) {
    try {
      if (!convergence_.next()) {
        state_ = WarpState::exited;
        break;
      }
      if (convergence_.place() >= program().operations.size()) {
        throw ProgramError(FaultKind::illegal_address, "the code ends here");
      }
      step();
      ++executed;
    } catch (const ProgramError& error) {
      rethrow_located(error);
    } catch (const sass::ConvergenceError& error) {
      rethrow_located(ProgramError(FaultKind::illegal_barrier, error.what()));
    }
  }
  return executed;
}

void Warp::rethrow_located(const ProgramError& error) const {
  const auto last = static_cast<std::uint32_t>(program().operations.size() - 1);
  const std::uint32_t operation = std::min(convergence_.place(), last);
  const std::string text = to_text(program().operations[operation].instruction);
  throw ProgramError(error.kind(), fmt::format("{}: '{}': {} (warp {} of block {},{},{} in {})",
                                               program().place_text(operation), text, error.what(),
                                               index_, block_.index[0], block_.index[1],
                                               block_.index[2], block_.kernel->info.name));
}

LaneMask Warp::guarded(const SassOperation& operation) const {
  const sass::Guard& guard = operation.instruction.guard;
  LaneMask mask = 0;
  if (guard.uniform) {
    mask = registers_.uniform_predicate(guard.predicate) ? k_all_lanes : 0;
  } else {
    mask = registers_.predicate(guard.predicate);
  }
  return convergence_.active() & (guard.negated ? ~mask : mask);
}

void Warp::check(const SassOperation& operation) const {
  for (const SourceRegister& source : operation.sources) {
    const bool is_guard = source.use == sass::UseClass::guard;
    // The guard is read by all lanes, also by those that it turns off.
    if (exec_ == 0 && !is_guard) break;
    const LaneMask lanes = is_guard ? convergence_.active() : exec_;
    const LaneMask missing = lanes & ~registers_.written(source.index);
    if (missing != 0 && source.index != operation.copied) {
      throw ProgramError(FaultKind::uninitialized_read,
                         fmt::format("reads {}, which nothing has written in lanes {:#x}",
                                     register_text(source.index), missing));
    }
    hazards_.check_source(source);
  }
  if (exec_ == 0) return;
  for (const ResultRegister& result : operation.results) {
    hazards_.check_result(result, operation);
  }
}

void Warp::step() {
  const std::uint32_t at = convergence_.place();
  const SassOperation& operation = program().operations[at];
  hazards_.wait(operation);
  exec_ = guarded(operation);
  check(operation);
  was_told_ = false;
  const bool moves = operation.moves;
  if (exec_ != 0) {
    const bool copies = operation.copied != k_no_register;
    const LaneMask missing = copies ? exec_ & ~registers_.written(operation.copied) : 0;
    operation.handler(*this, operation);
    if (missing != 0) registers_.forget(operation.results[0].index, missing);
  } else if (moves) {
    convergence_.go_on();
  }
  if (!moves) convergence_.go_on();
  hazards_.issue(operation, exec_ != 0);
  if (block_.observer != nullptr && !was_told_) {
    tell_at(at, {});
  }
}

void Warp::tell_at(std::uint32_t operation, const LaneAccess& access) {
  const SassOperation& told = program().operations[operation];
  block_.observer->step({.function = program().functions[told.function].name,
                         .offset = told.instruction.offset,
                         .block = block_.index,
                         .warp = index_,
                         .active = exec_,
                         .space = access.space,
                         .is_store = access.is_store,
                         .width_bytes = access.width_bytes,
                         .addresses = access.addresses});
}

void Warp::observe(const LaneAccess& access) {
  if (block_.observer == nullptr) return;
  tell_at(convergence_.place(), access);
  was_told_ = true;
}

void Warp::wait_at(const BlockBarrier& barrier) {
  // Lanes that have exited, or are elsewhere, will never come.
  if (convergence_.active() != mask_of(threads_) || exec_ != convergence_.active()) {
    throw ProgramError(FaultKind::illegal_barrier,
                       fmt::format("lanes {:#x} of {:#x} wait, {:#x} have exited", exec_,
                                   mask_of(threads_), mask_of(threads_) & ~convergence_.live()));
  }
  barrier_ = barrier;
  barrier_.operation = convergence_.place();
  state_ = WarpState::waiting;
}

void Warp::release() {
  state_ = WarpState::running;
  hazards_.drain_memory();
}

const Lanes& Warp::integers(const sass::Operand& operand, Lanes& room, unsigned part) const {
  if (operand.kind == sass::OperandKind::reg) {
    const bool is_zero = operand.number == sass::k_zero_register;
    const Lanes& lanes = registers_.lanes(is_zero ? operand.number : operand.number + part);
    if (!operand.negated && !operand.inverted) return lanes;
    for (unsigned i = 0; i < k_lanes; ++i) {
      room[i] = operand.inverted ? ~lanes[i] : 0U - lanes[i];
    }
    return room;
  }
  room.values.fill(scalar(operand, part));
  return room;
}

const Lanes& Warp::floats(const sass::Operand& operand, Lanes& room) const {
  const std::uint32_t clear = operand.absolute ? ~k_sign : ~0U;
  const std::uint32_t flip = operand.negated ? k_sign : 0U;
  if (operand.kind == sass::OperandKind::reg) {
    const Lanes& lanes = registers_.lanes(operand.number);
    if (!operand.negated && !operand.absolute) return lanes;
    for (unsigned i = 0; i < k_lanes; ++i) room[i] = (lanes[i] & clear) ^ flip;
    return room;
  }
  sass::Operand plain = operand;
  plain.negated = false;
  room.values.fill((scalar(plain) & clear) ^ flip);
  return room;
}

std::uint32_t Warp::scalar(const sass::Operand& operand, unsigned part) const {
  std::uint32_t value = 0;
  switch (operand.kind) {
    case sass::OperandKind::uniform: {
      const bool is_zero = operand.number == sass::k_zero_uniform;
      value = is_zero ? 0 : registers_.uniform(operand.number + part);
      break;
    }
    case sass::OperandKind::constant:
      value = static_cast<std::uint32_t>(block_.constants->read(
          operand.bank, operand.value + 4 * std::int64_t{part}, sizeof(std::uint32_t)));
      break;
    default:  // an immediate; the upper half of one is its sign
      value = static_cast<std::uint32_t>(operand.value >> (part == 0 ? 0 : 32) & 0xffffffff);
      break;
  }
  if (operand.inverted) return ~value;
  return operand.negated ? 0U - value : value;
}

LaneMask Warp::predicate(const sass::Operand& operand) const {
  const LaneMask mask = operand.kind == sass::OperandKind::uniform_predicate
                            ? (registers_.uniform_predicate(operand.number) ? k_all_lanes : 0)
                            : registers_.predicate(operand.number);
  return operand.negated ? ~mask : mask;
}

bool Warp::uniform_predicate(const sass::Operand& operand) const {
  return registers_.uniform_predicate(operand.number) != operand.negated;
}

LaneAccess Warp::access(const SassOperation& operation, AccessSpace space,
                        std::uint32_t width_bytes, bool is_store) {
  const sass::Operand& operand = operation.at(is_store ? 0 : 1);
  LaneAccess made{
      .space = space, .is_store = is_store, .width_bytes = width_bytes, .addresses = {}};
  const bool is_pair = operand.form == sass::AddressForm::wide;
  const bool is_wide = operand.form != sass::AddressForm::narrow;
  std::uint64_t uniform = 0;
  if (operand.uniform != sass::k_zero_uniform) {
    uniform = registers_.uniform(operand.uniform);
    if (is_wide) uniform |= std::uint64_t{registers_.uniform(operand.uniform + 1U)} << 32;
  }
  if (operand.descriptor != sass::k_zero_uniform) check_descriptor(operand.descriptor);
  const bool has_register = operand.number != sass::k_zero_register;
  const Lanes& low = registers_.lanes(operand.number);
  const Lanes& high = registers_.lanes(has_register ? operand.number + 1U : operand.number);
  for_each_lane(exec_, [&](unsigned lane) {
    std::uint64_t address = std::uint64_t{low[lane]} * operand.scale;
    if (is_pair && has_register) address |= std::uint64_t{high[lane]} << 32;
    address += uniform + static_cast<std::uint64_t>(operand.value);
    if (!is_wide) address &= 0xffffffff;
    if (address % width_bytes != 0) {
      throw ProgramError(FaultKind::misaligned_address,
                         fmt::format("lane {}'s address {:#x} is not a multiple of {} bytes", lane,
                                     address, width_bytes));
    }
    made.addresses[lane] = address;
  });
  return made;
}

void Warp::check_descriptor(unsigned uniform) const {
  const std::uint64_t value = std::uint64_t{registers_.uniform(uniform)} |
                              std::uint64_t{registers_.uniform(uniform + 1)} << 32;
  if (value == k_memory_descriptor) return;
  throw ProgramError(
      FaultKind::illegal_address,
      fmt::format("UR{} holds {:#x}, which does not describe global memory", uniform, value));
}

ShadowedBytes& Warp::local_memory(unsigned lane) {
  ShadowedBytes& memory = local_[lane];
  const auto bytes = static_cast<std::uint64_t>(block_.kernel->info.stack_bytes);
  if (memory.size() != bytes) memory.reset(bytes);
  return memory;
}

std::optional<Region> Warp::region_of(const LaneAccess& access) {
  if (access.space != AccessSpace::global) return std::nullopt;
  const auto first = static_cast<unsigned>(__builtin_ctz(exec_));
  Address low = access.addresses[first];
  Address high = low;
  for_each_lane(exec_, [&](unsigned lane) {
    low = std::min(low, access.addresses[lane]);
    high = std::max(high, access.addresses[lane]);
  });
  const Allocation* allocation = last_allocation_;
  if (allocation == nullptr || allocation->constant || low < allocation->address) {
    return std::nullopt;
  }
  const std::uint64_t end = high - allocation->address + access.width_bytes;
  if (end < access.width_bytes || end > allocation->contents.size()) return std::nullopt;
  Allocation& found = *last_allocation_;
  return Region{{found.contents.bytes(), found.contents.defined()}, found.address};
}

Place Warp::place_of(const LaneAccess& access, unsigned lane) {
  Address address = access.addresses[lane];
  AccessSpace space = access.space;
  if (space == AccessSpace::generic) {
    space = address >= k_local_window    ? AccessSpace::local
            : address >= k_shared_window ? AccessSpace::shared
                                         : AccessSpace::global;
    if (space == AccessSpace::local) address -= k_local_window;
    if (space == AccessSpace::shared) address -= k_shared_window;
  }
  if (space == AccessSpace::global) {
    return find_place(*block_.memory, last_allocation_,
                      {Space::global, address, access.width_bytes, access.is_store});
  }
  const bool is_local = space == AccessSpace::local;
  ShadowedBytes& memory = is_local ? local_memory(lane) : block_.shared;
  const std::uint64_t begin = is_local ? k_stack_end - memory.size() : block_.shared_begin;
  const std::uint64_t base = is_local ? begin : 0;
  if (address < begin || address - base > memory.size() ||
      memory.size() - (address - base) < access.width_bytes) {
    throw ProgramError(
        FaultKind::illegal_address,
        fmt::format("lane {} {} {} bytes at {:#x} of {} memory, which is {:#x} to {:#x}", lane,
                    access.is_store ? "writes" : "reads", access.width_bytes, address,
                    is_local ? "local" : "shared", begin, base + memory.size()));
  }
  return {memory.bytes() + (address - base), memory.defined() + (address - base)};
}

}  // namespace spjit::emulated
