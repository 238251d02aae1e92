#pragma once

/// @file
/// The pipeline's CUDA branch: matrix -> groupings -> tile space -> ranking -> plan -> source units
/// -> cubin. Needs NVIDIA's compiler libraries only for the last step, and never a GPU.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/unrolled_cuda/cuda_artifact.hpp"
#include "kernels/unrolled_cuda/cuda_builder.hpp"
#include "kernels/unrolled_cuda/cuda_candidate.hpp"
#include "kernels/unrolled_cuda/cuda_tile.hpp"
#include "kernels/unrolled_cuda/register_prediction.hpp"
#include "plan/compile_context.hpp"
#include "proxy/search_trace.hpp"
#include "runtime/cuda/cuda_device_info.hpp"
#include "runtime/cuda/occupancy.hpp"
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
  /// The chosen candidate's kernel, if the search compiled it; else null.
  std::shared_ptr<const BuiltCuda> kernel;
};

/// Ranks, and in a mode that times searches on the GPU of this machine that the target stands for;
/// without one the first of the ranking is chosen, and the reason says `ranked, not timed`. Throws
/// CompileFailed if every tile is over the code budget, and what `watch` throws.
[[nodiscard]] CudaChoice choose_cuda_tile(const CsrMatrix& matrix, const CompileOptions& options,
                                          const CudaDeviceInfo& limits,
                                          const CompileContext& watch = {});

/// What a compilation did.
struct CudaTrace : CudaBuildTrace {
  CudaChoice choice;
};

struct CompiledCuda {
  CudaArtifact artifact;
  CudaProgram program;
  CudaTrace trace;
};

/// The kernel of a choice: the one that the search compiled, else made now. Throws as
/// build_cuda_kernel() does, and what `watch` throws.
[[nodiscard]] CompiledCuda compile_cuda_choice(CudaChoice choice, const CsrMatrix& matrix,
                                               const CompileOptions& options,
                                               const CudaDeviceInfo& limits,
                                               const CompileContext& watch = {});

/// Compiles a valid matrix with sorted rows. Throws InvalidArgument for a matrix without rows,
/// NotSupported without the libraries or for an arch they do not know, CompileFailed, and what
/// `watch` throws: Cancelled and DeadlineExceeded once a unit that is being compiled is done.
[[nodiscard]] CompiledCuda compile_cuda_kernel(const CsrMatrix& matrix,
                                               const CompileOptions& options,
                                               const CudaDeviceInfo& limits,
                                               const CompileContext& watch = {});

}  // namespace spjit
