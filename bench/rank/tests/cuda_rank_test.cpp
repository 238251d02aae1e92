#include "bench/rank/cuda_rank.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "spjit/error.hpp"

namespace {

using namespace spjit;
using namespace spjit::bench;

JudgedTiles judged(std::vector<double> times) {
  JudgedTiles group;
  group.tiles.resize(times.size());
  group.times = std::move(times);
  return group;
}

TEST(CudaRank, CountsWhatTheFirstAndTheBestOfTenLose) {
  std::vector<double> times(12, 4);
  times[0] = 3;
  times[9] = 2;
  times[11] = 1;
  const auto in_order = [](const JudgedTiles& group) {
    std::vector<double> scores;
    for (std::size_t i = 0; i < group.tiles.size(); ++i) scores.push_back(-static_cast<double>(i));
    return scores;
  };

  const CudaRankQuality quality = evaluate_cuda(std::vector{judged(times)}, in_order);

  EXPECT_DOUBLE_EQ(quality.first.mean, 2);        // 3 over 1
  EXPECT_DOUBLE_EQ(quality.best_of_ten.mean, 1);  // 2 over 1
  const std::vector<double> best_last = {4, 3, std::numeric_limits<double>::infinity()};
  const auto by_time = [](const JudgedTiles& group) {
    std::vector<double> scores;
    for (const double time : group.times) scores.push_back(-time);
    return scores;
  };
  EXPECT_DOUBLE_EQ(evaluate_cuda(std::vector{judged(best_last)}, by_time).tau, 1);
  EXPECT_THROW(static_cast<void>(evaluate_cuda({}, by_time)), InvalidArgument);
}

TEST(CudaRank, SamplesWithoutTimesAreNotJudged) {
  CudaSampleGroup group;
  group.samples.resize(2);
  group.samples[0].us = 5;

  EXPECT_TRUE(std::isinf(judged_samples(group).times[1]));
  EXPECT_EQ(judged_samples(group).kind, "measured");
  group.times = TimeKind::none;
  EXPECT_THROW(static_cast<void>(judged_samples(group)), Error);
}

}  // namespace
