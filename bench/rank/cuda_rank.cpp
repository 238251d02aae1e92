#include "bench/rank/cuda_rank.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "bench/rank_agreement.hpp"
#include "kernels/cuda/unrolled/cuda_features.hpp"
#include "kernels/cuda/unrolled/cuda_prior.hpp"
#include "spjit/error.hpp"

namespace spjit::bench {
namespace {

constexpr std::size_t k_ten = 10;
/// Kendall's tau takes no infinite times: later than all others.
constexpr double k_never = 1e30;

}  // namespace

JudgedTiles judged_samples(const CudaSampleGroup& group) {
  if (group.times == TimeKind::none) throw Error(group.name + ": tiles without times");
  JudgedTiles judged{group.name, std::string(to_string(group.times)), group.limits, {}, {}};
  for (const CudaSample& sample : group.samples) {
    judged.tiles.push_back(sample.candidate);
    judged.times.push_back(sample.us > 0 ? sample.us : std::numeric_limits<double>::infinity());
  }
  return judged;
}

std::vector<double> score_by_cuda_prior(const JudgedTiles& judged) {
  std::vector<double> scores;
  scores.reserve(judged.tiles.size());
  for (const CudaCandidate& tile : judged.tiles) {
    scores.push_back(-estimate_cuda_cycles(tile, judged.limits));
  }
  return scores;
}

std::vector<double> score_by_cuda_model(const JudgedTiles& judged, const RankModel& model) {
  return model.scores(cuda_feature_rows(judged.tiles, judged.limits));
}

CudaRankQuality evaluate_cuda(std::span<const JudgedTiles> groups, const ScoreCudaTiles& score) {
  std::vector<double> first;
  std::vector<double> best_of_ten;
  CudaRankQuality quality;
  for (const JudgedTiles& group : groups) {
    const std::vector<double> scores = score(group);
    first.push_back(regret_of_top(1, scores, group.times));
    best_of_ten.push_back(regret_of_top(k_ten, scores, group.times));
    std::vector<double> speeds;
    speeds.reserve(group.times.size());
    for (const double time : group.times) speeds.push_back(-std::min(time, k_never));
    quality.tau += kendall_tau(scores, speeds) / static_cast<double>(groups.size());
  }
  quality.first = percentiles(first);
  quality.best_of_ten = percentiles(best_of_ten);
  return quality;
}

}  // namespace spjit::bench
