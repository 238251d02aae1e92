#include "bench/gpu/gpu_search.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "bench/gpu/gpu_bench_options.hpp"
#include "spjit/error.hpp"

namespace {

using namespace spjit::bench;
using spjit::InvalidArgument;
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

TEST(GpuSearch, HandsTheOraclesTimesFromOneFigureToTheNext) {
  GpuSearchResult result;
  result.name = "case";
  result.truth = {{"a", 10}, {"b", 12}};
  result.proxies = {{"b", 2}};

  const nlohmann::json json = to_json(result);

  EXPECT_EQ(truth_in(json), result.truth);
  EXPECT_EQ(json.at("tiles")[0].at("proxy_us"), nlohmann::json());
  EXPECT_EQ(json.at("tiles")[1].at("proxy_us"), 2);
}

TEST(GpuSearch, ARehearsalHasNoNumberThatCouldBeTakenForATime) {
  GpuSearchResult result;
  result.timed = false;
  result.truth = {{"a", 10}};
  result.ways.push_back({"ranked", "a", 1, 0, 0.5, 0.5, 0.5, 3});

  const nlohmann::json json = to_json(result);

  EXPECT_TRUE(truth_in(json).empty());
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

TEST(GpuBenchArguments, AreReadAndRefused) {
  const GpuBenchArguments some =
      parse_gpu_bench({"--figures", "ranks", "--tiles", "24", "--cubins", "folder"});
  EXPECT_TRUE(some.wants("ranks"));
  EXPECT_FALSE(some.wants("searches"));
  EXPECT_EQ(some.bench.most_tiles, 24U);
  EXPECT_TRUE(parse_gpu_bench({}).wants("searches"));

  const auto refused = [](const std::vector<std::string>& arguments) {
    try {
      static_cast<void>(parse_gpu_bench(arguments));
    } catch (const InvalidArgument& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(refused({"--figures", "n2"}), HasSubstr("no figure 'n2'"));
  EXPECT_THAT(refused({"--tiles", "-1"}), HasSubstr("--tiles '-1'"));
  EXPECT_THAT(refused({"--max-minutes", "8x"}), HasSubstr("--max-minutes '8x'"));
  EXPECT_THAT(refused({"--json"}), HasSubstr("needs a value"));
  EXPECT_THAT(refused({"--nonsense"}), HasSubstr("unknown argument --nonsense"));
  EXPECT_THAT(refused({"--precompile", "folder"}), HasSubstr("needs --target"));
  EXPECT_THAT(refused({"--target", "sm_90"}), HasSubstr("--target is of --precompile"));
  EXPECT_THAT(refused({"--precompile", "a", "--check-cubins", "b", "--target", "sm_90"}),
              HasSubstr("do not go together"));
}

}  // namespace
