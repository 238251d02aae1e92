#include "kernels/host/unrolled/host_ranking.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "kernels/host/unrolled/host_features.hpp"
#include "rankmodel/rank_model.hpp"

namespace spjit {
namespace {

std::vector<double> model_scores(const std::vector<TileCandidate>& candidates, const Workload& work,
                                 const HostDeviceInfo& limits, const RankModel& model) {
  std::vector<float> rows;
  rows.reserve(candidates.size() * model.features.size());
  for (const TileCandidate& candidate : candidates) {
    const std::vector<float> row = host_feature_row(candidate, work, limits);
    rows.insert(rows.end(), row.begin(), row.end());
  }
  return model.scores(rows);
}

std::vector<double> prior_scores(const std::vector<TileCandidate>& candidates, const Workload& work,
                                 const HostDeviceInfo& limits) {
  std::vector<double> scores;
  scores.reserve(candidates.size());
  for (const TileCandidate& candidate : candidates) {
    scores.push_back(-estimate_host_us(candidate, work, limits));
  }
  return scores;
}

}  // namespace

std::vector<RankedHostTile> rank_host_tiles(std::vector<TileCandidate> survivors,
                                            const Workload& work, const HostDeviceInfo& limits,
                                            const LoadedRankModel* model) {
  const std::vector<double> scores = model == nullptr
                                         ? prior_scores(survivors, work, limits)
                                         : model_scores(survivors, work, limits, model->model);
  std::vector<RankedHostTile> ranked;
  ranked.reserve(survivors.size());
  for (std::size_t i = 0; i < survivors.size(); ++i) {
    ranked.push_back({std::move(survivors[i]), scores[i]});
  }
  std::ranges::stable_sort(ranked, std::greater<>(), &RankedHostTile::score);
  return ranked;
}

}  // namespace spjit
