#include "bench/gpu_constants/readings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "bench/gpu_constants/constants.hpp"
#include "spjit/error.hpp"

namespace {

using namespace spjit::bench;
using spjit::Error;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Readings, ABlockTakesFromItsFirstWarpToItsLast) {
  const std::vector<WarpClocks> clocks = {{100, 150}, {110, 180}, {7, 9}, {5, 8}};

  EXPECT_THAT(cycles_of_blocks(clocks, 2), ElementsAre(80, 4));
}

TEST(Readings, ClocksThatStandStillOrAreNotOfWholeBlocksAreRefused) {
  EXPECT_THROW(static_cast<void>(cycles_of_blocks(std::vector<WarpClocks>{{5, 5}}, 1)), Error);
  EXPECT_THROW(static_cast<void>(cycles_of_blocks(std::vector<WarpClocks>{{0, 0}}, 1)), Error);
  EXPECT_THROW(static_cast<void>(cycles_of_blocks(std::vector<WarpClocks>{{5, 6}}, 2)), Error);
  EXPECT_THROW(static_cast<void>(cycles_of_blocks({}, 1)), Error);
}

TEST(Readings, MedianIsTheMiddle) {
  EXPECT_EQ(median_of({3, 1, 2}), 2);
  EXPECT_EQ(median_of({4, 1, 2, 3}), 2.5);
  EXPECT_THROW(static_cast<void>(median_of({})), Error);
}

TEST(Readings, KneesOfAFetchCurveAreWhereALevelEnds) {
  const std::vector<FetchPoint> curve = {{8 << 10, 1.0},   {16 << 10, 1.02}, {32 << 10, 1.5},
                                         {64 << 10, 1.52}, {128 << 10, 1.6}, {256 << 10, 3.9},
                                         {512 << 10, 4.0}};

  const FetchKnees knees = knees_of(curve);

  EXPECT_EQ(knees.first_bytes, 16 << 10);
  EXPECT_EQ(knees.second_bytes, 128 << 10);
}

TEST(Readings, ACurveWithoutAStepHasNoKnee) {
  const FetchKnees flat = knees_of(std::vector<FetchPoint>{{8192, 1}, {16384, 1.01}});
  const FetchKnees one = knees_of(std::vector<FetchPoint>{{8192, 1}, {16384, 2}, {32768, 2.1}});

  EXPECT_FALSE(flat.first_bytes);
  EXPECT_FALSE(knees_of({}).first_bytes);
  EXPECT_EQ(one.first_bytes, 8192);
  EXPECT_FALSE(one.second_bytes);
}

TEST(Readings, AChaseMeetsEveryLineOnce) {
  const std::vector<std::uint32_t> next = random_cycle(1000, 1);
  std::set<std::uint32_t> met;
  std::uint32_t at = 0;
  for (int i = 0; i < 1000; ++i) met.insert(at = next[at]);

  EXPECT_EQ(met.size(), 1000U);
  EXPECT_EQ(at, 0U);
  EXPECT_NE(next, random_cycle(1000, 2));
  EXPECT_THAT(random_cycle(1, 1), ElementsAre(0U));
  EXPECT_THROW(static_cast<void>(random_cycle(0, 1)), Error);
}

TEST(MicroKernels, HaveTheInstructionsThatTheyAreAskedFor) {
  const std::string ptx = straight_line_ptx(300, 80);

  std::size_t count = 0;
  for (std::size_t at = ptx.find("fma.rn"); at != std::string::npos;
       at = ptx.find("fma.rn", at + 1)) {
    ++count;
  }
  EXPECT_EQ(count, 300U);
  EXPECT_THAT(ptx, HasSubstr(".target sm_80"));
  EXPECT_EQ(micro_programs({4096, 8192}, 80).size(), 3U);
}

TEST(Constants, OfARehearsalHaveNoValue) {
  ConstantsResult result;
  result.constants = {{"fp32_interval", {}, "cycles", "how", 0, 0, ""},
                      {"l1_latency", {}, "cycles", "how", 0, 0, "the GPU is gone"},
                      {"l2_latency", 250, "cycles", "how", 240, 260, ""}};

  const nlohmann::json json = to_json(result);

  EXPECT_TRUE(json.at("constants").at("fp32_interval").at("value").is_null());
  EXPECT_EQ(json.at("constants").at("l1_latency").at("failure"), "the GPU is gone");
  EXPECT_EQ(json.at("constants").at("l2_latency").at("value"), 250);
  EXPECT_EQ(json.at("spread").at("l2_latency").at("greatest"), 260);
  EXPECT_THAT(constants_table(result), HasSubstr("FAILED: the GPU is gone"));
}

}  // namespace
