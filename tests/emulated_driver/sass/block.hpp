#pragma once

#include <array>
#include <cstdint>

#include "emulated_driver/machine.hpp"
#include "emulated_driver/memory.hpp"
#include "emulated_driver/sass/constant_banks.hpp"
#include "emulated_driver/sass/observer.hpp"
#include "emulated_driver/sass/sass_program.hpp"

namespace spjit::emulated {

/// Where a thread's stack ends: its frames lie below.
inline constexpr std::uint64_t k_stack_end = 0xfff000;
/// The descriptor of global memory to loads and stores, in constant bank 0.
inline constexpr std::uint64_t k_memory_descriptor = 0x00be'ef00'0000'd35c;

/// State that all threads of a launch share, and those of the block that is being run.
struct SassBlock {
  const SassProgram* program = nullptr;
  const SassKernel* kernel = nullptr;
  LaunchShape shape;
  GlobalMemory* memory = nullptr;
  const ConstantBanks* constants = nullptr;
  LaunchObserver* observer = nullptr;
  std::array<std::uint32_t, 3> index = {};
  /// Offsets below `shared_begin` are the driver's.
  ShadowedBytes shared;
  std::uint64_t shared_begin = 0;
  std::uint32_t threads = 0;
};

}  // namespace spjit::emulated
