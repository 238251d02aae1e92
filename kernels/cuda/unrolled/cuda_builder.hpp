#pragma once

/// @file
/// From one candidate to its kernel.

#include <cstdint>
#include <string>
#include <vector>

#include "base/cancel.hpp"
#include "kernels/cuda/unrolled/cuda_artifact.hpp"
#include "kernels/cuda/unrolled/cuda_candidate.hpp"
#include "plan/kernel_plan.hpp"
#include "runtime/cuda/cuda_device_info.hpp"
#include "runtime/cuda/occupancy.hpp"
#include "spjit/error.hpp"
#include "spjit/options.hpp"

namespace spjit {

/// One try at a cubin: a cap on registers that spills is followed by a looser one.
struct CudaAttempt {
  std::int64_t min_blocks = 1;     ///< blocks an SM shall hold, in the kernel's launch bounds
  std::int64_t register_cap = 0;   ///< a thread
  std::int64_t registers = 0;      ///< a thread, from the cubin
  std::int64_t spilled_bytes = 0;  ///< a thread, from the cubin
  double build_ms = 0;
};

/// The result of a build.
struct CudaBuildTrace {
  std::vector<CudaAttempt> attempts;  ///< the last one was kept
  std::string compiled_from;          ///< "ptx" or "cuda"
  std::string toolchain;              ///< "nvJitLink 13.0", "NVRTC 13.0 + nvJitLink 13.0"
  std::int64_t units = 0;
  std::int64_t code_bytes = 0;  ///< instructions in the cubin
  Occupancy occupancy;          ///< with the real registers
  double emit_ms = 0;           ///< both texts
  std::string note;             ///< for the user: spills, a missing library; or empty
};

/// Bytes a thread that code of values at run time may spill before it is built with fewer blocks.
/// Registers of their loads come in fours, and ptxas 13.0 issues loads as early as it can. So it
/// spills some at nearly every cap. Up to 424 at the predicted one, over sm_75 to sm_120 and 16 to
/// 64 rows of 25 % entries; of real layers' instructions 1 to 2 % (docs/results/gpu.md).
inline constexpr std::int64_t k_tolerated_spill_bytes = 512;

/// A kernel that this family does not build, though it is no failure: another may take it.
class Declined : public CompileFailed {
 public:
  using CompileFailed::CompileFailed;
};

struct BuiltCuda {
  CudaArtifact artifact;
  UnrolledProgram program;
  CudaBuildTrace trace;
};

/// Emits and builds a candidate's kernel, again with fewer blocks an SM as long as it spills (more
/// than is tolerated) and that allows more registers. `plan` is at the candidate's m1, k in one
/// block. Throws NotSupported without the libraries or for an arch they do not know, CompileFailed,
/// what `cancel` throws once it is reached, CompileCancelled after `compile_limit_ms`.
[[nodiscard]] BuiltCuda build_cuda_kernel(const KernelPlan& plan, const CudaCandidate& candidate,
                                          const CompileOptions& options,
                                          const CudaDeviceInfo& limits,
                                          const Cancellation& cancel = {});

}  // namespace spjit
