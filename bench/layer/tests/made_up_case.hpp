#pragma once

/// @file
/// Cases with times that can be checked by hand.

#include <string>
#include <utility>
#include <vector>

#include "bench/layer/case.hpp"

namespace spjit::testing_support {

/// A layer of 100 rows with 50 entries each; the ways' medians in microseconds, nine samples.
[[nodiscard]] inline bench::LayerCase made_up_case(
    const std::string& comparison, const std::vector<std::pair<std::string, double>>& ways) {
  bench::LayerCase one{comparison, "minilm-80", 100, 200, 1, 5000, 64};
  for (const auto& [way, median_us] : ways) {
    bench::WayTiming& timing = one.timings.emplace_back(bench::WayTiming{way});
    timing.time.median_us = median_us;
    timing.time.min_us = median_us;
    timing.time.samples = 9;
    timing.families = {"compact"};
  }
  return one;
}

}  // namespace spjit::testing_support
