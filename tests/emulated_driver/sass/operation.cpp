#include "emulated_driver/sass/operation.hpp"

#include <fmt/format.h>

#include "emulated_driver/sass/handlers.hpp"

namespace spjit::emulated {

namespace {

bool moves(sass::Opcode opcode) {
  using enum sass::Opcode;
  switch (opcode) {
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

bool is_zero(const sass::Operand& operand) {
  return operand.kind == sass::OperandKind::reg && operand.number == sass::k_zero_register;
}

/// The register that a MOV or an IMAD of zeros copies, or none.
RegisterIndex copied_by(const sass::Instruction& instruction) {
  const sass::Operand* source = nullptr;
  if (instruction.opcode == sass::Opcode::mov) source = &instruction.operands[1];
  const bool is_product =
      instruction.opcode == sass::Opcode::imad && !instruction.has(sass::Modifier::wide) &&
      !instruction.has(sass::Modifier::hi) && !instruction.has(sass::Modifier::x);
  if (is_product && is_zero(instruction.operands[1]) && is_zero(instruction.operands[2])) {
    source = &instruction.operands[3];
  }
  if (source == nullptr || source->kind != sass::OperandKind::reg || is_zero(*source)) {
    return k_no_register;
  }
  return source->negated || source->inverted ? k_no_register
                                             : register_index(source->kind, source->number);
}

SassHandler handler_of(const sass::Instruction& instruction) {
  for (const auto family : {float_handler, integer_handler, logic_handler, convert_handler,
                            move_handler, memory_handler, control_handler}) {
    if (const SassHandler handler = family(instruction)) return handler;
  }
  refuse_form(instruction);
}

}  // namespace

void refuse_form(const sass::Instruction& instruction) {
  throw ProgramError(FaultKind::invalid_cubin,
                     fmt::format("'{}' is not executed here", to_text(instruction)));
}

SassOperation make_operation(const sass::Instruction& instruction) {
  SassOperation operation;
  operation.instruction = instruction;
  operation.handler = handler_of(instruction);
  operation.moves = moves(instruction.opcode);
  operation.has_fixed_latency = has_fixed_latency(instruction);
  operation.copied = copied_by(instruction);
  operation.queues = sass::queues_of(instruction.opcode);
  // Stores have no result, but read as loads do.
  operation.reads_late =
      !operation.has_fixed_latency || operation.queues.of_sources == sass::InOrder::memory;
  for (const sass::Use& use : sass::uses_of(instruction)) {
    operation.sources.push_back({register_index(use.span.kind, use.span.first), use.use});
  }
  for (const sass::RegisterSpan& span : sass::results_of(instruction)) {
    for (unsigned i = 0; i < span.count; ++i) {
      operation.results.push_back(
          {register_index(span.kind, span.first + i), sass::result_class(instruction, span, i)});
    }
  }
  return operation;
}

}  // namespace spjit::emulated
