#pragma once

/// @file
/// The order in which tiles of a GPU are tried: by a rank model, else by the prior.

#include <cstddef>
#include <memory>
#include <vector>

#include "kernels/cuda/unrolled/cuda_candidate.hpp"
#include "runtime/cuda/cuda_device_info.hpp"
#include "spjit/options.hpp"

namespace spjit {

struct LoadedRankModel;

struct CudaRanking {
  std::vector<CudaCandidate> tiles;  ///< best first, each with its score
  /// The tile that the prior has first: the choice of mode instant, and where nothing is timed.
  std::size_t favourite = 0;
};

/// By the model's scores, equal ones in the prior's order; rank_by_prior() without a model.
[[nodiscard]] CudaRanking rank_cuda_tiles(std::vector<CudaCandidate> survivors,
                                          const CudaDeviceInfo& limits,
                                          const LoadedRankModel* model);

/// find_rank_model() for a GPU target; none comes with the library (docs/design/ranking.md).
[[nodiscard]] std::shared_ptr<const LoadedRankModel> cuda_rank_model(const CompileOptions& options);

}  // namespace spjit
