#pragma once

/// @file
/// How well ways to rank tiles do on measured ones.

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/host/unrolled/host_samples.hpp"
#include "rankmodel/rank_metrics.hpp"
#include "rankmodel/rank_model.hpp"
#include "rankmodel/training/rank_training.hpp"

namespace spjit::bench {

/// Which network a real matrix is of: the first two parts of its file's path, `dlmc/rn50`; all
/// matrices of a network are held out together. Empty for a synthetic one.
[[nodiscard]] std::string network_of(const HostSampleGroup& group);

/// Microseconds of a group's tiles; infinite for one that did not run.
[[nodiscard]] std::vector<double> times_of(const HostSampleGroup& group);

/// Scores of a group's tiles, larger is better.
using ScoreTiles = std::function<std::vector<double>(const HostSampleGroup&)>;

/// Means over groups; regrets with p95 and worst.
struct RankQuality {
  std::size_t groups = 0;
  double ndcg = 0;  ///< NDCG@10
  double pair_accuracy = 0;
  double tau = 0;                 ///< Kendall's, of scores and -times
  Percentiles top1, top5, top10;  ///< regrets
  double found = 0;               ///< share of groups whose best of ten is within 1 % of the best
  double him = 0;  ///< highest impact of misclassification, classes by log2 of the rows
};

/// A way that ranks nothing but names one tile: `names` gives its place.
using NameTile = std::function<std::size_t(const HostSampleGroup&)>;

[[nodiscard]] RankQuality evaluate(std::span<const HostSampleGroup> groups,
                                   const ScoreTiles& score);

/// As evaluate(), for a way that names one tile: only top1 and him.
[[nodiscard]] RankQuality evaluate_named(std::span<const HostSampleGroup> groups,
                                         const NameTile& name);

// Ways.

/// Random order: the mean over some seeded orders.
[[nodiscard]] RankQuality evaluate_random(std::span<const HostSampleGroup> groups);
/// Fewest vector loads of B and of weights.
[[nodiscard]] std::vector<double> score_by_loads(const HostSampleGroup& group);
[[nodiscard]] std::vector<double> score_by_prior(const HostSampleGroup& group);
[[nodiscard]] std::vector<double> score_by_model(const HostSampleGroup& group,
                                                 const RankModel& model);
/// By the times that the same tiles of the same matrix took in `earlier`; a tile that is not there
/// comes last. What no way to rank can be expected to beat: the best tile of one day is not that of
/// another.
[[nodiscard]] std::vector<double> score_by_earlier(const HostSampleGroup& group,
                                                   std::span<const HostSampleGroup> earlier);
/// The measured rules of instant mode.
[[nodiscard]] std::size_t name_by_rules(const HostSampleGroup& group);

/// A model of these samples, named `name`; `change` may set options.
[[nodiscard]] RankModel train(std::span<const HostSampleGroup> groups, const std::string& name,
                              const std::function<void(TrainingOptions&)>& change = {});

/// Loss of NDCG@10 when a feature's values are shuffled among the tiles of each group: what the
/// order inside a group owes to it. By feature, of a model and groups it was not trained on.
[[nodiscard]] std::vector<double> importance_by_shuffling(std::span<const HostSampleGroup> groups,
                                                          const RankModel& model);

[[nodiscard]] nlohmann::json to_json(const RankQuality& quality);

}  // namespace spjit::bench
