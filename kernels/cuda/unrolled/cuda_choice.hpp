#pragma once

/// @file
/// Which tile a problem gets on a GPU, and what else was looked at. Needs NVIDIA's compiler
/// libraries only to build, and never a GPU.

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/unrolled/cuda_builder.hpp"
#include "kernels/cuda/unrolled/cuda_candidate.hpp"
#include "kernels/cuda/unrolled/cuda_tunable.hpp"
#include "kernels/kernel_family.hpp"
#include "reorder/row_grouping.hpp"

namespace spjit {

/// Changes whenever a problem may get another tile or cap: part of the cache key.
inline constexpr int k_cuda_choice_version = 7;

/// The course of a choice, for the record and for `spjit explain`.
struct CudaChoice {
  CudaCandidate chosen;
  std::string reason;
  CudaTileSpace space;
  std::vector<CudaCandidate> ranked;  ///< survivors, best first
  std::size_t favourite = 0;          ///< of them: the choice where nothing is timed
  bool is_decided_by_model = false;   ///< the favourite; else by the prior
  std::string ranked_by;              ///< "prior", a model's name and label
  RowGrouping grouping;               ///< at the chosen M1
  double group_ms = 0;                ///< groupings and tile space
  /// Entry i is that of ranked[i]; no entries where nothing was searched.
  SearchTrace search;
  std::shared_ptr<const BuiltCuda> built;  ///< the chosen kernel, if the search compiled it
};

/// Ranks, and in a mode that times searches on the GPU of this machine that the target stands for.
/// Without one the clock chooses in mode `ranked` (cuda_modelled.hpp), and the reason says
/// `modelled, not timed`. In other modes, and where the clock or a library cannot do that, the
/// favourite of rank_cuda_tiles() is chosen; mode `instant` ranks by a model only where it decides.
/// Then the reason says `ranked, not timed`. Throws Declined if every tile is over the code budget
/// or none fits, and what the context throws.
[[nodiscard]] CudaChoice choose_cuda_tile(const BuildRequest& request);

/// A compiled choice.
struct CompiledCuda : BuiltCuda {
  CudaChoice choice;
};

/// Compiles the choice, unless the search has. Throws NotSupported without the libraries or for an
/// arch they do not know, CompileFailed, Declined, and what the context throws: Cancelled and
/// DeadlineExceeded once a unit that is being compiled is done.
[[nodiscard]] CompiledCuda compile_cuda_choice(CudaChoice choice, const BuildRequest& request);

/// Chooses and compiles. Throws as the two, and InvalidArgument for a matrix without rows.
[[nodiscard]] CompiledCuda compile_cuda_kernel(const BuildRequest& request);

}  // namespace spjit
