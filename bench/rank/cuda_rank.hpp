#pragma once

/// @file
/// How well the prior and models rank tiles of GPUs, against times or simulated cycles.

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
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
  std::string kind;  ///< "measured", "modelled", "simulated": what `times` are
  CudaDeviceInfo limits;
  std::vector<CudaCandidate> tiles;
  std::vector<double> times;  ///< in any unit; infinite: it does not run
};

/// Tiles and times of samples. Throws Error for a group without times.
[[nodiscard]] JudgedTiles judged_samples(const CudaSampleGroup& group);

/// Tiles and cycles of a file of simulated cycles (bench/README.md, Simulated cycles), whose matrix
/// is below `matrices`. Throws Error for a file that is none, that says it is not simulated, or
/// with a tile that the rules do not leave on that device.
[[nodiscard]] JudgedTiles judged_simulation(const nlohmann::json& document,
                                            const std::filesystem::path& matrices,
                                            const CudaDeviceInfo& limits);

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
