#pragma once

/// @file
/// From source units to one cubin: every unit is compiled by itself, on all cores, then linked.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/cancel.hpp"
#include "kernels/unrolled_cuda/cuda_libraries.hpp"
#include "kernels/unrolled_cuda/cuda_units.hpp"

namespace spjit {

struct CudaBuildOptions {
  int arch = 0;     ///< 90 for sm_90
  int threads = 0;  ///< compiling at once; 0: one a CPU
  /// Registers a thread that every unit is held to. The launch bounds of the kernel do that only
  /// in its own unit: functions of others would be compiled with up to 255, and the linked kernel
  /// needs as many as the greediest function it calls. NVRTC lets a kernel's launch bounds come
  /// first: they should ask for the same. Linked code has 24 at least (measured on sm_90). None: no
  /// limit but the launch bounds.
  std::optional<std::int64_t> max_registers = {};
  Cancellation cancel = {};
};

/// What building these units takes: NVRTC for CUDA C++; nvJitLink for PTX and for more than one.
[[nodiscard]] CudaToolchainNeeds needs_of(std::span<const SourceUnit> units, int arch);

/// Compiles and links `units` to a cubin, an ELF file for the driver. They are compiled as
/// relocatable code if there are several or the only one says so. The cubin depends on nothing but
/// the units, their order, the arch and the toolchain. Time grows linearly with the units: 20000
/// multiply-adds for sm_90 in units of 2000 take 4.4 s of CPU as CUDA C++ and 2.3 s as PTX,
/// undivided CUDA C++ 20 s (NVRTC and nvJitLink 13.0, x86-64). Where nvJitLink cannot make
/// relocatable code, its PTX units are assembled one after another by the link.
///
/// Throws InvalidArgument for no units or a toolchain that lacks what needs_of() says,
/// CompileFailed with the unit's name and log for the first unit (in their order) that does not
/// compile, or with the linker's log; CompileCancelled once `options.cancel` is reached: NVRTC
/// stops within a unit, nvJitLink only between units. Nothing is left behind then.
[[nodiscard]] std::string build_cubin(std::span<const SourceUnit> units,
                                      const CudaToolchain& toolchain,
                                      const CudaBuildOptions& options);

}  // namespace spjit
