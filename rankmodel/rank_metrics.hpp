#pragma once

/// @file
/// How well one ranking agrees with another. A score says which tile should be fast: the greater,
/// the faster. A time is in any unit, positive; infinity is a tile that does not run.

#include <cstddef>
#include <span>
#include <vector>

namespace spjit {

/// The best score's place first; of equal scores the first place first.
[[nodiscard]] std::vector<std::size_t> order_by_score(std::span<const double> scores);

/// 2^30 is the greatest gain that XGBoost's integers hold.
inline constexpr int k_top_grade = 30;

/// The worth of a tile, 0 to `top`: with r = least time of the group / time,
///
///     grade = top                      if r >= 0.98,
///             floor(top * r / 0.98)    if not,  and 0 for a tile that does not run.
///
/// Tiles within 2 % of the best are equals: the threshold of STuning-DL's normalization of the
/// search space (its Algorithm 1, section IV-D). Throws InvalidArgument for a time that is not
/// positive, or a `top` outside 1 to k_top_grade.
[[nodiscard]] std::vector<int> relevance_grades(std::span<const double> times,
                                                int top = k_top_grade);

/// Normalized discounted cumulative gain of the first k: the sum of (2^grade - 1) / log2(place + 1)
/// with places from 1, over that of the best order. 1 where no order gains anything. Throws
/// InvalidArgument for k = 0 or a grade outside 0 to 60.
[[nodiscard]] double ndcg_at(std::size_t k, std::span<const int> grades_in_ranked_order);

/// The gain of the order that `scores` give. Throws InvalidArgument for different lengths as well.
[[nodiscard]] double ndcg_at(std::size_t k, std::span<const double> scores,
                             std::span<const int> grades);

/// The loss by measuring only the k best-scored: the least of their times / the least of all, - 1.
/// With k = 1 its mean over problems, in percent, is DASH's APE. Infinite if none of the k runs, 0
/// if none at all does. Throws InvalidArgument for k = 0, no tiles or different lengths.
[[nodiscard]] double regret_of_top(std::size_t k, std::span<const double> scores,
                                   std::span<const double> times);

/// Percentiles of numbers where less is better.
struct Percentiles {
  double mean = 0;
  double p95 = 0;  ///< nearest rank: the ceil(0.95 n)-th least
  double worst = 0;
};

/// Throws InvalidArgument for none.
[[nodiscard]] Percentiles percentiles(std::span<const double> values);

}  // namespace spjit
