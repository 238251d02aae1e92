#include "kernels/host/unrolled/host_tunable.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/host/host_search_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

class HostTunableTest : public HostTileSearch {
 protected:
  [[nodiscard]] std::unique_ptr<HostTunable> space(const HostTuning& tuning = {}) const {
    return std::make_unique<HostTunable>(input(), timer_by(time_by_size), tuning);
  }
};

TEST_F(HostTunableTest, CandidatesWidthsAreThoseOfTheTargetsVectors) {
  for (const HostIsa isa : {HostIsa::avx512, HostIsa::avx2}) {
    options_.target = Target(isa);
    const std::unique_ptr<HostTunable> space = this->space();

    const std::vector<SearchCandidate> candidates = space->candidates();

    ASSERT_GT(candidates.size(), 5U);
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      EXPECT_EQ(candidates[i].tile, to_string(space->tile(i)));
      EXPECT_EQ(candidates[i].m1, space->tile(i).m1);
      EXPECT_EQ(candidates[i].n1, space->tile(i).nv * lanes_of(isa));
    }
  }
}

TEST_F(HostTunableTest, ATileWithoutABuildIsMadeEvenOverTheCodeBudget) {
  options_.policy.code_budget_bytes = 1;
  const std::unique_ptr<HostTunable> space = this->space();
  constexpr std::size_t k_candidates[] = {0};

  const auto build = space->build(k_candidates, Fidelity::full, {});
  const HostArtifact artifact = space->artifact(0, nullptr);

  EXPECT_THAT(build->failure, testing::EndsWith("bytes of code, the budget is 1"));
  EXPECT_EQ(read_program(artifact.image()).tile, heuristic_);
}

TEST_F(HostTunableTest, WhatIsCancelledIsAFailure) {
  const std::unique_ptr<HostTunable> space = this->space();
  constexpr std::size_t k_candidates[] = {1};
  Cancellation past;
  past.deadline = std::chrono::steady_clock::now();

  const auto given_up = space->build(k_candidates, Fidelity::full, past);
  const auto again = space->build(k_candidates, Fidelity::full, {});

  EXPECT_THAT(given_up->failure, testing::HasSubstr("deadline"));
  EXPECT_EQ(again->failure, "");
}

TEST_F(HostTunableTest, GenericCodeIsBuiltOneAfterTheOther) {
  options_.target = Target(HostIsa::generic);
  options_.resources.parallel_compiles = 4;

  EXPECT_EQ(space()->traits().full_builders, 1);
}

/// Everything that was timed, in its order: tiles and code.
class ConcurrentHostTileSearch : public HostTunableTest {
 protected:
  struct Timed {
    HostTile tile;
    std::vector<std::uint8_t> text;
    friend bool operator==(const Timed&, const Timed&) = default;
  };

  std::vector<std::vector<Timed>> timed_by(int builders, HostSearchStages stages) {
    stages.builders = builders;
    batches_.clear();
    seen_.clear();
    std::vector<std::vector<Timed>> all;
    const Formula formula = later_is_faster();
    HostTunable space(
        input(),
        [&](std::span<const HostTuningCandidate> candidates, const TuningOptions&) {
          std::vector<TuningResult> results;
          all.emplace_back();
          for (const HostTuningCandidate& candidate : candidates) {
            all.back().push_back({candidate.tile, candidate.artifact->text});
            results.push_back(formula(all.size(), candidate));
          }
          return results;
        },
        stages);
    SearchSettings settings;
    settings.stages = stages;
    chosen_ = spjit::search(space, settings, {}).trace.chosen;
    return all;
  }

  std::size_t chosen_ = 0;
};

TEST_F(ConcurrentHostTileSearch, TimesTheSameCodeInTheSameOrderAsOneThread) {
  HostSearchStages small_batches = in_full(12);
  small_batches.batch_bytes = 60'000;
  for (const HostSearchStages& stages : {with_proxies(k_all, 3), in_full(k_all), small_batches}) {
    const auto expected = timed_by(1, stages);
    const std::size_t chosen = chosen_;

    const auto found = timed_by(4, stages);

    EXPECT_EQ(found, expected);
    EXPECT_EQ(chosen_, chosen);
    EXPECT_FALSE(found.empty());
  }
}

}  // namespace
