#include "sass/latency.hpp"

#include <algorithm>
#include <array>

namespace spjit::sass {
namespace {

bool is_memory(Opcode opcode) noexcept {
  using enum Opcode;
  switch (opcode) {
    case ld:
    case ldg:
    case ldl:
    case lds:
    case st:
    case stg:
    case stl:
    case sts:
      return true;
    default:
      return false;
  }
}

bool is_branch(Opcode opcode) noexcept {
  using enum Opcode;
  switch (opcode) {
    case bar:
    case bra:
    case break_:
    case brx:
    case brxu:
    case bssy:
    case bsync:
    case call:
    case exit:
    case ret:
    case warpsync:
      return true;
    default:
      return false;
  }
}

bool is_uniform(Opcode opcode) noexcept {
  using enum Opcode;
  switch (opcode) {
    case uflo:
    case uiadd3:
    case uimad:
    case uisetp:
    case uldc:
    case ulea:
    case ulop3:
    case umov:
    case usel:
    case ushf:
      return true;
    default:
      return false;
  }
}

UseClass wide_use(std::size_t source, unsigned index) noexcept {
  if (source < 2) return UseClass::wide_factor;
  return source > 2 || index == 0 ? UseClass::wide_sum_low : UseClass::wide_sum_high;
}

/// How an instruction reads register `index` of its source `source`, counted from the first.
UseClass use_class(const Instruction& instruction, std::size_t source, unsigned index) noexcept {
  using enum Opcode;
  switch (instruction.opcode) {
    case fadd:
    case ffma:
    case fmul:
      return UseClass::float_product;
    case viadd:
      return UseClass::integer_product;
    case imad:
      if (instruction.has(Modifier::wide)) return wide_use(source, index);
      return instruction.has(Modifier::hi) ? UseClass::high_product : UseClass::integer_product;
    case hfma2:
      return UseClass::half;
    default:
      break;
  }
  if (is_memory(instruction.opcode)) return UseClass::memory;
  if (is_branch(instruction.opcode)) return UseClass::branch;
  if (is_uniform(instruction.opcode)) return UseClass::uniform;
  return has_fixed_latency(instruction) ? UseClass::logic : UseClass::variable;
}

void append_uses(Uses& uses, const RegisterSpans& spans, const Instruction& instruction,
                 std::size_t source) {
  for (const RegisterSpan& span : spans) {
    for (std::uint8_t i = 0; i < span.count; ++i) {
      uses.push_back({{span.kind, static_cast<std::uint8_t>(span.first + i), 1},
                      use_class(instruction, source, i)});
    }
  }
}

constexpr std::size_t k_archs = 3;

struct Row {
  ResultClass result;
  UseClass use;
  std::array<std::uint8_t, k_archs> cycles;  ///< sm_75; sm_80 and what is like it; sm_90
};

// Least distances in cubins of all kinds that spjit emits, and of loops over CSR, reductions and
// products through shared memory: those seen a hundred times and more. Where ptxas leaves more, as
// 16 cycles after P2R, it may be for want of a nearer reader: those are as a predicate and its
// guard.
constexpr Row k_rows[] = {
    {ResultClass::float_product, UseClass::float_product, {4, 4, 4}},
    {ResultClass::float_product, UseClass::wide_factor, {4, 4, 4}},
    {ResultClass::float_product, UseClass::logic, {5, 5, 5}},
    {ResultClass::float_product, UseClass::memory, {8, 5, 5}},
    {ResultClass::integer_product, UseClass::integer_product, {4, 4, 4}},
    {ResultClass::integer_product, UseClass::wide_sum_low, {4, 4, 4}},
    {ResultClass::integer_product, UseClass::wide_sum_high, {4, 4, 2}},
    {ResultClass::integer_product, UseClass::wide_factor, {4, 4, 4}},
    {ResultClass::integer_product, UseClass::high_product, {4, 4, 4}},
    {ResultClass::integer_product, UseClass::float_product, {4, 4, 4}},
    {ResultClass::integer_product, UseClass::variable, {4, 4, 4}},
    {ResultClass::integer_product, UseClass::logic, {5, 5, 5}},
    {ResultClass::integer_product, UseClass::memory, {8, 5, 5}},
    {ResultClass::high_product, UseClass::integer_product, {4, 4, 4}},
    {ResultClass::high_product, UseClass::high_product, {6, 6, 6}},
    {ResultClass::high_product, UseClass::logic, {5, 5, 5}},
    {ResultClass::wide_low, UseClass::integer_product, {4, 4, 4}},
    {ResultClass::wide_low, UseClass::wide_sum_low, {6, 6, 4}},
    {ResultClass::wide_low, UseClass::wide_factor, {6, 6, 4}},
    {ResultClass::wide_low, UseClass::logic, {5, 5, 3}},
    {ResultClass::wide_low, UseClass::memory, {8, 5, 5}},
    {ResultClass::wide_high, UseClass::integer_product, {4, 4, 4}},
    {ResultClass::wide_high, UseClass::wide_sum_high, {6, 6, 4}},
    {ResultClass::wide_high, UseClass::logic, {5, 5, 5}},
    {ResultClass::wide_high, UseClass::memory, {8, 5, 5}},
    {ResultClass::logic, UseClass::logic, {4, 4, 4}},
    {ResultClass::logic, UseClass::branch, {6, 4, 4}},
    {ResultClass::logic, UseClass::variable, {6, 4, 4}},
    {ResultClass::logic, UseClass::float_product, {5, 5, 5}},
    {ResultClass::logic, UseClass::integer_product, {5, 5, 5}},
    {ResultClass::logic, UseClass::high_product, {5, 5, 5}},
    {ResultClass::logic, UseClass::wide_factor, {5, 5, 5}},
    {ResultClass::logic, UseClass::wide_sum_low, {5, 5, 5}},
    {ResultClass::logic, UseClass::wide_sum_high, {5, 5, 3}},
    {ResultClass::logic, UseClass::memory, {8, 5, 5}},
    {ResultClass::half, UseClass::wide_sum_high, {10, 10, 8}},
    {ResultClass::half, UseClass::float_product, {10, 10, 10}},
    {ResultClass::half, UseClass::integer_product, {10, 10, 10}},
    {ResultClass::half, UseClass::high_product, {10, 10, 10}},
    {ResultClass::half, UseClass::wide_factor, {10, 10, 10}},
    {ResultClass::half, UseClass::logic, {10, 10, 10}},
    {ResultClass::special, UseClass::logic, {4, 4, 4}},
    {ResultClass::from_predicates, UseClass::logic, {12, 13, 13}},
    {ResultClass::predicate, UseClass::logic, {4, 4, 4}},
    {ResultClass::predicate, UseClass::integer_product, {5, 5, 5}},
    {ResultClass::predicate, UseClass::guard, {12, 13, 13}},
    {ResultClass::uniform, UseClass::uniform, {4, 4, 4}},
    {ResultClass::uniform, UseClass::integer_product, {6, 6, 6}},
    {ResultClass::uniform, UseClass::logic, {6, 6, 6}},
    {ResultClass::uniform, UseClass::wide_factor, {6, 6, 6}},
    {ResultClass::uniform, UseClass::memory, {9, 6, 6}},
    {ResultClass::uniform, UseClass::branch, {9, 10, 10}},
    {ResultClass::uniform_constant, UseClass::uniform, {2, 2, 2}},
    {ResultClass::uniform_constant, UseClass::memory, {2, 2, 2}},
    {ResultClass::uniform_move, UseClass::uniform, {2, 2, 2}},
    {ResultClass::uniform_move, UseClass::logic, {2, 2, 2}},
    {ResultClass::uniform_move, UseClass::integer_product, {2, 2, 2}},
    {ResultClass::from_register, UseClass::memory, {13, 13, 13}},
    {ResultClass::from_register, UseClass::uniform, {13, 13, 13}},
    {ResultClass::uniform_predicate, UseClass::uniform, {4, 4, 4}},
};

constexpr auto k_results = static_cast<std::size_t>(ResultClass::count);
constexpr auto k_uses = static_cast<std::size_t>(UseClass::count);
using Distances = std::array<std::array<std::array<std::uint8_t, k_uses>, k_results>, k_archs>;

constexpr Distances all_distances() {
  constexpr std::uint8_t none = 255;
  Distances all = {};
  for (std::size_t arch = 0; arch < k_archs; ++arch) {
    std::array<std::uint8_t, k_results> least = {};
    least.fill(none);
    for (const Row& row : k_rows) {
      std::uint8_t& found = least[static_cast<std::size_t>(row.result)];
      found = std::min(found, row.cycles[arch]);
    }
    for (std::size_t result = 0; result < k_results; ++result) {
      all[arch][result].fill(least[result]);
    }
    for (const Row& row : k_rows) {
      all[arch][static_cast<std::size_t>(row.result)][static_cast<std::size_t>(row.use)] =
          row.cycles[arch];
    }
  }
  return all;
}

constexpr Distances k_distances = all_distances();

}  // namespace

ResultClass result_class(const Instruction& instruction, const RegisterSpan& span,
                         unsigned index) noexcept {
  using enum Opcode;
  if (span.kind == OperandKind::predicate) return ResultClass::predicate;
  if (span.kind == OperandKind::uniform_predicate) return ResultClass::uniform_predicate;
  switch (instruction.opcode) {
    case fadd:
    case ffma:
    case fmul:
      return ResultClass::float_product;
    case viadd:
      return ResultClass::integer_product;
    case imad:
      if (instruction.has(Modifier::wide)) {
        return index == 0 ? ResultClass::wide_low : ResultClass::wide_high;
      }
      return instruction.has(Modifier::hi) ? ResultClass::high_product
                                           : ResultClass::integer_product;
    case hfma2:
      return ResultClass::half;
    case cs2r:
      return ResultClass::special;
    case p2r:
      return ResultClass::from_predicates;
    case uldc:
      return ResultClass::uniform_constant;
    case umov:
      return ResultClass::uniform_move;
    case r2ur:
      return ResultClass::from_register;
    default:
      return span.kind == OperandKind::uniform ? ResultClass::uniform : ResultClass::logic;
  }
}

Uses uses_of(const Instruction& instruction) {
  Uses uses;
  const Guard& guard = instruction.guard;
  if (guard.predicate != k_true) {
    uses.push_back({{guard.uniform ? OperandKind::uniform_predicate : OperandKind::predicate,
                     guard.predicate, 1},
                    UseClass::guard});
  }
  for (std::size_t i = instruction.destinations; i < instruction.operands.size(); ++i) {
    append_uses(uses, registers_of(instruction.operands[i]), instruction,
                i - instruction.destinations);
  }
  append_uses(uses, masked_predicates_read(instruction), instruction, 0);
  return uses;
}

Queues queues_of(Opcode opcode) noexcept {
  using enum Opcode;
  switch (opcode) {
    case lds:
      return {InOrder::memory, InOrder::memory};
    case ld:
    case ldg:
    case ldl:
    case shfl:
    case st:
    case stg:
    case stl:
    case sts:
      return {InOrder::memory, InOrder::none};
    case f2i:
    case flo:
    case frnd:
    case i2f:
    case mufu:
    case popc:
      return {InOrder::special, InOrder::special};
    case s2r:
    case s2ur:
      return {InOrder::registers, InOrder::registers};
    default:
      return {};
  }
}

int least_distance(int arch, ResultClass result, UseClass use) noexcept {
  const std::size_t column = arch >= 90 ? 2 : arch >= 80 ? 1 : 0;
  return k_distances[column][static_cast<std::size_t>(result)][static_cast<std::size_t>(use)];
}

}  // namespace spjit::sass
