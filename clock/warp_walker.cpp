#include "clock/warp_walker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "sass/dependencies.hpp"
#include "sass/launch_constants.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

using sass::k_lanes;
using sass::LaneMask;
using sass::OperandKind;

/// What a kernel may ask for beside parameters. Nobody loads from there.
constexpr std::uint64_t k_shared_window = std::uint64_t{1} << 44;
constexpr std::uint64_t k_local_window = std::uint64_t{1} << 45;
constexpr std::uint32_t k_stack_end = 1U << 20;
constexpr std::uint64_t k_descriptor = 0x3'0000'0000;

LaneMask threads_of(const WalkedLaunch& launch, std::uint32_t warp) {
  const std::uint32_t threads = std::min(k_lanes, launch.threads() - warp * k_lanes);
  return threads == k_lanes ? sass::k_all_lanes : (LaneMask{1} << threads) - 1;
}

template <class Value>
void put(std::vector<std::byte>& bank, std::vector<bool>& known, std::uint64_t offset,
         const Value& value) {
  std::memcpy(bank.data() + offset, &value, sizeof value);
  std::fill_n(known.begin() + static_cast<std::ptrdiff_t>(offset), sizeof value, true);
}

}  // namespace

WarpWalk::WarpWalk(const WalkedLaunch& launch, const std::array<std::uint32_t, 3>& index,
                   std::uint32_t warp)
    : launch_(launch),
      index_(index),
      warp_(warp),
      registers_(static_cast<unsigned>(launch.kernel.info.registers)),
      convergence_(threads_of(launch, warp), launch.kernel.entry) {
  block_number_ = index[0] + std::uint64_t{launch.grid[0]} *
                                 (index[1] + std::uint64_t{launch.grid[1]} * index[2]);
  const auto base = static_cast<std::uint64_t>(launch.kernel.info.parameter_base);
  constexpr std::uint64_t least_bytes = 0x400;
  bank0_.resize(std::max<std::uint64_t>(base + launch.parameters.size(), least_bytes));
  bank0_known_.resize(bank0_.size());
  put(bank0_, bank0_known_, sass::k_block_constants, launch.block);
  put(bank0_, bank0_known_, sass::k_grid_constants, launch.grid);
  put(bank0_, bank0_known_, sass::k_shared_window_constant, k_shared_window);
  put(bank0_, bank0_known_, sass::k_local_window_constant, k_local_window);
  put(bank0_, bank0_known_, sass::k_stack_constant, k_stack_end);
  if (launch.program.arch >= 80) {
    put(bank0_, bank0_known_, sass::descriptor_constant(launch.program.arch), k_descriptor);
  }
  std::ranges::copy(launch.parameters, bank0_.begin() + static_cast<std::ptrdiff_t>(base));
  std::fill_n(bank0_known_.begin() + static_cast<std::ptrdiff_t>(base), launch.parameters.size(),
              true);
}

WarpTrace WarpWalk::run() {
  try {
    while (convergence_.next()) {
      if (convergence_.place() >= launch_.program.operations.size()) {
        throw NotSupported("a warp runs over the end of the code");
      }
      if (trace_.steps.size() >= k_most_walked_steps) refuse("the warp runs for too long");
      step();
    }
  } catch (const sass::ConvergenceError& error) {
    throw NotSupported(
        fmt::format("lanes of a warp part in a way that is not modelled: {}", error.what()));
  }
  return std::move(trace_);
}

void WarpWalk::refuse(const char* why) const {
  const auto last = static_cast<std::uint32_t>(launch_.program.operations.size() - 1);
  throw NotSupported(
      fmt::format("{}: {}", launch_.program.describe(std::min(convergence_.place(), last)), why));
}

void WarpWalk::set_guard(const ClockOperation& operation) {
  const sass::Guard& guard = operation.instruction.guard;
  const LaneMask active = convergence_.active();
  if (guard.predicate == sass::k_true && !guard.negated) {
    certain_ = perhaps_ = active;
    return;
  }
  KnownMask holds;
  if (guard.uniform) {
    const KnownWord word = registers_.uniform_predicate(guard.predicate);
    holds = {word.value != 0 ? sass::k_all_lanes : 0, word.is_known ? sass::k_all_lanes : 0};
  } else {
    holds = registers_.predicate(guard.predicate);
  }
  if (guard.negated) holds.values = ~holds.values;
  certain_ = active & holds.certainly();
  perhaps_ = active & holds.perhaps();
}

