#pragma once

/// @file
/// Training of ranking models with XGBoost. One thread, seeded: the same groups and options give
/// the same model to the byte (with the same XGBoost).

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rankmodel/rank_model.hpp"

namespace spjit {

/// One problem: its tiles, which are compared only with each other.
struct TrainingGroup {
  std::string name;
  std::vector<float> rows{};  ///< [tiles x columns]; NaN: not known
  std::size_t columns = 0;
  std::vector<double> times_us{};  ///< of each tile; infinite: it does not run
};

enum class RankObjective : std::uint8_t {
  /// XGBoost's `rank:ndcg`: LambdaMART on sampled pairs.
  ndcg,
  /// LambdaMART on all pairs that a swap of which changes NDCG@10.
  truncated,
  /// Squared error of log2(best time / time), at least -k_slowest_log2: scores are predictions, and
  /// compare between groups, too. The provenance has "ranges": {feature: [least, most]}.
  relative_time,
};

/// Slower ones count as this slow: 2^1.5 of the best time.
inline constexpr double k_slowest_log2 = 1.5;

/// "rank:ndcg", "truncated" or "relative-time".
[[nodiscard]] const char* to_string(RankObjective objective);

/// The defaults learn made-up data well with either objective; `truncated` learned it better.
struct TrainingOptions {
  std::string name = "rank-model";  ///< these four go into the model
  std::string schema{};
  int schema_version = 0;
  std::vector<std::string> features{};  ///< as many as columns

  RankObjective objective = RankObjective::ndcg;
  std::uint32_t seed = 1;
  /// Trees, at most: with these, scoring 1000 tiles takes less than 1 ms.
  int rounds = 150;
  int depth = 6;
  double learning_rate = 0.2;
  double min_child_weight = 0.1;  ///< LambdaMART's second derivatives are small
  double l2 = 0.1;
  double subsample = 1;  ///< of the rows, for each tree
  double colsample = 1;  ///< of the features, for each tree
  int top_grade = 15;    ///< of relevance_grades
  /// With `relative_time` a row that takes x times as long as the best weighs slower_weight to the
  /// power of log2 x. Above 0, at most 1.
  double slower_weight = 1;

  /// Groups held out, to stop where their NDCG@10 is best: those named, or about this share by a
  /// hash of name and seed, which does not depend on the other groups. None held out: all rounds.
  double validation_share = 0.2;
  std::vector<std::string> validation_groups{};
  int patience = 60;  ///< rounds without a better one before it stops; the first trees tie much
  /// Trains once more, on all groups, for as many rounds as were best for those held out.
  bool refit = false;

  /// Goes on from this model: its trees come first, new ones correct them; none, if the held out
  /// groups are ranked best without. Same schema and features. It lives as long as the call.
  const RankModel* init = nullptr;
};

/// Throws InvalidArgument for groups or options that fit no training, Error with XGBoost's words
/// where that fails.
[[nodiscard]] RankModel train_rank_model(std::span<const TrainingGroup> groups,
                                         const TrainingOptions& options);

/// Whether a group is held out under these options.
[[nodiscard]] bool is_validation_group(const std::string& name, const TrainingOptions& options);

}  // namespace spjit
