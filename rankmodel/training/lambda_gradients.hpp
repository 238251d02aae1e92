#pragma once

/// @file
/// LambdaMART's gradients over all pairs.

#include <cstddef>
#include <span>
#include <vector>

namespace spjit {

/// Derivatives of a loss with respect to each score; what boosting makes smaller.
struct Gradients {
  std::vector<float> first{};
  std::vector<float> second{};  ///< positive
};

/// For one group, with NDCG truncated at k: every pair of a better tile i and a worse j of which at
/// least one is among the k best-scored adds with
///
///     d = |gain_i - gain_j| |discount_i - discount_j| / best DCG@k,   gain = 2^grade - 1,
///     discount = 1 / log2(place + 1) in the first k places, 0 after,
///     p = 1 / (1 + exp(s_i - s_j))
///
/// -d p to the first derivative of i and d p to that of j, and d p (1 - p) to both second ones
/// (Burges, From RankNet to LambdaRank to LambdaMART, 2010). Then all are scaled so that the first
/// sum up, in size, to log2(1 + that sum): a group weighs little more for being badly ordered.
[[nodiscard]] Gradients lambda_gradients(std::size_t k, std::span<const float> scores,
                                         std::span<const int> grades);

}  // namespace spjit