void WarpWalk::step() {
  const std::uint32_t place = convergence_.place();
  const ClockOperation& operation = launch_.program.operations[place];
  set_guard(operation);
  access_ = k_no_access;
  bool moved = false;
  if (operation.unit == ClockUnit::control) {
    moved = control(operation);
  } else if (perhaps_ == 0) {
    // Issued, and nothing else.
  } else if (!operation.has_values) {
    if (operation.unit == ClockUnit::fp32) {  // most of all instructions
      registers_.forget(operation.instruction.operands[0].number, perhaps_, false);
    } else if (!divisions(operation)) {
      forget_results(operation, false);
    }
  } else if (operation.is_load || operation.is_store) {
    access(operation);
  } else if (operation.unit == ClockUnit::constant) {
    load_constant(operation);
  } else if (!integers(operation) && !logic(operation) && !uniforms(operation) &&
             !moves(operation)) {
    LaneMask loaded = 0;
    for (const sass::Operand& operand : operation.instruction.operands) {
      if (operand.kind == OperandKind::reg) {
        loaded |= registers_.lanes(operand.number).loaded;
      }
    }
    forget_results(operation, (loaded & perhaps_) != 0);
  }
  trace_.steps.push_back({place, access_});
  if (!moved) convergence_.go_on();
}

KnownWord WarpWalk::word(std::uint8_t bank, std::int64_t offset, unsigned bytes) const {
  const std::vector<std::byte>* from = &bank0_;
  if (bank != 0) {
    const auto found = launch_.kernel.constants.find(bank);
    if (found == launch_.kernel.constants.end()) return {};
    from = &found->second;
  }
  if (offset < 0 || static_cast<std::uint64_t>(offset) + bytes > from->size()) return {};
  const auto begin = static_cast<std::size_t>(offset);
  if (bank == 0) {
    for (std::size_t i = begin; i < begin + bytes; ++i) {
      if (!bank0_known_[i]) return {};
    }
  }
  KnownWord word{0, true, false};
  std::memcpy(&word.value, from->data() + begin, bytes);
  return word;
}

KnownWord WarpWalk::scalar(const sass::Operand& operand, unsigned part) const {
  KnownWord word;
  switch (operand.kind) {
    case OperandKind::uniform: {
      const bool is_zero = operand.number == sass::k_zero_uniform;
      word = registers_.uniform(is_zero ? operand.number : operand.number + part);
      break;
    }
    case OperandKind::constant:
      word = this->word(operand.bank, operand.value + 4 * std::int64_t{part}, 4);
      break;
    default:  // an immediate; the upper half of one is its sign
      word = {static_cast<std::uint32_t>(operand.value >> (part == 0 ? 0 : 32) & 0xffffffff), true,
              false};
      break;
  }
  if (operand.inverted) word.value = ~word.value;
  if (operand.negated) word.value = 0U - word.value;
  return word;
}

KnownLanes WarpWalk::source(const sass::Operand& operand, unsigned part) const {
  if (operand.kind == OperandKind::reg) {
    const bool is_zero = operand.number == sass::k_zero_register;
    KnownLanes value = registers_.lanes(is_zero ? operand.number : operand.number + part);
    if (operand.negated || operand.inverted) {
      for (std::uint32_t& lane : value.lanes.values) lane = operand.inverted ? ~lane : 0U - lane;
    }
    return value;
  }
  const KnownWord word = scalar(operand, part);
  KnownLanes value = KnownLanes::of(word.value);
  if (!word.is_known) value.known = 0;
  if (word.is_loaded) value.loaded = sass::k_all_lanes;
  return value;
}

KnownMask WarpWalk::mask(const sass::Operand& operand) const {
  KnownMask found;
  if (operand.kind == OperandKind::uniform_predicate) {
    const KnownWord word = registers_.uniform_predicate(operand.number);
    found = {word.value != 0 ? sass::k_all_lanes : 0, word.is_known ? sass::k_all_lanes : 0};
  } else {
    found = registers_.predicate(operand.number);
  }
  if (operand.negated) found.values = ~found.values;
  return found;
}

void WarpWalk::write(const sass::Operand& operand, const KnownLanes& value, unsigned part) {
  if (operand.number == sass::k_zero_register) return;
  registers_.write(operand.number + part, value, certain_, perhaps_);
}

void WarpWalk::write_mask(const sass::Operand& operand, KnownMask value) {
  registers_.write_predicate(operand.number, value, certain_, perhaps_);
}

void WarpWalk::forget_results(const ClockOperation& operation, bool is_loaded) {
  for (const sass::RegisterSpan& span : results_of(operation.instruction)) {
    for (unsigned i = span.first; i < unsigned{span.first} + span.count; ++i) {
      switch (span.kind) {
        case OperandKind::reg:
          registers_.forget(i, perhaps_, is_loaded);
          break;
        case OperandKind::predicate:
          registers_.write_predicate(i, {}, perhaps_, perhaps_);
          break;
        case OperandKind::uniform:
          registers_.write_uniform(i, {0, false, is_loaded});
          break;
        default:
          registers_.write_uniform_predicate(i, {});
          break;
      }
    }
  }
}

WarpTrace walk_warp(const WalkedLaunch& launch, const std::array<std::uint32_t, 3>& index,
                    std::uint32_t warp) {
  return WarpWalk(launch, index, warp).run();
}

}  // namespace spjit
