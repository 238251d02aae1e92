#pragma once

/// @file
/// From LLVM IR to x86-64 machine code in memory. Only in builds with LLVM (SPJIT_HAVE_LLVM).

#include <llvm/IR/Module.h>

#include <cstdint>
#include <string>
#include <vector>

namespace spjit {

/// Makes LLVM's x86 backend and disassembler known to this process, once; thread-safe. Everything
/// that uses LLVM calls it first.
void initialize_llvm();

/// Machine code that runs wherever it lies.
struct PositionIndependentText {
  std::vector<std::uint8_t> bytes;
  std::vector<std::int64_t> offsets;  ///< of the functions asked for, in their order
};

/// Compiles a module for baseline x86-64 (SSE2) and takes its code out of the object file.
/// `functions` are names of functions that the module defines. The code generator keeps the order
/// of the instructions as they are in the IR, so register pressure is what the IR's order makes it,
/// and its time is linear in the instructions.
/// Throws CompileFailed, with LLVM's log, if LLVM reports an error or the code needs anything
/// besides itself: a relocation, a constant pool or data.
[[nodiscard]] PositionIndependentText compile_to_text(llvm::Module& module,
                                                      const std::vector<std::string>& functions);

}  // namespace spjit
