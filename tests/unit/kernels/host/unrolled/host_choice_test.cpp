#include "kernels/host/unrolled/host_choice.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "kernels/host/unrolled/host_program.hpp"
#include "tests/support/compile_testing.hpp"
#include "tests/support/host/host_tuning_testing.hpp"
#include "tests/support/request_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

CompileOptions base_options(SearchMode search = SearchMode::instant) {
  CompileOptions options;
  options.target = Target(HostIsa::avx512);
  options.policy.search = search;
  return options;
}

/// Must not be called.
std::vector<TuningResult> no_timing(std::span<const HostTuningCandidate> candidates,
                                    const TuningOptions&) {
  ADD_FAILURE() << candidates.size() << " kernels were timed";
  return std::vector<TuningResult>(candidates.size());
}

BuiltHost compile_host(const CsrMatrix& matrix, const CompileOptions& options,
                       const TimeHostKernels& timer) {
  const OwnRequest own(problem_of(matrix, 96), options, made_up_host());
  return build_host_choice(own.request, timer);
}

HostChoiceTrace plan_choice(const CsrMatrix& matrix, const CompileOptions& options) {
  const OwnRequest own(problem_of(matrix, 96), options, made_up_host());
  return host_choice_by_rules(own.what);
}

TEST(HostChoice, InstantModeTimesNothingAndTakesTheHeuristicsChoice) {
  const auto matrix = random_matrix(60, 70, 0.8);

  const BuiltHost compiled = compile_host(matrix, base_options(), no_timing);

  const auto record = read_program(compiled.artifact.image());
  EXPECT_EQ(record.header.family, "unrolled");
  EXPECT_EQ(record.tile, compiled.trace.tile);
  EXPECT_EQ(compiled.trace.tile, plan_choice(matrix, base_options()).tile);
  EXPECT_EQ(compiled.trace.reason, plan_choice(matrix, base_options()).reason);
  EXPECT_TRUE(compiled.trace.search.entries.empty());
}

TEST(HostChoice, TheSameInputGivesTheSameArtifact) {
  const auto matrix = random_matrix(60, 70, 0.8);

  const auto one = compile_host(matrix, base_options(), no_timing);
  const auto two = compile_host(matrix, base_options(), no_timing);

  EXPECT_EQ(one.artifact.text, two.artifact.text);
  EXPECT_EQ(one.artifact.weights, two.artifact.weights);
  EXPECT_EQ(one.artifact.program, two.artifact.program);
}

TEST(HostChoice, ExhaustiveSearchTakesTheFastestOfAllSurvivors) {
  const auto matrix = random_matrix(60, 300, 0.8);
  const CompileOptions options = base_options(SearchMode::exhaustive);

  const BuiltHost compiled = compile_host(matrix, options, timer_by(time_by_size));

  const SearchTrace& search = compiled.trace.search;
  double best = search.entries.front().full->timing.median_us;
  for (const SearchTraceEntry& tile : search.entries) {
    ASSERT_EQ(tile.full->outcome, TuningOutcome::finished) << tile.tile;
    best = std::min(best, tile.full->timing.median_us);
  }
  EXPECT_EQ(static_cast<double>(compiled.artifact.text.size()), best);
  EXPECT_GE(search.entries.size(), compiled.trace.space.survivors().size());
  EXPECT_EQ(read_program(compiled.artifact.image()).tile, compiled.trace.tile);
  EXPECT_EQ(search.entries[search.chosen].tile, to_string(compiled.trace.tile));
  const std::string all = std::to_string(search.entries.size());
  EXPECT_EQ(compiled.trace.reason, "exhaustive: fastest of " + all + " timed in full, of " + all +
                                       " tiles that the rules leave of " +
                                       std::to_string(compiled.trace.space.candidates.size()));
}

TEST(HostChoice, TheReasonCountsProxies) {
  OwnRequest own(problem_of(random_matrix(60, 300, 0.8), 96), base_options(SearchMode::proxy),
                 made_up_host());
  SearchSettings settings;
  settings.stages.finalists = 2;
  own.request.search = [&](TunableSpace& space, auto) { return search(space, settings, {}); };

  const BuiltHost compiled = build_host_choice(own.request, timer_by(time_by_size));

  const std::string all = std::to_string(compiled.trace.search.entries.size());
  EXPECT_THAT(compiled.trace.reason,
              testing::ContainsRegex("^proxy: fastest of [23] timed in full, the best of " + all +
                                     " timed by proxy, of " + all + " tiles"));
}

TEST(HostChoice, ASearchWithoutTimeKeepsTheHeuristicsChoiceAndSaysSo) {
  const auto matrix = random_matrix(60, 300, 0.8);
  for (const auto mode : {SearchMode::ranked, SearchMode::proxy, SearchMode::exhaustive}) {
    CompileOptions options = base_options(mode);
    options.policy.search_budget_ms = 0;

    const BuiltHost compiled = compile_host(matrix, options, no_timing);

    const HostTile heuristic = plan_choice(matrix, options).tile;
    EXPECT_EQ(compiled.trace.tile, heuristic);
    EXPECT_EQ(read_program(compiled.artifact.image()).tile, heuristic);
    EXPECT_THAT(compiled.trace.reason, testing::HasSubstr("ranked, not timed"));
  }
}

TEST(HostChoice, CandidatesThatFailAreRecordedAndNeverChosen) {
  const auto matrix = random_matrix(60, 300, 0.8);
  const CompileOptions options = base_options(SearchMode::exhaustive);
  const HostTile heuristic = plan_choice(matrix, options).tile;
  const auto only_the_heuristic_works = [&](const HostTuningCandidate& candidate) {
    return candidate.tile == heuristic ? finished_in(1e9) : failed_because("no luck");
  };

  const BuiltHost compiled = compile_host(matrix, options, timer_by(only_the_heuristic_works));

  EXPECT_EQ(compiled.trace.tile, heuristic);
  for (const SearchTraceEntry& tile : compiled.trace.search.entries) {
    EXPECT_EQ(tile.full->failure, tile.tile == to_string(heuristic) ? "" : "no luck");
  }
  EXPECT_GT(compiled.trace.search.entries.size(), 1U);
}

TEST(HostChoice, ASearchOfWhichNothingRunsKeepsTheHeuristicsChoiceAndSaysWhy) {
  const auto matrix = random_matrix(60, 300, 0.8);
  const CompileOptions options = base_options(SearchMode::ranked);
  const auto fail = [](const HostTuningCandidate&) { return failed_because("no luck"); };

  const BuiltHost compiled = compile_host(matrix, options, timer_by(fail));

  EXPECT_EQ(compiled.trace.tile, plan_choice(matrix, options).tile);
  EXPECT_FALSE(compiled.trace.search.timed);
  EXPECT_EQ(compiled.trace.reason, "ranked: ranked, not timed: nothing ran, no luck");
}

TEST(HostChoice, AForcedPanelWidthIsThePanelsWidth) {
  for (const std::int64_t width : {16, 32, 48, 80, 128}) {
    Problem problem = problem_of(random_matrix(60, 70, 0.8), 100);
    problem.panel_columns = width;
    const OwnRequest own(problem, base_options(), made_up_host());

    const auto compiled = build_host_choice(own.request, no_timing);

    const auto record = read_program(compiled.artifact.image());
    EXPECT_EQ(record.tile.nv * 16, width);
    EXPECT_EQ(record.in_place_ldb, 0);
  }
}

}  // namespace
