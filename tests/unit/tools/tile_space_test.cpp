#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/cuda/unrolled/cuda_prior.hpp"
#include "kernels/cuda/unrolled/cuda_record.hpp"
#include "tests/support/cuda/cuda_space_testing.hpp"
#include "tests/support/files/text_edit.hpp"
#include "tests/support/spmm_testing.hpp"
#include "tools/report/tile_space_view.hpp"

namespace {

using spjit::CudaCandidate;
using spjit::CudaTileSpace;
using spjit::cli::Json;
using spjit::cli::tile_space_svg;
using spjit::cli::tile_space_table;
using spjit::cli::TileSpaceCell;
using spjit::cli::view_of;
using spjit::testing_support::cuda_limits;
using spjit::testing_support::cuda_problem;
using spjit::testing_support::cuda_space;
using spjit::testing_support::occurrences;
using spjit::testing_support::random_matrix;
using testing::HasSubstr;
using testing::Not;

/// As UnrolledCudaFamily::explain() writes it.
class TileSpacePicture : public testing::Test {
 protected:
  TileSpacePicture() {
    for (const CudaCandidate& candidate :
         spjit::rank_by_prior(candidates_.survivors(), cuda_limits())) {
      space_["ranked"].push_back({{"tile", to_string(candidate.tile)}, {"score", 0}});
    }
    chosen_ = space_["ranked"][0]["tile"].get<std::string>();
  }

  CudaTileSpace candidates_ = cuda_space(cuda_problem(random_matrix(512, 512, 0.9), 512));
  Json space_ = to_json(candidates_);
  std::string chosen_;
};

/// As a family writes it whose candidates have neither ranks nor columns.
Json unranked_space() {
  return Json::parse(R"({"relaxed": [], "candidates": [
    {"tile": {"name": "one", "m1": 4}, "registers": 7, "padding": 0.25},
    {"tile": {"name": "two", "m1": 8}, "registers": 9,
     "dropped": {"rule": "sorcery", "numbers": "13 cats"}}]})");
}

TEST_F(TileSpacePicture, MarksTheChosenTileAndCountsRanksFromOne) {
  std::size_t chosen = 0;
  for (const TileSpaceCell& cell : view_of(space_, chosen_).cells) {
    EXPECT_EQ(cell.rank > 0, cell.rule.empty());
    if (!cell.chosen) continue;
    ++chosen;
    EXPECT_EQ(label_of(cell), "1");
  }
  EXPECT_EQ(chosen, 1U);
}

TEST_F(TileSpacePicture, ListsEveryCandidateWithItsReason) {
  const std::string text = tile_space_table(space_, chosen_, {});

  for (const CudaCandidate& candidate : candidates_.candidates) {
    EXPECT_EQ(occurrences(text, "  " + to_string(candidate.tile) + "  "), 1U);
    if (!candidate.dropped) continue;
    EXPECT_THAT(text, HasSubstr(candidate.dropped->numbers));
  }
  EXPECT_THAT(text, Not(HasSubstr("relaxed")));
}

TEST_F(TileSpacePicture, SaysWhatWasRelaxed) {
  candidates_.relaxed = {spjit::CudaRule::balance, spjit::CudaRule::occupancy};

  EXPECT_THAT(tile_space_table(to_json(candidates_), "", {}),
              HasSubstr("The rule 'balance' was relaxed: it left no candidate.\n"
                        "The rule 'occupancy' was relaxed: it left no candidate.\n"));
}

TEST_F(TileSpacePicture, DrawsACellForEveryM1AndN1) {
  std::set<std::pair<std::int64_t, std::int64_t>> places;
  for (const CudaCandidate& candidate : candidates_.candidates) {
    places.insert({candidate.tile.m1, candidate.tile.n1});
  }

  const std::string svg = tile_space_svg(space_, chosen_, "title");

  EXPECT_LT(places.size(), candidates_.candidates.size());
  EXPECT_EQ(occurrences(svg, "<g>"), places.size());
  EXPECT_EQ(occurrences(svg, "stroke-width=\"3\""), 1U);
}

TEST_F(TileSpacePicture, EscapesItsText) {
  const std::string svg = tile_space_svg(space_, chosen_, "<a & \"b\" 'c'\x01>");

  EXPECT_EQ(occurrences(svg, "&lt;a &amp; &quot;b&quot; &apos;c&apos;?&gt;"), 2U);
  EXPECT_THAT(svg, Not(HasSubstr("<a ")));
}

TEST_F(TileSpacePicture, IsDrawnForAnEmptySpaceToo) {
  EXPECT_THAT(tile_space_svg(to_json(CudaTileSpace{}), "", "nothing"), HasSubstr("</svg>"));
}

TEST_F(TileSpacePicture, ExplainsTheLettersOfTheRulesThatDroppedSome) {
  const std::string text = tile_space_table(space_, chosen_, {});

  EXPECT_THAT(text, HasSubstr("number: rank, * chosen; dropped by "));
  EXPECT_THAT(text, HasSubstr(" O occupancy"));
  EXPECT_THAT(text, HasSubstr("*1"));
}

TEST(TileSpaceGrid, ShowsTheChosenTileOfAPlaceElseTheBestRanked) {
  spjit::cli::TileSpaceView view;
  const auto add = [&](const char* tile, std::int64_t n1, std::int64_t rank, bool chosen) {
    TileSpaceCell cell;
    cell.tile = tile;
    cell.m1 = 4;
    cell.n1 = n1;
    cell.rank = rank;
    cell.chosen = chosen;
    view.cells.push_back(std::move(cell));
  };
  add("a", 32, 2, false);
  add("b", 32, 3, true);
  add("c", 64, 0, false);
  add("d", 64, 5, false);
  add("e", 96, 4, false);
  add("f", 96, 6, false);

  std::string shown;
  for (const TileSpaceCell& cell : grid_cells(view)) shown += cell.tile;

  EXPECT_EQ(shown, "bde");
}

TEST(TileSpaceTable, OfAnyFamilyHasItsNumbersAndRules) {
  EXPECT_EQ(tile_space_table(unranked_space(), "one", {}),
            "2 candidates, 1 kept\n"
            "   tile  registers  padding  kept, or the rule that dropped it\n"
            "*  one           7    0.250  kept\n"
            "   two           9        -  sorcery: 13 cats\n");
}

}  // namespace
