#pragma once

/// @file
/// The pipeline's CUDA branch: matrix -> groupings -> tile space -> ranking -> plan -> source units
/// -> cubin. Needs NVIDIA's compiler libraries only for the last step, and never a GPU.

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/compile_watch.hpp"
#include "compiler/cuda_artifact.hpp"
#include "compiler/cuda_candidate.hpp"
#include "compiler/cuda_limits.hpp"
#include "compiler/cuda_tile.hpp"
#include "compiler/occupancy.hpp"
#include "compiler/register_prediction.hpp"
#include "compiler/search_trace.hpp"
#include "spjit/compiler.hpp"
#include "spjit/matrix.hpp"

namespace spjit {

/// Which tile a matrix gets on a device, and what else was looked at.
struct CudaChoice {
  CudaCandidate chosen;
  std::string reason;
  CudaTileSpace space;
  std::vector<CudaCandidate> ranked;  ///< survivors, best first
  RowGrouping grouping;               ///< at the chosen M1
  double group_ms = 0;                ///< groupings and tile space
  /// Entry i is that of ranked[i]; no entries where nothing was searched.
  SearchTrace search;
};

/// Ranks, and in a mode that times searches on the GPU of this machine that the target stands for;
/// without one the first of the ranking is chosen, and the reason says `ranked, not timed`. Throws
/// CompileFailed if every tile is over the code budget, and what `watch` throws.
[[nodiscard]] CudaChoice choose_cuda_tile(const CsrMatrix& matrix, const CompileOptions& options,
                                          const CudaLimits& limits, const CompileWatch& watch = {});

/// One try at a cubin: a cap on registers that spills is followed by a looser one.
struct CudaAttempt {
  std::int64_t min_blocks = 1;     ///< blocks an SM shall hold, in the kernel's launch bounds
  std::int64_t register_cap = 0;   ///< a thread
  std::int64_t registers = 0;      ///< a thread, from the cubin
  std::int64_t spilled_bytes = 0;  ///< a thread, from the cubin
  double build_ms = 0;
};

/// What a compilation did.
struct CudaTrace {
  CudaChoice choice;
  std::vector<CudaAttempt> attempts;  ///< the last one was kept
  std::string compiled_from;          ///< "ptx" or "cuda"
  std::string toolchain;              ///< "nvJitLink 13.0", "NVRTC 13.0 + nvJitLink 13.0"
  std::int64_t units = 0;
  std::int64_t code_bytes = 0;  ///< instructions in the cubin
  Occupancy occupancy;          ///< with the real registers
  double emit_ms = 0;           ///< plan and both texts
  std::string note;             ///< for the user: spills, a missing library; or empty
};

struct CompiledCuda {
  CudaArtifact artifact;
  CudaProgram program;
  CudaTrace trace;
};

/// Compiles a valid matrix with sorted rows. Throws InvalidArgument for a matrix without rows,
/// NotSupported without the libraries or for an arch they do not know, CompileFailed, and what
/// `watch` throws: Cancelled and DeadlineExceeded once a unit that is being compiled is done.
[[nodiscard]] CompiledCuda compile_cuda_kernel(const CsrMatrix& matrix,
                                               const CompileOptions& options,
                                               const CudaLimits& limits,
                                               const CompileWatch& watch = {});

}  // namespace spjit
