#pragma once

/// @file
/// Handlers by families: each function gives the handler of an instruction of its family, or null
/// for one of another. They throw ProgramError (FaultKind::invalid_cubin) for a form that is not
/// executed here.

#include <string>

#include "emulated_driver/sass/warp.hpp"

namespace spjit::emulated {

[[nodiscard]] SassHandler float_handler(const sass::Instruction& instruction);
[[nodiscard]] SassHandler integer_handler(const sass::Instruction& instruction);
[[nodiscard]] SassHandler logic_handler(const sass::Instruction& instruction);
[[nodiscard]] SassHandler convert_handler(const sass::Instruction& instruction);
[[nodiscard]] SassHandler move_handler(const sass::Instruction& instruction);
[[nodiscard]] SassHandler memory_handler(const sass::Instruction& instruction);
[[nodiscard]] SassHandler control_handler(const sass::Instruction& instruction);

/// Refuses a form that the decoder knows and no handler executes.
[[noreturn]] void refuse_form(const sass::Instruction& instruction);

/// Writes the two results of a comparison: `holds` and its opposite, each combined with `with` as
/// the instruction's .AND, .OR or .XOR says.
void write_combined(Warp& warp, const SassOperation& operation, LaneMask holds, LaneMask with);

/// Handlers of `d = Function(a, b, c)` on integers, from operand 1 on; for lanes, and for a warp.
template <auto function>
void integers_of_one(Warp& warp, const SassOperation& operation) {
  Lanes room_a;
  Lanes d;
  const Lanes& a = warp.integers(operation.at(1), room_a);
  for (unsigned i = 0; i < k_lanes; ++i) d[i] = function(a[i]);
  warp.write(operation.at(0), d);
}

template <auto function>
void integers_of_two(Warp& warp, const SassOperation& operation) {
  Lanes room_a;
  Lanes room_b;
  Lanes d;
  const Lanes& a = warp.integers(operation.at(1), room_a);
  const Lanes& b = warp.integers(operation.at(2), room_b);
  for (unsigned i = 0; i < k_lanes; ++i) d[i] = function(a[i], b[i]);
  warp.write(operation.at(0), d);
}

template <auto function>
void integers_of_three(Warp& warp, const SassOperation& operation) {
  Lanes room_a;
  Lanes room_b;
  Lanes room_c;
  Lanes d;
  const Lanes& a = warp.integers(operation.at(1), room_a);
  const Lanes& b = warp.integers(operation.at(2), room_b);
  const Lanes& c = warp.integers(operation.at(3), room_c);
  for (unsigned i = 0; i < k_lanes; ++i) d[i] = function(a[i], b[i], c[i]);
  warp.write(operation.at(0), d);
}

}  // namespace spjit::emulated
