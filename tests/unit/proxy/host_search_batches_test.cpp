#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/host/host_search_testing.hpp"

namespace {

using spjit::CompileContext;
using spjit::HostTuningCandidate;
using spjit::TuningOptions;
using spjit::TuningOutcome;
using spjit::TuningResult;
using spjit::testing_support::failed_because;
using spjit::testing_support::finished_in;
using spjit::testing_support::HostSearch;
using spjit::testing_support::HostSearchStages;
using spjit::testing_support::HostTileSearch;
using spjit::testing_support::in_full;
using spjit::testing_support::k_all;
using spjit::testing_support::names_of;
using spjit::testing_support::same_code;
using spjit::testing_support::SearchedHostTile;
using spjit::testing_support::with_proxies;

TEST_F(HostTileSearch, WithoutTimeNothingIsTimedAndNothingIsReached) {
  options_.policy.search_budget_ms = 0;

  const HostSearch found = search(in_full(k_all), later_is_faster());

  EXPECT_TRUE(batches_.empty());
  EXPECT_FALSE(found.timed);
  EXPECT_EQ(found.chosen, 0U);
  for (const SearchedHostTile& tile : found.tiles) {
    EXPECT_EQ(tile.full->outcome, TuningOutcome::not_reached);
    EXPECT_EQ(tile.full->timing.samples, 0);
  }
}

TEST_F(HostTileSearch, WithoutTimeProxiesAreNotReachedEitherAndOnlyTheHeuristicsWasToBeTimed) {
  options_.policy.search_budget_ms = 0;

  const HostSearch found = search(with_proxies(k_all, 3), later_is_faster());

  EXPECT_TRUE(batches_.empty());
  for (const SearchedHostTile& tile : found.tiles) {
    EXPECT_EQ(tile.proxy->outcome, TuningOutcome::not_reached);
  }
  EXPECT_EQ(names_of(found, &SearchedHostTile::full),
            (std::set<std::string>{to_string(heuristic_)}));
}

TEST_F(HostTileSearch, CodeOverTheBudgetHasFailedWithTheNumbersAndIsNotTimed) {
  const HostSearch free = search(in_full(1), later_is_faster());
  const auto bytes = static_cast<std::int64_t>(free.artifact->text.size());
  batches_.clear();
  options_.policy.code_budget_bytes = bytes - 1;

  const HostSearch found = search(in_full(1), later_is_faster());

  EXPECT_EQ(found.tiles[0].full->outcome, TuningOutcome::failed);
  EXPECT_EQ(found.tiles[0].full->failure,
            std::to_string(bytes) + " bytes of code, the budget is " + std::to_string(bytes - 1));
  for (const auto& batch : batches_) EXPECT_TRUE(batch.empty());
  EXPECT_FALSE(found.timed);
  EXPECT_EQ(spjit::read_program(found.artifact->image()).tile, heuristic_);
}

TEST_F(HostTileSearch, OfFewTilesEachIsLoadedSeveralTimesAndTheMiddleTimeCounts) {
  std::map<std::string, std::vector<double>> left;
  const auto formula = [&](std::size_t, const HostTuningCandidate& candidate) {
    auto& times =
        left.emplace(to_string(candidate.tile), std::vector<double>{5, 1, 9, 4, 7}).first->second;
    const double us = times.back();
    times.pop_back();
    return finished_in(us);
  };

  const HostSearch found = search(in_full(2), formula);

  ASSERT_EQ(batches_.at(0).size(), 10U);  // two tiles, five loads
  EXPECT_NE(batches_[0][0].artifact, batches_[0][1].artifact);
  EXPECT_TRUE(same_code(*batches_[0][0].artifact, *batches_[0][1].artifact));
  EXPECT_EQ(found.tiles[0].full->timing.median_us, 5);
  EXPECT_EQ(found.tiles[1].full->timing.median_us, 5);
}

TEST_F(HostTileSearch, OfManyTilesTheBestAreTimedAgainSeveralLoadsEach) {
  // In the first batch later tiles are faster; when loaded again, the earliest of the finalists is.
  std::map<std::string, double> places;
  const auto formula = [&](std::size_t batch, const HostTuningCandidate& candidate) {
    const auto next = static_cast<double>(places.size());
    const double place = places.emplace(to_string(candidate.tile), next).first->second;
    return finished_in(batch == 0 ? 1000 - place : 1000 + place);
  };

  const HostSearch found = search(in_full(k_all), formula);

  ASSERT_EQ(batches_.size(), 2U);
  EXPECT_EQ(batches_[0].size(), found.tiles.size());
  EXPECT_EQ(batches_[1].size(), 4U * 5U);  // three finalists and the heuristic's choice, five loads
  EXPECT_EQ(found.chosen, 0U);
  EXPECT_EQ(found.tiles[0].full->timing.median_us, 1000);
}

TEST_F(HostTileSearch, ABudgetThatEndsAfterAllWereTimedOnceKeepsTheirBest) {
  std::string last;
  double us = 1000;
  const auto formula = [&](std::size_t batch, const HostTuningCandidate& candidate) {
    if (batch > 0) return TuningResult{};  // not reached
    last = to_string(candidate.tile);
    return finished_in(us--);
  };

  const HostSearch found = search(in_full(k_all), formula);

  EXPECT_TRUE(found.timed);
  EXPECT_EQ(to_string(found.tiles[found.chosen].tile), last);
  EXPECT_EQ(found.tiles[found.chosen].full->outcome, TuningOutcome::finished);
}

TEST_F(HostTileSearch, ALoadThatFailedIsTheSlowestOfItsTile) {
  int load = 0;
  const auto formula = [&](std::size_t, const HostTuningCandidate&) {
    return load++ == 0 ? failed_because("once") : finished_in(10 + load);
  };

  const HostSearch found = search(in_full(1), formula);

  EXPECT_EQ(found.tiles[0].full->outcome, TuningOutcome::finished);
  EXPECT_EQ(found.tiles[0].full->timing.median_us, 14);  // of 12, 13, 14, 15, failed
}

TEST_F(HostTileSearch, TilesOfTheSameCodeShareAnArtifact) {
  (void)search(with_proxies(k_all, 2), later_is_faster());

  const auto& proxies = batches_.at(0);
  std::size_t shared = 0;
  for (std::size_t i = 1; i < proxies.size(); ++i) {
    const bool share = spjit::share_code(proxies[i - 1].tile, proxies[i].tile);
    EXPECT_EQ(proxies[i - 1].artifact == proxies[i].artifact, share) << i;
    shared += share ? 1 : 0;
  }
  EXPECT_GT(shared, 0U);
}

TEST_F(HostTileSearch, WhatIsTooMuchCodeForOneHeatMeetsTheBestSoFarInTheNext) {
  HostSearchStages stages = in_full(4);
  stages.batch_bytes = 1;
  stages.reductions.kernels = false;
  std::string best;
  const auto formula = [&](std::size_t, const HostTuningCandidate& candidate) {
    if (best.empty()) best = to_string(candidate.tile);
    return finished_in(to_string(candidate.tile) == best ? 1 : 2);
  };

  const HostSearch found = search(stages, formula);

  ASSERT_EQ(batches_.size(), 4U);
  EXPECT_EQ(batches_[0].size(), 5U);
  for (std::size_t batch = 1; batch < 4; ++batch) {
    EXPECT_EQ(batches_[batch].size(), 6U);
    EXPECT_EQ(to_string(batches_[batch].front().tile), best);
  }
  EXPECT_EQ(to_string(found.tiles[found.chosen].tile), best);
  EXPECT_EQ(names_of(found, &SearchedHostTile::full).size(), 4U);
}

TEST_F(HostTileSearch, AHeatThatTheBudgetCutsOffKeepsTheBestSoFar) {
  HostSearchStages stages = in_full(3);
  stages.batch_bytes = 1;
  stages.reductions.kernels = false;
  const auto formula = [](std::size_t batch, const HostTuningCandidate&) {
    return batch == 0 ? finished_in(7) : TuningResult{};
  };

  const HostSearch found = search(stages, formula);

  EXPECT_TRUE(found.timed);
  EXPECT_EQ(to_string(found.tiles[found.chosen].tile), to_string(batches_[0][0].tile));
  EXPECT_EQ(found.tiles[found.chosen].full->timing.median_us, 7);
  EXPECT_TRUE(same_code(*found.artifact, *batches_[0][0].artifact));
}

TEST_F(HostTileSearch, WindowsAreForProxiesOnly) {
  HostSearchStages stages = with_proxies(k_all, 2);
  stages.limits.window_fmas = 1;

  (void)search(stages, later_is_faster());

  const auto windowed = [](const HostTuningCandidate& candidate) { return candidate.columns > 0; };
  EXPECT_TRUE(std::ranges::any_of(batches_.at(0), windowed));
  EXPECT_TRUE(std::ranges::none_of(batches_.at(1), windowed));
}

TEST_F(HostTileSearch, BatchesGetWhatIsLeftOfTheBudget) {
  options_.policy.search_budget_ms = 50'000;

  (void)search(with_proxies(k_all, 2), later_is_faster());

  EXPECT_LE(tuning_options_.at(0).budget_ms, 0.7 * 50'000);
  EXPECT_LE(tuning_options_.at(1).budget_ms, 50'000);
  EXPECT_GT(tuning_options_.at(1).budget_ms, 0.7 * 50'000);
}

struct Report {
  std::string stage;
  std::size_t done = 0;
  std::size_t total = 0;
  std::string best;
  double best_us = 0;
  double seconds_left = 0;
  friend bool operator==(const Report&, const Report&) = default;
};

TEST_F(HostTileSearch, TellsHowItStandsInTilesWhateverTheirLoads) {
  std::vector<Report> reports;
  CompileContext context;
  context.progress = [&](const spjit::SearchProgress& now) {
    reports.push_back({std::string(now.stage), now.done, now.total, std::string(now.best),
                       now.best_us, now.seconds_left});
  };
  const auto timer = [](std::span<const HostTuningCandidate> candidates,
                        const TuningOptions& options) {
    options.progress({candidates.size() / 2, candidates.size(), "the best", 12.5, 3000});
    return std::vector<TuningResult>(candidates.size(), finished_in(12.5));
  };

  (void)spjit::testing_support::search_host_tile(input(), with_proxies(6, 1), timer, context);

  // Finalists: the first of equally fast proxies, which may be the heuristic's choice. Each has
  // three loads, and of three that are loaded one is settled.
  ASSERT_EQ(reports.size(), 2U);
  EXPECT_EQ(reports[0], (Report{"proxies", 3, 6, "the best", 12.5, 3}));
  EXPECT_EQ(reports[1].stage, "kernels");
  EXPECT_LE(reports[1].total, 2U);
  EXPECT_EQ(reports[1].done, reports[1].total / 2);
}

TEST_F(HostTileSearch, CountsTilesOfEarlierHeatsAsDone) {
  HostSearchStages stages = in_full(3);
  stages.batch_bytes = 1;
  stages.reductions.kernels = false;
  std::vector<std::size_t> done;
  CompileContext context;
  context.progress = [&](const spjit::SearchProgress& now) {
    EXPECT_EQ(now.total, 3U);
    done.push_back(now.done);
  };
  const auto timer = [](std::span<const HostTuningCandidate> candidates,
                        const TuningOptions& options) {
    options.progress({0, candidates.size(), "", 0, 0});
    return std::vector<TuningResult>(candidates.size(), finished_in(1));
  };

  (void)spjit::testing_support::search_host_tile(input(), stages, timer, context);

  EXPECT_EQ(done, (std::vector<std::size_t>{0, 1, 2}));
}

TEST_F(HostTileSearch, BatchesHaveNoProgressToReportWhereNobodyListens) {
  (void)search(in_full(2), later_is_faster());

  EXPECT_FALSE(tuning_options_.at(0).progress);
}

TEST_F(HostTileSearch, WhatATimerThrowsEndsTheSearch) {
  const auto stop = [](std::size_t, const HostTuningCandidate&) -> TuningResult {
    throw std::runtime_error("stopped");
  };

  EXPECT_THROW((void)search(in_full(2), stop), std::runtime_error);
}

}  // namespace
