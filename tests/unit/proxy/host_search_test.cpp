
#include <gtest/gtest.h>

#include <set>
#include <span>
#include <string>
#include <vector>

#include "tests/support/host/host_search_testing.hpp"

namespace {

using spjit::CompileOptions;
using spjit::HostTuningCandidate;
using spjit::SearchMode;
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

/// With 100 columns.
spjit::SearchStages stages_of(const CompileOptions& options, std::int64_t nnz) {
  return spjit::search_stages(options.policy.search, options.policy.top_k,
                              spjit::host_proxies_pay(nnz, 100));
}

TEST(SearchStages, AreThoseOfTheMode) {
  CompileOptions options;
  options.policy.top_k = 7;
  constexpr std::int64_t k_much = 100'000;  // x 100 columns: where proxies begin to pay

  options.policy.search = SearchMode::ranked;
  EXPECT_EQ(stages_of(options, k_much).top_k, 7U);
  EXPECT_TRUE(stages_of(options, k_much).stand_ins);
  EXPECT_FALSE(stages_of(options, k_much - 1).stand_ins);
  options.policy.search = SearchMode::proxy;
  EXPECT_EQ(stages_of(options, k_much).top_k, k_all);
  EXPECT_TRUE(stages_of(options, k_much).stand_ins);
  EXPECT_FALSE(stages_of(options, k_much - 1).stand_ins);
  options.policy.search = SearchMode::exhaustive;
  EXPECT_EQ(stages_of(options, k_much).top_k, k_all);
  EXPECT_FALSE(stages_of(options, k_much).stand_ins);
}

TEST_F(HostTileSearch, RanksTheHeuristicsChoiceFirstThenByScore) {
  const HostSearch found = search(in_full(4), later_is_faster());

  ASSERT_GT(found.tiles.size(), 5U);
  EXPECT_EQ(found.tiles[0].tile, heuristic_);
  for (std::size_t i = 2; i < found.tiles.size(); ++i) {
    EXPECT_GE(found.tiles[i - 1].score, found.tiles[i].score);
  }
}

TEST_F(HostTileSearch, TimesWholeKernelsOfTheContendersOnly) {
  const HostSearch found = search(in_full(4), later_is_faster());

  EXPECT_FALSE(found.proxies);
  ASSERT_EQ(batches_.size(), 1U);
  EXPECT_EQ(timed_in(0).size(), 4U);
  for (std::size_t i = 0; i < found.tiles.size(); ++i) {
    EXPECT_FALSE(found.tiles[i].proxy);
    EXPECT_EQ(found.tiles[i].full.has_value(), i < 4) << i;
    EXPECT_EQ(timed_in(0).count(to_string(found.tiles[i].tile)), i < 4 ? 1U : 0U) << i;
  }
}

TEST_F(HostTileSearch, ContendersHaveTheStatisticsOfTheirRealGrouping) {
  const HostSearch found = search(in_full(4), later_is_faster());

  for (std::size_t i = 0; i < 4; ++i) {
    const auto grouping =
        spjit::group_rows(*problem_.a, found.tiles[i].tile.m1, options_.policy.reorder);
    EXPECT_EQ(found.tiles[i].grouping.nnc_sum,
              spjit::compute_statistics(*problem_.a, grouping).nnc_sum);
  }
}

TEST_F(HostTileSearch, WithoutContendersTimesWholeKernelsOfAllSurvivors) {
  const HostSearch found = search(in_full(k_all), later_is_faster());

  EXPECT_EQ(timed_in(0).size(), found.tiles.size());
  for (const spjit::TileCandidate& survivor : found.space.survivors()) {
    EXPECT_EQ(timed_in(0).count(to_string(survivor.tile)), 1U) << to_string(survivor.tile);
  }
  for (const SearchedHostTile& tile : found.tiles) {
    EXPECT_FALSE(tile.proxy);
    EXPECT_EQ(tile.full->timing.median_us, seen_.at(to_string(tile.tile)));
  }
}

TEST_F(HostTileSearch, TakesTheFastestOfThoseTimedInFullWithItsArtifact) {
  for (const std::size_t fastest : {0U, 2U, 3U}) {
    std::string wanted;
    const auto formula = [&](std::size_t, const HostTuningCandidate& candidate) {
      return finished_in(to_string(candidate.tile) == wanted ? 10 : 20);
    };
    wanted = to_string(search(in_full(4), later_is_faster()).tiles[fastest].tile);

    const HostSearch found = search(in_full(4), formula);

    EXPECT_TRUE(found.timed);
    EXPECT_EQ(found.chosen, fastest);
    EXPECT_EQ(spjit::read_program(found.artifact->image()).tile, found.tiles[fastest].tile);
  }
}

TEST_F(HostTileSearch, ProxiesOfAllSurvivorsChooseTheFinalists) {
  const HostSearch found = search(with_proxies(k_all, 2), later_is_faster());

  EXPECT_TRUE(found.proxies);
  ASSERT_EQ(batches_.size(), 2U);
  EXPECT_EQ(timed_in(0).size(), found.tiles.size());
  // The two fastest proxies are those that came last, and the heuristic's choice is one more.
  const auto& proxies = batches_[0];
  const std::set<std::string> finalists = {to_string(proxies.back().tile),
                                           to_string(proxies[proxies.size() - 2].tile),
                                           to_string(heuristic_)};
  EXPECT_EQ(timed_in(1), finalists);
  EXPECT_EQ(names_of(found, &SearchedHostTile::full), finalists);
  EXPECT_EQ(to_string(found.tiles[found.chosen].tile), to_string(proxies.back().tile));
}

TEST_F(HostTileSearch, ProxiesOfTheContendersOnly) {
  const HostSearch found = search(with_proxies(6, 2), later_is_faster());

  EXPECT_EQ(timed_in(0).size(), 6U);
  for (std::size_t i = 0; i < found.tiles.size(); ++i) {
    EXPECT_EQ(found.tiles[i].proxy.has_value(), i < 6) << i;
  }
}

TEST_F(HostTileSearch, ProxiesDoNotDecideAmongTheFinalists) {
  const Formula proxies = later_is_faster();
  // In full the other way round.
  const auto formula = [&](std::size_t batch, const HostTuningCandidate& candidate) {
    const double us = proxies(batch, candidate).timing.median_us;
    return finished_in(batch == 0 ? us : 2000 - us);
  };

  const HostSearch found = search(with_proxies(k_all, 3), formula);

  const auto full_us = [&](std::size_t i) { return found.tiles[i].full->timing.median_us; };
  for (std::size_t i = 0; i < found.tiles.size(); ++i) {
    if (!found.tiles[i].full) continue;
    EXPECT_LE(full_us(found.chosen), full_us(i));
    EXPECT_GE(found.tiles[found.chosen].proxy->timing.median_us,
              found.tiles[i].proxy->timing.median_us);
  }
}

TEST_F(HostTileSearch, MakesNoProxiesWhereAllWouldBeFinalists) {
  const HostSearch few = search(with_proxies(4, 3), later_is_faster());

  EXPECT_FALSE(few.proxies);
  EXPECT_EQ(batches_.size(), 1U);
  EXPECT_TRUE(names_of(few, &SearchedHostTile::proxy).empty());
  EXPECT_EQ(names_of(few, &SearchedHostTile::full).size(), 4U);
}

TEST_F(HostTileSearch, WithoutFinalistsBothTimesOfAllAreKnown) {
  const HostSearch found = search(with_proxies(6, k_all), later_is_faster());

  EXPECT_TRUE(found.proxies);
  EXPECT_EQ(names_of(found, &SearchedHostTile::proxy).size(), 6U);
  EXPECT_EQ(names_of(found, &SearchedHostTile::full), names_of(found, &SearchedHostTile::proxy));
}

TEST_F(HostTileSearch, TheHeuristicsChoiceIsTimedInFullEvenIfItsProxyFailed) {
  const Formula others = later_is_faster();
  const auto formula = [&](std::size_t batch, const HostTuningCandidate& candidate) {
    if (candidate.tile != heuristic_) return others(batch, candidate);
    return batch == 0 ? failed_because("bad proxy") : finished_in(1);
  };

  const HostSearch found = search(with_proxies(k_all, 2), formula);

  EXPECT_EQ(found.tiles[0].proxy->failure, "bad proxy");
  EXPECT_EQ(timed_in(1).size(), 3U);
  EXPECT_EQ(found.tiles[0].full->outcome, TuningOutcome::finished);
  EXPECT_EQ(found.chosen, 0U);
}

TEST_F(HostTileSearch, DroppedProxiesOnlyFillUpTheFinalists) {
  // One finished; of those that were dropped, all have a lesser median.
  std::string finished;
  const auto formula = [&](std::size_t batch, const HostTuningCandidate& candidate) {
    TuningResult result = finished_in(batch == 0 && finished.empty() ? 500 : 100);
    if (batch > 0) return result;
    if (finished.empty()) {
      finished = to_string(candidate.tile);
    } else {
      result.outcome = TuningOutcome::dropped;
    }
    return result;
  };

  const HostSearch found = search(with_proxies(k_all, 1), formula);

  EXPECT_EQ(names_of(found, &SearchedHostTile::full),
            (std::set<std::string>{finished, to_string(heuristic_)}));
}

TEST_F(HostTileSearch, AFailedCandidateIsRecordedWithItsReasonAndTheOthersGoOn) {
  const auto formula = [&](std::size_t, const HostTuningCandidate& candidate) {
    return candidate.tile == heuristic_ ? failed_because("illegal instruction") : finished_in(10);
  };

  const HostSearch found = search(in_full(5), formula);

  EXPECT_EQ(found.tiles[0].full->outcome, TuningOutcome::failed);
  EXPECT_EQ(found.tiles[0].full->failure, "illegal instruction");
  for (std::size_t i = 1; i < 5; ++i) {
    EXPECT_EQ(found.tiles[i].full->outcome, TuningOutcome::finished) << i;
  }
  EXPECT_TRUE(found.timed);
  EXPECT_NE(found.chosen, 0U);
}

TEST_F(HostTileSearch, WhereAllFailTheHeuristicsChoiceIsTakenUntimed) {
  const auto fail = [](std::size_t, const HostTuningCandidate&) {
    return failed_because("no luck");
  };
  for (const HostSearchStages& stages : {in_full(5), with_proxies(k_all, 3)}) {
    const HostSearch found = search(stages, fail);

    EXPECT_FALSE(found.timed);
    EXPECT_EQ(found.chosen, 0U);
    EXPECT_EQ(spjit::read_program(found.artifact->image()).tile, heuristic_);
    EXPECT_EQ(found.tiles[0].full->failure, "no luck");
  }
}

TEST_F(HostTileSearch, TheArtifactIsWhatInstantModeMakesOfTheTile) {
  options_.policy.search = SearchMode::instant;
  const auto no_timer = [](std::span<const HostTuningCandidate>, const TuningOptions&) {
    return std::vector<TuningResult>();
  };
  const spjit::DeviceInfo device = limits_;
  const spjit::Cancellation never;
  const spjit::FamilyRequest what{problem_, options_, device, never};
  const auto instant = spjit::build_host_choice({what, {}}, no_timer);

  const HostSearch found =
      search(in_full(5), [&](std::size_t, const HostTuningCandidate& candidate) {
        return finished_in(candidate.tile == heuristic_ ? 1 : 2);
      });

  EXPECT_EQ(found.chosen, 0U);
  EXPECT_TRUE(same_code(*found.artifact, instant.artifact));
  EXPECT_EQ(found.artifact->program, instant.artifact.program);
}

TEST_F(HostTileSearch, FindsATileForMatricesWithoutEntriesAndOfOneRow) {
  for (const spjit::CsrMatrix& matrix :
       {spjit::CsrMatrix{3, 4, {0, 0, 0, 0}, {}, {}}, spjit::CsrMatrix{1, 4, {0, 1}, {2}, {5}}}) {
    problem_.a = matrix;
    choose_by_rules();

    const HostSearch found = search(in_full(k_all), later_is_faster());

    EXPECT_TRUE(found.timed);
    EXPECT_EQ(spjit::read_program(found.artifact->image()).tile, found.tiles[found.chosen].tile);
  }
}

}  // namespace
