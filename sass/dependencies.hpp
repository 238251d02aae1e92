#pragma once

/// @file
/// Registers that an instruction reads and writes, and how the scheduler learns of a result.

#include <cstdint>

#include "base/small_list.hpp"
#include "sass/instruction.hpp"

namespace spjit::sass {

/// Registers that lie one after another: R4 to R7, UR2, P0. RZ, URZ, PT and UPT are none.
struct RegisterSpan {
  OperandKind kind = OperandKind::reg;  ///< reg, uniform, predicate or uniform_predicate
  std::uint8_t first = 0;
  std::uint8_t count = 1;
};

using RegisterSpans = SmallList<RegisterSpan, 12>;

/// Registers that are read, those of addresses and the guard's predicate among them.
[[nodiscard]] RegisterSpans sources_of(const Instruction& instruction);
/// Registers that are written. Those of a predicated instruction keep their values where it is off.
[[nodiscard]] RegisterSpans results_of(const Instruction& instruction);

/// Registers that an operand names, those of its address among them.
[[nodiscard]] RegisterSpans registers_of(const Operand& operand);
/// The predicates that P2R reads: its mask says which.
[[nodiscard]] RegisterSpans masked_predicates_read(const Instruction& instruction);

/// Whether a result is there a fixed number of cycles after the issue, so that a stall count waits
/// for it. Others (loads, MUFU, conversions, S2R ...) are waited for by a scoreboard.
[[nodiscard]] bool has_fixed_latency(const Instruction& instruction) noexcept;

}  // namespace spjit::sass
