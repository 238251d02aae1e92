#pragma once

/// @file
/// What an order of tiles is worth: how it agrees with that of their times, and what is lost where
/// its first one is taken.

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <span>

#include "bench/rank_agreement.hpp"
#include "spjit/error.hpp"

namespace spjit::bench {

struct Agreement {
  double tau = 0;     ///< Kendall's tau-b
  double chosen = 0;  ///< time of its first choice
  double loss = 0;    ///< of that against the least time
};

/// Of estimates, the better the lower, against times in any unit, measured or simulated. Of equal
/// estimates the first is chosen. Throws InvalidArgument for fewer than two, for different lengths
/// and for a time that is not above 0.
[[nodiscard]] inline Agreement agreement(std::span<const double> times,
                                         std::span<const double> estimates) {
  check_lengths(times.size(), estimates.size());
  if (times.size() < 2) throw InvalidArgument("an order of fewer than two tiles says nothing");
  const double best = *std::ranges::min_element(times);
  if (!(best > 0)) throw InvalidArgument("a tile without a time; expected times above 0");
  const auto first = std::ranges::min_element(estimates) - estimates.begin();
  const double chosen = times[static_cast<std::size_t>(first)];
  return {kendall_tau_b(times, estimates), chosen, chosen / best - 1};
}

[[nodiscard]] inline nlohmann::json to_json(const Agreement& of) {
  return {{"tau", of.tau}, {"loss", of.loss}};
}

}  // namespace spjit::bench
