#include "tools/report/search_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/search_trace_testing.hpp"

namespace {

using spjit::SearchTrace;
using spjit::cli::search_cells;
using spjit::cli::search_table;
using spjit::cli::SearchCell;
using spjit::testing_support::hand_made_trace;
using spjit::testing_support::timed_at;
using testing::HasSubstr;
using testing::Not;

TEST(SearchCells, HaveTheBestTimeOfTheirTilesAscending) {
  const std::vector<SearchCell> cells = search_cells(hand_made_trace());

  ASSERT_EQ(cells.size(), 3U);
  EXPECT_EQ(cells[0].m1, 14);
  EXPECT_EQ(cells[0].n1, 32);
  EXPECT_EQ(cells[0].us, 8);
  EXPECT_EQ(cells[0].slower, 0);
  EXPECT_TRUE(cells[0].full && cells[0].chosen);
  EXPECT_EQ(cells[1].m1, 28);
  EXPECT_EQ(cells[1].n1, 16);
  EXPECT_DOUBLE_EQ(cells[1].slower, 0.25);
  EXPECT_TRUE(cells[1].full && !cells[1].chosen);
  EXPECT_EQ(cells[2].n1, 32);
  EXPECT_DOUBLE_EQ(cells[2].slower, 1);
  EXPECT_FALSE(cells[2].full || cells[2].chosen);
}

TEST(SearchCells, ATimeInFullCountsMoreThanAFasterProxy) {
  SearchTrace trace;
  for (const bool full_first : {true, false}) {
    trace.entries = {{"proxy", 28, 16, 0, timed_at(5), {}},
                     {"full", 28, 16, 0, timed_at(6), timed_at(10)},
                     {"faster", 28, 16, 0, timed_at(7), timed_at(9)}};
    if (full_first) std::ranges::reverse(trace.entries);

    const std::vector<SearchCell> cells = search_cells(trace);

    ASSERT_EQ(cells.size(), 1U);
    EXPECT_EQ(cells[0].us, 9);
    EXPECT_TRUE(cells[0].full);
  }
}

TEST(SearchCells, TheCellOfTheChosenTileIsMarkedWhoeverIsFastestInIt) {
  SearchTrace trace;
  trace.entries = {{"a", 28, 16, 0, timed_at(5), {}}, {"b", 28, 16, 0, timed_at(9), {}}};
  for (const std::size_t chosen : {0U, 1U}) {
    trace.chosen = chosen;

    EXPECT_TRUE(search_cells(trace).at(0).chosen) << chosen;
  }
}

TEST(SearchCells, AreNoneWhereNothingWasTimed) {
  SearchTrace trace = hand_made_trace();
  for (auto& entry : trace.entries) entry.proxy = entry.full = std::nullopt;

  EXPECT_TRUE(search_cells(trace).empty());
  EXPECT_TRUE(search_cells({}).empty());
}

TEST(SearchTable, ShowsStagesGridAndTiles) {
  const std::string text = search_table(hand_made_trace(), {});

  EXPECT_EQ(text,
            "Search: proxy, 5 of 6 tiles timed\n"
            "  ranked by   prior, 1 ms\n"
            "  proxies     20 ms\n"
            "  in full     300 ms\n"
            "\n"
            "Slower than the fastest, best tile of each cell (~ by proxy):\n"
            "M1 \\ N1     16       32\n"
            "     14      -    *+0 %\n"
            "     28  +25 %  +100 %~\n"
            "\n"
            "   rank  tile   score  proxy us  full us  proxy                              full\n"
            "      1  A        -10     12.00    10.00  finished, 12 samples, noise 0.0 %  "
            "finished, 12 samples, noise 0.0 %\n"
            "*     2  B        -11      9.00     8.00  finished, 12 samples, noise 0.0 %  "
            "finished, 12 samples, noise 0.0 %\n"
            "      3  C        -12     20.00        -  dropped, 1 samples, noise 0.0 %    -\n"
            "      4  D <&>    -13         -        -  failed: no luck                    -\n"
            "      5  E        -14     16.00        -  finished, 12 samples, noise 0.0 %  -\n");
}

TEST(SearchTable, OfASearchWithoutTimesSaysSoAndHasNoGrid) {
  SearchTrace trace = hand_made_trace();
  trace.timed = false;
  for (auto& entry : trace.entries) {
    entry.proxy = std::nullopt;
    entry.full = spjit::TuningResult{};
  }

  const std::string text = search_table(trace, {});

  EXPECT_THAT(text, HasSubstr("  ranked, not timed\n"));
  EXPECT_THAT(text, HasSubstr("not reached"));
  EXPECT_THAT(text, Not(HasSubstr("M1 \\ N1")));
}

TEST(SearchTable, OfTheClockSaysModelledNotTimedAndHasNoTimes) {
  SearchTrace trace = hand_made_trace();
  trace.timed = false;
  trace.modelled = true;
  for (auto& entry : trace.entries) entry.proxy = entry.full = std::nullopt;
  trace.entries[0].modelled = {.us = 1.5, .cycles = 1500, .bound = "memory", .failure = ""};
  trace.entries[1].modelled = {.us = 0, .cycles = 0, .bound = "", .failure = "refused"};

  const std::string text = search_table(trace, {});

  EXPECT_THAT(text, HasSubstr("2 of 6 tiles modelled, not timed"));
  EXPECT_THAT(text, HasSubstr("in 1.50 us, memory"));
  EXPECT_THAT(text, HasSubstr("failed: refused"));
  EXPECT_THAT(text, Not(HasSubstr("ranked, not timed")));
  EXPECT_THAT(text, Not(HasSubstr("full us")));
}

TEST(SearchTable, OfNoSearchIsEmpty) { EXPECT_EQ(search_table({}, {}), ""); }

TEST(SearchTable, IsBoldOnlyInColour) {
  EXPECT_THAT(search_table(hand_made_trace(), {.colour = true}), HasSubstr("\x1b[1mSearch: proxy"));
  EXPECT_THAT(search_table(hand_made_trace(), {}), Not(HasSubstr("\x1b")));
}

}  // namespace
