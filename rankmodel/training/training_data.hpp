#pragma once

/// @file
/// Groups as one matrix.

#include <cstddef>
#include <span>
#include <vector>

#include "rankmodel/training/rank_training.hpp"

namespace spjit {

/// Places at the top of a ranking that count while training: NDCG@10.
inline constexpr std::size_t k_ndcg_places = 10;

/// Throws InvalidArgument that names the group, or the option, that is wrong.
void check_training(std::span<const TrainingGroup> groups, const TrainingOptions& options);

/// Tiles of all groups, one group after the other.
struct TrainingData {
  std::size_t columns = 0;
  std::vector<float> rows{};  ///< [grades x columns]
  std::vector<int> grades{};
  std::vector<float> labels{};  ///< grades, or logarithms of times (RankObjective)
  std::vector<std::size_t> group_sizes{};
  std::vector<float> weights{};  ///< of the rows; empty: all the same
  std::vector<float> margin{};   ///< scores of the model to go on from; empty: none
};

/// The rows of the groups that are held out (`validation`), or of those that are not.
[[nodiscard]] TrainingData training_data(std::span<const TrainingGroup> groups,
                                         const TrainingOptions& options, bool validation);

/// The mean over the groups of NDCG@10; `scores` one for each row.
[[nodiscard]] double mean_ndcg(const TrainingData& data, std::span<const float> scores);

}  // namespace spjit
