#pragma once

/// @file
/// Machine code as text, through LLVM's disassembler.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace spjit {

/// One decoded x86-64 instruction.
struct DisassembledInstruction {
  std::size_t offset = 0;           ///< [bytes] from the start of the code
  std::vector<std::uint8_t> bytes;  ///< its encoding
  std::string text;                 ///< AT&T syntax, single spaces; "(bad)" if no instruction
};

/// Decodes from the first byte to the last, one instruction after another. A byte that starts none
/// becomes one "(bad)" entry of one byte. Targets of jumps are relative to the next instruction.
/// Throws NotSupported in a build without LLVM.
[[nodiscard]] std::vector<DisassembledInstruction> disassemble(std::span<const std::uint8_t> code);

/// Listing with one line an instruction: offset in hexadecimal, bytes, text.
/// Throws NotSupported in a build without LLVM.
[[nodiscard]] std::string disassembly_listing(std::span<const std::uint8_t> code);

}  // namespace spjit
