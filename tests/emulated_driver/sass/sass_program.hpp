#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emulated_driver/memory.hpp"
#include "emulated_driver/sass/constant_banks.hpp"
#include "emulated_driver/sass/operation.hpp"
#include "sass/cubin_code.hpp"

namespace spjit::emulated {

/// Where code lies: no address of data.
inline constexpr Address k_code_base = Address{1} << 40;

/// A section of code: its operations lie one after another among those of the program.
struct SassFunction {
  std::string name;
  std::uint32_t first = 0;  ///< of its operations
  std::uint32_t count = 0;
  std::vector<sass::Label> labels;
};

struct SassKernel {
  CubinKernel info;
  std::uint32_t function = 0;  ///< index
  ConstantBanks constants;     ///< without bank 0
};

/// A variable in global memory.
struct SassVariable {
  std::string name;
  Address address = 0;
  std::uint64_t size = 0;
};

/// A cubin loaded into a device: operations in one list, addresses patched in.
struct SassProgram {
  int arch = 0;
  std::vector<SassOperation> operations;
  std::vector<SassFunction> functions;
  std::vector<SassKernel> kernels;
  std::vector<SassVariable> variables;
  std::vector<OwnedAllocation> globals;

  /// "spjit_tile_3+0x40" of an operation.
  [[nodiscard]] std::string place_text(std::uint32_t operation) const;
  [[nodiscard]] Address address_of(std::uint32_t operation) const {
    return k_code_base + Address{operation} * sass::k_instruction_bytes;
  }
  /// The operation at an address. Throws ProgramError if none is there.
  [[nodiscard]] std::uint32_t operation_at(Address address) const;
};

/// Loads a cubin for a device of `arch`. Variables are allocated in `memory`, which must outlive
/// the program. Throws ProgramError for what cannot be loaded: another architecture, relocations or
/// instructions that are not known or not executed here, registers beyond the kernel's.
[[nodiscard]] SassProgram load_cubin(std::span<const std::byte> cubin, int arch,
                                     GlobalMemory& memory);

}  // namespace spjit::emulated
