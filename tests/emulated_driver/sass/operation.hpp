#pragma once

#include <cstdint>

#include "base/small_list.hpp"
#include "emulated_driver/sass/register_file.hpp"
#include "sass/latency.hpp"

namespace spjit::emulated {

class Warp;
struct SassOperation;

using SassHandler = void (*)(Warp&, const SassOperation&);

/// A register that is read, and how soon after which writers it may be.
struct SourceRegister {
  RegisterIndex index = 0;
  sass::UseClass use = sass::UseClass::logic;
};

struct ResultRegister {
  RegisterIndex index = 0;
  sass::ResultClass result = sass::ResultClass::logic;
};

/// An instruction made ready to be executed: its handler is the right one for opcode and modifiers.
struct SassOperation {
  SassHandler handler = nullptr;
  sass::Instruction instruction;
  SmallList<SourceRegister, 24> sources;  ///< the guard's predicate first
  SmallList<ResultRegister, 8> results;
  sass::Queues queues;
  /// Of a move: the register that it copies. Lanes that have not written it have not written the
  /// copy either: ptxas moves what only some lanes have, and only those use the copy.
  RegisterIndex copied = k_no_register;
  bool has_fixed_latency = true;
  bool moves = false;          ///< the handler says where the warp goes on
  bool reads_late = false;     ///< operands are read some time after the issue
  std::uint32_t function = 0;  ///< index
  std::uint32_t target = 0;    ///< of a branch: the place of the operation that it goes to
  std::uint32_t flags = 0;     ///< the handler's

  [[nodiscard]] const sass::Operand& at(std::size_t i) const noexcept {
    return instruction.operands[i];
  }
};

/// Chooses the handler of an instruction. Throws ProgramError for one that is not executed here.
[[nodiscard]] SassOperation make_operation(const sass::Instruction& instruction);

}  // namespace spjit::emulated
