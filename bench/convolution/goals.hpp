#pragma once

/// @file
/// What the cases of conv_bench say together, and the goals.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "bench/convolution/case.hpp"
#include "bench/host/goals.hpp"

namespace spjit::bench {

/// Every goal, in the order of the requirement, for each layout and batches of 1 and 8: over the
/// layers of ResNet-50, cold ones. Means are geometric, and a shape counts as often as the network
/// has it. "Dense" is the fastest of oneDNN's ways for that layer. A goal that no case covers is
/// `no_data`.
[[nodiscard]] std::vector<GoalResult> evaluate_conv_goals(std::span<const ConvCase> cases);

/// How often spjit's chosen kernel is faster than something else.
struct ConvSpeedup {
  double speedup = 0;  ///< the other's time over spjit's
  std::string where;   ///< "resnet50-90 64x56x56 ... b=1 t=1 cold: compact, onednn-nhwc"
};

/// Of the layers of all cases: those with the least speed-up over dense first, at most so many, and
/// those that lose most against the fastest of spjit's families, where these were timed by
/// themselves.
[[nodiscard]] std::vector<ConvSpeedup> worst_against_dense(std::span<const ConvCase> cases,
                                                           std::size_t most);
[[nodiscard]] std::vector<ConvSpeedup> worst_choices(std::span<const ConvCase> cases,
                                                     std::size_t most);

}  // namespace spjit::bench
