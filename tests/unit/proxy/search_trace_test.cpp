#include "kernels/tuning/search_trace.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

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
                          {"modelled", false},
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

TEST(SearchTraceAsJson, SaysWhatAClockModelledAndWhatItCouldNot) {
  SearchTrace trace = hand_made_trace();
  trace.modelled = true;
  trace.entries[0].modelled = {.us = 1.5, .cycles = 1500, .bound = "memory", .failure = ""};
  trace.entries[1].modelled = {.us = 0, .cycles = 0, .bound = "", .failure = "refused"};

  const json record = to_json(trace);

  EXPECT_EQ(record["modelled"], true);
  EXPECT_EQ(record["entries"][0]["modelled"],
            (json{{"us", 1.5}, {"cycles", 1500.0}, {"bound", "memory"}}));
  EXPECT_EQ(record["entries"][1]["modelled"], (json{{"failure", "refused"}}));
  EXPECT_FALSE(record["entries"][2].contains("modelled"));
}

TEST(SearchTraceAsJson, WithoutTilesNoneIsChosen) {
  const json record = to_json(SearchTrace{});

  EXPECT_EQ(record["mode"], "instant");
  EXPECT_EQ(record["entries"], json::array());
  EXPECT_FALSE(record.contains("chosen"));
}

}  // namespace
