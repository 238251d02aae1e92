#pragma once

/// @file
/// How well a ranking agrees with measured times, as papers report it. A score says which tile
/// should be fast: the greater, the faster.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

#include "spjit/error.hpp"

namespace spjit::bench {

inline void check_lengths(std::size_t left, std::size_t right) {
  if (left != right) {
    throw InvalidArgument(
        fmt::format("rankings of {} and {} items; expected as many", left, right));
  }
}

/// Kendall's tau-a: (agreeing - disagreeing pairs) / pairs, in [-1, 1]; a pair that is tied in
/// either counts as neither. 0 for fewer than two. Throws InvalidArgument for different lengths.
[[nodiscard]] inline double kendall_tau(std::span<const double> left,
                                        std::span<const double> right) {
  check_lengths(left.size(), right.size());
  double sum = 0;
  double pairs = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const double product = (left[i] - left[j]) * (right[i] - right[j]);
      if (product != 0) sum += product > 0 ? 1 : -1;
      ++pairs;
    }
  }
  return pairs > 0 ? sum / pairs : 0;
}

/// Of the pairs of different times, the share where the faster has the greater score (DASH); equal
/// scores order nothing. 1 without such a pair. Throws InvalidArgument for different lengths.
[[nodiscard]] inline double ordered_pair_accuracy(std::span<const double> scores,
                                                  std::span<const double> times) {
  check_lengths(scores.size(), times.size());
  double right = 0;
  double pairs = 0;
  for (std::size_t i = 0; i < times.size(); ++i) {
    for (std::size_t j = 0; j < times.size(); ++j) {
      if (!(times[i] < times[j])) continue;
      ++pairs;
      if (scores[i] > scores[j]) ++right;
    }
  }
  return pairs > 0 ? right / pairs : 1;
}

}  // namespace spjit::bench
