#include "proxy/search_trace.hpp"

#include <gtest/gtest.h>

#include "tests/support/search_trace_testing.hpp"

namespace {

using nlohmann::json;
using spjit::SearchTrace;
using spjit::TuningOutcome;
using spjit::testing_support::failed_with;
using spjit::testing_support::hand_made_trace;
using spjit::testing_support::timed_at;

TEST(RaceResultAsJson, HasTimesOnlyWhereThereAreSamples) {
  spjit::TuningResult result = timed_at(12.5, TuningOutcome::dropped, 3);
  result.timing.min_us = 12;
  result.timing.noise = 0.25;

  EXPECT_EQ(to_json(result), (json{{"outcome", "dropped"},
                                   {"median_us", 12.5},
                                   {"min_us", 12.0},
                                   {"noise", 0.25},
                                   {"samples", 3}}));
  EXPECT_EQ(to_json(spjit::TuningResult{}), (json{{"outcome", "not_reached"}}));
}

TEST(RaceResultAsJson, HasTheReasonOfAFailure) {
  EXPECT_EQ(to_json(failed_with("no luck")), (json{{"outcome", "failed"}, {"failure", "no luck"}}));
}

TEST(SearchTraceAsJson, HasStagesAndTheNameOfTheChosenTile) {
  json record = to_json(hand_made_trace());
  record.erase("entries");

  EXPECT_EQ(record, (json{{"mode", "proxy"},
                          {"ranked_by", "prior"},
                          {"timed", true},
                          {"proxies", true},
                          {"budget_ms", 5000.0},
                          {"rank_ms", 1.0},
                          {"proxy_ms", 20.0},
                          {"full_ms", 300.0},
                          {"chosen", "B"}}));
}

TEST(SearchTraceAsJson, ListsTilesAsRankedWithTheResultsTheyHave) {
  const json entries = to_json(hand_made_trace())["entries"];

  ASSERT_EQ(entries.size(), 6U);
  EXPECT_EQ(entries[0]["tile"], "A");
  EXPECT_EQ(entries[0]["m1"], 28);
  EXPECT_EQ(entries[0]["n1"], 16);
  EXPECT_EQ(entries[0]["score"], -10);
  EXPECT_EQ(entries[0]["proxy"]["median_us"], 12);
  EXPECT_EQ(entries[0]["full"]["median_us"], 10);
  EXPECT_EQ(entries[2]["proxy"]["outcome"], "dropped");
  EXPECT_FALSE(entries[2].contains("full"));
  EXPECT_EQ(entries[3]["proxy"]["failure"], "no luck");
  EXPECT_FALSE(entries[5].contains("proxy"));
}

TEST(SearchTraceAsJson, WithoutTilesNoneIsChosen) {
  const json record = to_json(SearchTrace{});

  EXPECT_EQ(record["mode"], "instant");
  EXPECT_EQ(record["entries"], json::array());
  EXPECT_FALSE(record.contains("chosen"));
}

TEST(TraceOfAHostSearch, HasItsTilesWidthsInColumnsAndItsTimes) {
  spjit::HostSearch search;
  search.ranked_by = "mine";
  search.tiles.resize(2);
  search.tiles[0].tile.m1 = 28;
  search.tiles[0].score = -5;
  search.tiles[1].tile.m1 = 10;
  search.tiles[1].tile.nv = 3;
  search.tiles[1].proxy = timed_at(3);
  search.tiles[1].full = timed_at(2);
  search.chosen = 1;
  search.timed = true;
  search.proxies = true;
  search.rank_ms = 1;
  search.proxy_ms = 2;
  search.full_ms = 3;
  spjit::CompileOptions options;
  options.policy.search = spjit::SearchMode::ranked;
  options.policy.search_budget_ms = 123;
  options.target = spjit::Target(spjit::HostIsa::avx512);

  const SearchTrace trace = trace_of(search, options);

  EXPECT_EQ(trace.mode, spjit::SearchMode::ranked);
  EXPECT_EQ(trace.ranked_by, "mine");
  EXPECT_TRUE(trace.timed && trace.proxies);
  EXPECT_EQ(trace.budget_ms, 123);
  EXPECT_EQ(trace.rank_ms, 1);
  EXPECT_EQ(trace.proxy_ms, 2);
  EXPECT_EQ(trace.full_ms, 3);
  EXPECT_EQ(trace.chosen, 1U);
  ASSERT_EQ(trace.entries.size(), 2U);
  EXPECT_EQ(trace.entries[0].tile, to_string(search.tiles[0].tile));
  EXPECT_EQ(trace.entries[0].n1, 16);
  EXPECT_EQ(trace.entries[0].score, -5);
  EXPECT_FALSE(trace.entries[0].proxy || trace.entries[0].full);
  EXPECT_EQ(trace.entries[1].m1, 10);
  EXPECT_EQ(trace.entries[1].n1, 48);
  EXPECT_EQ(trace.entries[1].proxy->timing.median_us, 3);
  EXPECT_EQ(trace.entries[1].full->timing.median_us, 2);
}

TEST(TraceOfAHostSearch, WidthsAreThoseOfTheTargetsVectors) {
  spjit::HostSearch search;
  search.tiles.resize(1);
  search.tiles[0].tile.nv = 3;
  spjit::CompileOptions options;
  options.target = spjit::Target(spjit::HostIsa::avx2);

  EXPECT_EQ(trace_of(search, options).entries[0].n1, 24);
}

}  // namespace
