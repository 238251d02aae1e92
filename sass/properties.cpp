#include "sass/instruction.hpp"

namespace spjit::sass {

bool has_operand_cache(Opcode opcode) noexcept {
  using enum Opcode;
  switch (opcode) {
    case fadd:
    case ffma:
    case fmnmx:
    case fmul:
    case fsel:
    case fsetp:
    case i2fp:
    case iabs:
    case iadd3:
    case imad:
    case imnmx:
    case isetp:
    case lea:
    case lop3:
    case mov:
    case p2r:
    case prmt:
    case r2p:
    case r2ur:
    case sel:
    case shf:
    case viadd:
    case viaddmnmx:
    case vimnmx:
    case vimnmx3:
      return true;
    default:
      return false;
  }
}

Scoreboards scoreboards_of(const Instruction& instruction) noexcept {
  using enum Opcode;
  switch (instruction.opcode) {
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
    case yield:
      return {.of_results = false, .of_sources = false};
    case bar:
    case st:
    case stg:
    case stl:
    case sts:
      return {.of_results = false, .of_sources = true};
    case bmov: {  // to a register, or to a convergence barrier
      const bool is_from = instruction.operands[0].kind == OperandKind::reg;
      return {.of_results = is_from, .of_sources = !is_from};
    }
    default:
      return {};
  }
}

}  // namespace spjit::sass
