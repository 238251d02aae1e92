#include "bench/gpu/gpu_search.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace {

using namespace spjit::bench;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(GpuSearch, JudgesProxiesByTheOracle) {
  const TileTimes truth = {{"a", 10}, {"b", 12}, {"c", 20}};
  GpuSearchWay way;
  way.tile = "b";

  judge({{"a", 3}, {"b", 2}, {"c", 5}, {"not in the truth", 1}}, truth, way);

  EXPECT_NEAR(way.loss, 0.2, 1e-9);
  EXPECT_NEAR(way.tau, 1.0 / 3, 1e-9);
  EXPECT_NEAR(way.pair_accuracy, 2.0 / 3, 1e-9);
}

TEST(GpuSearch, ATileHasBothTimesWhereThereIsAProxy) {
  GpuSearchResult result;
  result.truth = {{"a", 10}, {"b", 12}};
  result.proxies = {{"b", 2}};

  const nlohmann::json tiles = to_json(result).at("tiles");

  EXPECT_EQ(tiles[0].at("us"), 10);
  EXPECT_EQ(tiles[0].at("proxy_us"), nlohmann::json());
  EXPECT_EQ(tiles[1].at("proxy_us"), 2);
}

TEST(GpuSearch, ARehearsalHasNoNumberThatCouldBeTakenForATime) {
  GpuSearchResult result;
  result.timed = false;
  result.truth = {{"a", 10}};
  result.ways.push_back({"proxy-alone", "a", 1, 0, 0.5, 0.5, 0.5, 3});

  const nlohmann::json json = to_json(result);

  EXPECT_TRUE(json.at("tiles")[0].at("us").is_null());
  for (const char* member : {"loss", "tau", "pair_accuracy", "seconds"}) {
    EXPECT_TRUE(json.at("ways")[0].at(member).is_null()) << member;
  }
  EXPECT_TRUE(json.at("best_us").is_null());
  EXPECT_THAT(search_table(result), HasSubstr("rehearsed"));
}

TEST(GpuSearch, ASampleHasTheFirstAndTheLast) {
  const std::vector<int> all = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};

  EXPECT_THAT(spread_sample(all, 4), ElementsAre(0, 3, 6, 9));
  EXPECT_THAT(spread_sample(all, 1), ElementsAre(0));
  EXPECT_EQ(spread_sample(all, 0), all);
  EXPECT_EQ(spread_sample(all, 10), all);
}

}  // namespace
