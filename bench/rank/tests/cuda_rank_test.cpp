#include "bench/rank/cuda_rank.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "spjit/error.hpp"
#include "spjit/matrix_io.hpp"
#include "tests/support/cuda/cuda_space_testing.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::bench;
using namespace spjit::testing_support;
using nlohmann::json;

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

TEST(CudaRank, SimulatedCyclesBelongToTheTilesThatTheyName) {
  const TemporaryDirectory directory;
  const CsrMatrix matrix = random_matrix(128, 64, 0.8);
  save_matrix(matrix, directory.path() / "a.mtx");
  const CudaDeviceInfo limits = parse_cuda_target("sm_75:rtx2080ti");
  const std::vector<CudaCandidate> tiles =
      cuda_space(cuda_problem(matrix, 512), {}, limits).survivors();
  ASSERT_GT(tiles.size(), 3U);
  json document = {{"kind", "simulated"}, {"matrix", "a.mtx"}, {"n", 512}};
  for (const std::size_t tile : {std::size_t{3}, std::size_t{0}}) {
    document["tiles"].push_back({{"tile", to_string(tiles[tile].tile)}, {"cycles", 100 + tile}});
  }

  const JudgedTiles group = judged_simulation(document, directory.path(), limits);

  ASSERT_EQ(group.tiles.size(), 2U);
  EXPECT_EQ(group.kind, "simulated");
  EXPECT_EQ(group.tiles[0].tile, tiles[3].tile);
  EXPECT_EQ(group.times, (std::vector<double>{103, 100}));
  for (const auto& [member, value] :
       {std::pair<std::string, json>{"kind", "measured"}, {"n", "many"}}) {
    json other = document;
    other[member] = value;
    EXPECT_THROW(static_cast<void>(judged_simulation(other, directory.path(), limits)), Error);
  }
  document["tiles"][0]["tile"] = "rows=7 columns=33";
  EXPECT_THROW(static_cast<void>(judged_simulation(document, directory.path(), limits)), Error);
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
