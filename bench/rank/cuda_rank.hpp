#pragma once

/// @file
/// How well the prior and models rank tiles of GPUs, against times.

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cuda/unrolled/cuda_candidate.hpp"
#include "kernels/cuda/unrolled/cuda_samples.hpp"
#include "rankmodel/rank_metrics.hpp"
#include "rankmodel/rank_model.hpp"
#include "runtime/cuda/cuda_device_info.hpp"

namespace spjit::bench {

/// Tiles of one matrix, n and device.
struct JudgedTiles {
  std::string name;
  std::string kind;  ///< "measured" or "modelled": what `times` are
  CudaDeviceInfo limits;
  std::vector<CudaCandidate> tiles;
  std::vector<double> times;  ///< in any unit; infinite: it does not run
};

/// Tiles and times of samples. Throws Error for a group without times.
[[nodiscard]] JudgedTiles judged_samples(const CudaSampleGroup& group);

/// Scores of tiles, larger is better.
using ScoreCudaTiles = std::function<std::vector<double>(const JudgedTiles&)>;

[[nodiscard]] std::vector<double> score_by_cuda_prior(const JudgedTiles& judged);
[[nodiscard]] std::vector<double> score_by_cuda_model(const JudgedTiles& judged,
                                                      const RankModel& model);

/// Over groups.
struct CudaRankQuality {
  Percentiles first;        ///< regret of the first
  Percentiles best_of_ten;  ///< regret of the best of ten
  double tau = 0;           ///< mean of Kendall's, of scores and -times
};

/// Throws InvalidArgument for no groups.
[[nodiscard]] CudaRankQuality evaluate_cuda(std::span<const JudgedTiles> groups,
                                            const ScoreCudaTiles& score);

}  // namespace spjit::bench
