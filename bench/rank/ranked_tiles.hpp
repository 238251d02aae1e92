#pragma once

/// @file
/// Timed tiles of the host or of a GPU, and how well a way to rank them does.

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kernels/tuning/training/tuned_family.hpp"
#include "rankmodel/feature_schema.hpp"
#include "rankmodel/rank_metrics.hpp"
#include "rankmodel/rank_model.hpp"
#include "rankmodel/training/rank_training.hpp"

namespace spjit::bench {

/// Tiles of one matrix, n and device.
struct RankedTiles : SampledTiles {
  /// The first two parts of a real matrix's path, `dlmc/rn50`; empty of a synthetic one.
  std::string network = {};
  const FeatureSchema* schema = nullptr;
  TimeKind kind = TimeKind::measured;  ///< of the times
};

/// `tiles`: those of the line. Throws Error for a line without times.
[[nodiscard]] RankedTiles ranked_tiles(SampledTiles tiles, const SampleLine& line);

/// All groups of a file of `spjit collect`. Throws Error for a file of no samples, or without
/// times.
[[nodiscard]] std::vector<RankedTiles> read_ranked_tiles(const std::filesystem::path& file);

/// Scores of a group's tiles, larger is better.
using ScoreTiles = std::function<std::vector<double>(const RankedTiles&)>;

/// By the times that tiles of the same names took in `earlier`; others come last. What no way to
/// rank can be expected to beat: the best tile of one day is not that of another.
[[nodiscard]] ScoreTiles score_by_earlier(std::span<const RankedTiles> earlier);

/// Means over groups.
struct RankQuality {
  std::size_t groups = 0;
  double ndcg = 0;            ///< NDCG@10
  double pairs = 0;           ///< share of pairs in the right order
  double tau = 0;             ///< Kendall's, of scores and -times
  Percentiles first;          ///< regret of the first
  Percentiles best_of_ten;    ///< regret of the best of the first ten
  double within_percent = 0;  ///< share of groups whose best of ten is within 1 % of the best
};

/// Over the groups where two tiles ran. Throws InvalidArgument if there is none.
[[nodiscard]] RankQuality evaluate(std::span<const RankedTiles> groups, const ScoreTiles& score);

/// A model of these groups, which are of one schema, as `spjit train` makes it. Throws Error as
/// train_rank_model() does.
[[nodiscard]] RankModel train(std::span<const RankedTiles> groups, RankObjective objective);

}  // namespace spjit::bench
