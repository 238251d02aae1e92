#pragma once

/// @file
/// From source units to one cubin: every unit is compiled by itself, on all cores, then linked.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/cancel.hpp"
#include "runtime/cuda/cuda_libraries.hpp"

namespace spjit {

/// The language of a SourceUnit.
enum class SourceLanguage : std::uint8_t {
  cuda,  ///< CUDA C++17, for NVRTC or nvcc
  ptx,   ///< PTX, for nvJitLink or ptxas
};

/// Text that is compiled on its own. The first unit of a program holds the kernel; a program of one
/// unit is whole, the units of a longer one are relocatable and have to be linked.
struct SourceUnit {
  std::string name;  ///< e.g. "spjit_unit_3", for file names and logs
  SourceLanguage language = SourceLanguage::cuda;
  std::string text;
  std::string kernel;                     ///< the kernel it defines; empty in every unit but one
  std::vector<std::string> functions;     ///< the tile functions it defines, in order
  std::int64_t nonzeros = 0;              ///< FMAs a thread of all its functions together
  std::int64_t estimated_code_bytes = 0;  ///< machine code, see estimate_code_bytes()
  bool relocatable = false;               ///< has to be linked with the program's other units
};

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

/// Libraries that build these units: NVRTC for CUDA C++; nvJitLink for PTX and for more than one.
[[nodiscard]] CudaToolchainNeeds needs_of(std::span<const SourceUnit> units, int arch);

/// "nvJitLink 13.0", "NVRTC 13.0 + nvJitLink 13.0"
[[nodiscard]] std::string to_string(const CudaToolchain& toolchain);

/// NVRTC alone, for a text that is one unit of CUDA C++: what is left where there is no nvJitLink
/// (CUDA 11.8). Empty if there is no NVRTC either.
[[nodiscard]] CudaToolchain nvrtc_alone(int arch, const FoundCudaLibraries& found);

/// Note to the user that NVRTC compiled the kernel, for want of nvJitLink.
inline constexpr const char* k_no_nvjitlink_note =
    "there is no nvJitLink for this device: compiled undivided from CUDA C++";

/// A cancellation as given, or after `limit_ms` from now if that comes first; 0: no limit.
[[nodiscard]] Cancellation limited(Cancellation cancel, double limit_ms);

/// Compiles and links `units` to a cubin, an ELF file for the driver. They are compiled as
/// relocatable code if there are several or the only one says so. The cubin depends on nothing but
/// the units, their order, the arch and the toolchain. Time grows linearly with the units: 20000
/// multiply-adds for sm_90 in units of 2000 take 4.4 s of CPU as CUDA C++ and 2.3 s as PTX,
/// undivided CUDA C++ 20 s (NVRTC and nvJitLink 13.0, x86-64). Where nvJitLink cannot make
/// relocatable code, its PTX units are assembled one after another by the link.
///
/// Throws
/// - InvalidArgument for no units, or a toolchain that lacks what needs_of() says
/// - CompileFailed with the name and log of the first unit that does not compile, or with the
///   linker's log
/// - CompileCancelled once `options.cancel` is reached: NVRTC stops within a unit, nvJitLink only
///   between units. Nothing is left behind then.
[[nodiscard]] std::string build_cubin(std::span<const SourceUnit> units,
                                      const CudaToolchain& toolchain,
                                      const CudaBuildOptions& options);

}  // namespace spjit
