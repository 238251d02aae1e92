#pragma once

/// @file
/// The order in which tiles of a GPU are tried: by a rank model, else by the prior.

#include <cstddef>
#include <memory>
#include <vector>

#include "kernels/cuda/unrolled/cuda_candidate.hpp"
#include "runtime/cuda/cuda_device_info.hpp"
#include "spjit/options.hpp"
#include "spjit/problem.hpp"

namespace spjit {

struct LoadedRankModel;

struct CudaRanking {
  std::vector<CudaCandidate> tiles;  ///< best first, each with its score
  /// The choice of mode instant, and where nothing is timed: what the model has first if it
  /// decides, else what the prior has.
  std::size_t favourite = 0;
  bool is_decided_by_model = false;
  const LoadedRankModel* model = nullptr;  ///< that the tiles are ranked by; null: the prior
};

/// A model is for these of its problems.
struct RankedProblem {
  bool is_plain;     ///< is_plain_product()
  bool is_searched;  ///< the mode is one that times or models, not `instant`
};

/// By the model's scores, equal ones in the prior's order; rank_by_prior() without a model, and
/// where nothing is searched and the model does not decide. It decides about problems like those
/// that it was trained on: its times were measured, its provenance says ranges, and the problem is
/// within them and plain.
[[nodiscard]] CudaRanking rank_cuda_tiles(std::vector<CudaCandidate> survivors,
                                          const CudaDeviceInfo& limits,
                                          const LoadedRankModel* model, const RankedProblem& of);

/// Whether the samples of shipped models could be of it: fp32, B and C by rows, values and n fixed.
[[nodiscard]] bool is_plain_product(const Problem& problem);

/// find_rank_model() for a GPU target. One comes with the library for sm_90
/// (docs/design/ranking.md).
[[nodiscard]] std::shared_ptr<const LoadedRankModel> cuda_rank_model(const CompileOptions& options);

}  // namespace spjit
