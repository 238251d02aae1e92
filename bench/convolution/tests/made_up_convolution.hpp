#pragma once

/// @file
/// A case of conv_bench with made-up times.

#include <string>
#include <utility>
#include <vector>

#include "bench/convolution/case.hpp"
#include "tests/support/padded_3x3.hpp"

namespace spjit::testing_support {

/// A 3x3 layer of ResNet-50, 90 % sparse, and what each library took. [us]
[[nodiscard]] inline bench::ConvCase made_up_convolution(
    const std::vector<std::pair<std::string, double>>& times_us) {
  bench::ConvCase one;
  one.network = "resnet50";
  one.sparsity = 90;
  one.layer = "bottleneck_2_block_group1_1_1";
  one.origin = "generated, seed 7";
  one.layers = 2;
  one.filters = 64;
  one.shape = padded_3x3(64, 56, 56);
  one.nnz = 7372;
  for (const auto& [library, us] : times_us) {
    bench::ConvTiming timing{library, {}, library.starts_with("spjit") ? "compact" : "", {}};
    timing.time.median_us = us;
    timing.time.min_us = us;
    timing.time.samples = 3;
    one.timings.push_back(std::move(timing));
  }
  return one;
}

}  // namespace spjit::testing_support
