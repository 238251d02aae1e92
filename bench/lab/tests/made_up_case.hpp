#pragma once

/// @file
/// Cases with times that can be checked by hand.

#include <string>
#include <utility>
#include <vector>

#include "bench/lab/measure.hpp"
#include "bench/lab/record.hpp"
#include "tests/support/padded_3x3.hpp"

namespace spjit::testing_support {

/// The ways' medians in microseconds, nine samples each.
using Medians = std::vector<std::pair<std::string, double>>;

[[nodiscard]] inline bench::Case with_timings(bench::Case one, const Medians& ways) {
  for (const auto& [way, median_us] : ways) {
    bench::WayTiming& timing = one.timings.emplace_back(bench::WayTiming{way});
    timing.time.median_us = median_us;
    timing.time.min_us = median_us;
    timing.time.samples = 9;
    timing.chosen = {"compact"};
  }
  return one;
}

/// A layer of 100 rows with 50 entries each.
[[nodiscard]] inline bench::Case layer_case(const std::string& comparison, const Medians& ways) {
  bench::Case one;
  one.workload = "minilm-80";
  one.comparison = comparison;
  one.rows = 100;
  one.cols = 200;
  one.nnz = 5000;
  one.sparsity = 0.75;
  one.n = 64;
  return with_timings(std::move(one), ways);
}

/// Two 3x3 layers of ResNet-50, 90 % sparse.
[[nodiscard]] inline bench::Case conv_case(const Medians& ways,
                                           const Convolution& shape = padded_3x3(64, 56, 56)) {
  bench::ConvLayer layer{"bottleneck_2_block_group1_1_1", shape, {}, "generated, seed 7"};
  layer.weights.rows = 64;
  layer.weights.cols = shape.channels / shape.groups * shape.kernel_height * shape.kernel_width;
  layer.weights.row_ptrs.assign(65, 0);
  bench::Case one = bench::conv_case({layer, layer}, bench::LayerGroup{{0, 1}}, 1);
  one.workload = "resnet50-90";
  return with_timings(std::move(one), ways);
}

}  // namespace spjit::testing_support
