#pragma once

/// @file
/// Reads facts about its kernels from a cubin, an ELF file, without cuobjdump and driver.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace spjit {

/// A kernel's parameter in its constant bank 0.
struct CubinParameter {
  std::int64_t offset = 0;  ///< bytes from the first one
  std::int64_t size = 0;    ///< bytes
};

/// One kernel (`__global__` function) of a cubin.
struct CubinKernel {
  std::string name;            ///< as the driver looks it up
  std::int64_t registers = 0;  ///< a thread, 32-bit; of a linked cubin with what it calls
  /// Shared memory of a block that is laid out at compile time, without the driver's reserve.
  std::int64_t static_shared_bytes = 0;
  std::int64_t frame_bytes = 0;  ///< the kernel's own stack frame in local memory, a thread
  /// Local memory of a thread with what the kernel calls. Code without local arrays, which is all
  /// that spjit emits, has a stack only for spilled and saved registers, and for arguments of calls
  /// that no registers hold.
  std::int64_t stack_bytes = 0;
  std::int64_t max_threads = 0;      ///< a block, from launch bounds; 0: not bounded
  std::int64_t parameter_bytes = 0;  ///< the kernel's parameters
  /// Where they begin in constant bank 0: 0x160 on sm_75 and sm_80, 0x210 on sm_90 (CUDA 13).
  std::int64_t parameter_base = 0;
  std::vector<CubinParameter> parameters;  ///< in their order
  std::int64_t constant_bytes = 0;         ///< its own constant banks, parameters included
  std::int64_t code_bytes = 0;  ///< its own instructions with padding, without what it calls
};

/// A device function that was not inlined.
struct CubinFunction {
  std::string name;
  std::int64_t registers = 0;    ///< a thread, 32-bit
  std::int64_t frame_bytes = 0;  ///< its own stack frame in local memory, a thread
};

struct CubinInfo {
  std::int64_t arch = 0;             ///< 90 is sm_90
  bool relocatable = false;          ///< to be linked; stacks then leave out what is called
  std::vector<CubinKernel> kernels;  ///< in the order of the symbol table
  std::vector<CubinFunction> functions;
  std::int64_t code_bytes = 0;  ///< all instructions

  /// The kernel called `name`, or null.
  [[nodiscard]] const CubinKernel* find_kernel(std::string_view name) const noexcept;
};

/// Reads a cubin of CUDA 11.8 - 13 (ELF ABI versions 7 and 8). Throws Error that says what is wrong
/// for anything else: every offset, size, index and string is checked before it is used, so hostile
/// bytes never crash it. Values inside the tables (registers, sizes) are the file's own word.
[[nodiscard]] CubinInfo read_cubin_info(std::span<const std::byte> cubin);

}  // namespace spjit
