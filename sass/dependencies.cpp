#include "sass/dependencies.hpp"

namespace spjit::sass {
namespace {

void append(RegisterSpans& spans, OperandKind kind, std::uint8_t first, std::uint8_t count) {
  const std::uint8_t fixed = kind == OperandKind::reg       ? k_zero_register
                             : kind == OperandKind::uniform ? k_zero_uniform
                                                            : k_true;
  if (first != fixed) spans.push_back({kind, first, count});
}

void append_base(RegisterSpans& spans, const Operand& operand) {
  const bool is_pair = operand.form == AddressForm::wide;
  append(spans, OperandKind::reg, operand.number, is_pair ? 2 : 1);
  const bool is_wide = operand.form != AddressForm::narrow;
  append(spans, OperandKind::uniform, operand.uniform, is_wide ? 2 : 1);
  append(spans, OperandKind::uniform, operand.descriptor, 2);
}

/// The predicates that a mask of P2R or R2P names.
void append_predicates(RegisterSpans& spans, std::int64_t mask) {
  for (std::uint8_t i = 0; i < k_true; ++i) {
    if ((mask >> i & 1) != 0) spans.push_back({OperandKind::predicate, i, 1});
  }
}

void append_operand(RegisterSpans& spans, const Operand& operand) {
  switch (operand.kind) {
    case OperandKind::reg:
    case OperandKind::uniform:
      append(spans, operand.kind, operand.number, operand.registers);
      break;
    case OperandKind::predicate:
    case OperandKind::uniform_predicate:
      append(spans, operand.kind, operand.number, 1);
      break;
    case OperandKind::constant:
    case OperandKind::memory:
      append_base(spans, operand);
      break;
    default:
      break;
  }
}

}  // namespace

RegisterSpans registers_of(const Operand& operand) {
  RegisterSpans spans;
  append_operand(spans, operand);
  return spans;
}

RegisterSpans masked_predicates_read(const Instruction& instruction) {
  RegisterSpans spans;
  if (instruction.opcode == Opcode::p2r) append_predicates(spans, instruction.operands[3].value);
  return spans;
}

RegisterSpans sources_of(const Instruction& instruction) {
  RegisterSpans spans;
  const Guard& guard = instruction.guard;
  append(spans, guard.uniform ? OperandKind::uniform_predicate : OperandKind::predicate,
         guard.predicate, 1);
  for (std::size_t i = instruction.destinations; i < instruction.operands.size(); ++i) {
    append_operand(spans, instruction.operands[i]);
  }
  for (const RegisterSpan& span : masked_predicates_read(instruction)) spans.push_back(span);
  return spans;
}

RegisterSpans results_of(const Instruction& instruction) {
  RegisterSpans spans;
  for (std::size_t i = 0; i < instruction.destinations; ++i) {
    append_operand(spans, instruction.operands[i]);
  }
  if (instruction.opcode == Opcode::r2p) append_predicates(spans, instruction.operands[2].value);
  return spans;
}

bool has_fixed_latency(const Instruction& instruction) noexcept {
  using enum Opcode;
  switch (instruction.opcode) {
    case bmov:
    case f2i:
    case fchk:
    case flo:
    case frnd:
    case i2f:
    case ld:
    case ldc:
    case ldg:
    case ldl:
    case lds:
    case mufu:
    case popc:
    case s2r:
    case s2ur:
    case shfl:
      return false;
    case r2ur:  // sm_90's is fixed
      return (instruction.encoding[0] & 0xfff) == 0x2ca;
    default:
      return true;
  }
}

}  // namespace spjit::sass
