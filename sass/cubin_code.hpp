#pragma once

/// @file
/// All that a cubin holds of its program: instructions, what is patched when it is loaded, constant
/// banks, variables, and the resources of each kernel.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cuda/cubin_info.hpp"
#include "sass/instruction.hpp"

namespace spjit::sass {

/// The part of an address that a relocation writes, and its place. NVIDIA does not publish the
/// numbers; R_CUDA_* are the names in its tools' messages, and what each patches follows from the
/// instruction that it is for.
enum class RelocationKind : std::uint8_t {
  address64,  ///< R_CUDA_64 (2): eight bytes
  low32,      ///< R_CUDA_ABS32_LO_32 (56): bits 0 to 31 into an instruction's bits from 32 on
  high32,     ///< R_CUDA_ABS32_HI_32 (57): bits 32 to 63, to the same place
  call47,     ///< R_CUDA_ABS47_34 (58): a call's target up to sm_89
  call55,     ///< R_CUDA_ABS55_16_34 (75): a call's target on sm_90
};

/// An address to be put in when the cubin is loaded.
struct Relocation {
  std::uint32_t offset = 0;  ///< into the section, bytes
  RelocationKind kind = RelocationKind::address64;
  std::string symbol;         ///< empty: the beginning of the section `section`
  std::uint32_t section = 0;  ///< where the symbol is, an index of the file; 0: another's
  std::int64_t value = 0;     ///< the symbol's offset in it, with the addend
};

/// A part of the code that has a name of its own, in the section of another.
struct Label {
  std::string name;
  std::uint32_t offset = 0;
};

/// The code of one function with the functions that are only called from it.
struct Function {
  std::string name;
  std::uint32_t section = 0;  ///< index in the file
  std::vector<Instruction> instructions;
  std::vector<Relocation> relocations;
  std::vector<Label> labels;  ///< ascending by offset; the function itself is the first

  /// The name and distance of what is at `offset`: "spjit_tile_3+0x40".
  [[nodiscard]] std::string place(std::uint32_t offset) const;
};

/// Constants that the file holds: c[bank][...] of one kernel, or of all.
struct ConstantBank {
  int bank = 0;
  std::string kernel;  ///< empty: of all
  std::uint32_t section = 0;
  std::vector<std::byte> bytes;
  std::vector<Relocation> relocations;
};

/// Global memory that the file asks for.
struct GlobalSection {
  std::uint32_t section = 0;
  std::uint64_t size = 0;
  std::vector<std::byte> bytes;  ///< its first contents; empty: zeros
};

struct GlobalVariable {
  std::string name;
  std::uint32_t section = 0;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

struct CubinCode {
  CubinInfo info;                   ///< architecture, kernels with their resources
  std::vector<Function> functions;  ///< in the order of their sections
  std::vector<ConstantBank> constants;
  std::vector<GlobalSection> globals;
  std::vector<GlobalVariable> variables;

  [[nodiscard]] int arch() const noexcept { return static_cast<int>(info.arch); }
  /// The function called `name`, or null.
  [[nodiscard]] const Function* find_function(std::string_view name) const noexcept;
};

/// Reads a cubin of sm_75 to sm_90. Throws NotSupported for another architecture, and Error for
/// bytes that are no cubin. Throws Error for an unknown instruction, with the function, the offset
/// and the 128 bits, and for an unknown relocation, with its number.
[[nodiscard]] CubinCode read_cubin_code(std::span<const std::byte> cubin);

}  // namespace spjit::sass
