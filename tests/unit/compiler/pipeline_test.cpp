#include "compiler/pipeline.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <vector>

#include "kernels/sliced/sliced_kernel.hpp"
#include "tests/support/host_tuning_testing.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using spjit::CompiledArtifact;
using spjit::CompileOptions;
using spjit::HostDeviceInfo;
using spjit::HostIsa;
using spjit::HostTuningCandidate;
using spjit::SearchMode;
using spjit::SearchTraceEntry;
using spjit::TuningResult;
using spjit::testing_support::race_by;
using spjit::testing_support::random_matrix;
using spjit::testing_support::time_by_size;

constexpr std::array<SearchMode, 4> k_modes = {SearchMode::instant, SearchMode::ranked,
                                               SearchMode::proxy, SearchMode::exhaustive};

HostDeviceInfo limits() {
  HostDeviceInfo limits;
  limits.isa = HostIsa::avx512;
  limits.lanes = 16;
  limits.registers = 32;
  return limits;
}

CompileOptions base_options(std::int64_t n = 96) {
  CompileOptions options;
  options.n = n;
  options.target = spjit::Target(HostIsa::avx512);
  return options;
}

/// Must not be called.
std::vector<TuningResult> no_timing(std::span<const HostTuningCandidate> contestants,
                                    const spjit::TuningOptions&) {
  ADD_FAILURE() << contestants.size() << " kernels were timed";
  return std::vector<TuningResult>(contestants.size());
}

TEST(Pipeline, InstantModeTimesNothingAndTakesTheHeuristicsChoice) {
  const auto matrix = random_matrix(60, 70, 0.8);

  const CompiledArtifact compiled =
      spjit::compile_host(matrix, base_options(), limits(), no_timing);

  const auto record = spjit::read_program(compiled.artifact.image());
  EXPECT_EQ(record.kind, spjit::KernelKind::unrolled);
  EXPECT_EQ(record.tile, compiled.trace.tile);
  EXPECT_EQ(compiled.trace.tile, spjit::plan_choice(matrix, base_options(), limits()).tile);
  EXPECT_EQ(compiled.trace.reason, spjit::plan_choice(matrix, base_options(), limits()).reason);
  EXPECT_TRUE(compiled.trace.search.entries.empty());
}

TEST(Pipeline, TheSameInputGivesTheSameArtifact) {
  const auto matrix = random_matrix(60, 70, 0.8);

  const auto one = spjit::compile_host(matrix, base_options(), limits(), no_timing);
  const auto two = spjit::compile_host(matrix, base_options(), limits(), no_timing);

  EXPECT_EQ(one.artifact.text, two.artifact.text);
  EXPECT_EQ(one.artifact.weights, two.artifact.weights);
  EXPECT_EQ(one.artifact.program, two.artifact.program);
}

TEST(Pipeline, ExhaustiveSearchTakesTheFastestOfAllSurvivors) {
  const auto matrix = random_matrix(60, 300, 0.8);
  CompileOptions options = base_options();
  options.policy.search = SearchMode::exhaustive;

  const CompiledArtifact compiled =
      spjit::compile_host(matrix, options, limits(), race_by(time_by_size));

  const spjit::SearchTrace& search = compiled.trace.search;
  double best = search.entries.front().full->timing.median_us;
  for (const SearchTraceEntry& tile : search.entries) {
    ASSERT_EQ(tile.full->outcome, spjit::TuningOutcome::finished) << tile.tile;
    best = std::min(best, tile.full->timing.median_us);
  }
  EXPECT_EQ(static_cast<double>(compiled.artifact.text.size()), best);
  EXPECT_GE(search.entries.size(), compiled.trace.space.survivors().size());
  EXPECT_EQ(spjit::read_program(compiled.artifact.image()).tile, compiled.trace.tile);
  EXPECT_EQ(search.entries[search.chosen].tile, to_string(compiled.trace.tile));
  const std::string all = std::to_string(search.entries.size());
  EXPECT_EQ(compiled.trace.reason, "exhaustive: fastest of " + all + " timed in full, of " + all +
                                       " tiles that the rules leave of " +
                                       std::to_string(compiled.trace.space.candidates.size()));
}

TEST(Pipeline, TheReasonCountsProxies) {
  const auto matrix = random_matrix(60, 300, 0.8);
  CompileOptions options = base_options();
  options.policy.search = SearchMode::proxy;
  spjit::SearchStages stages;
  stages.finalists = 2;

  const CompiledArtifact compiled =
      spjit::compile_host(matrix, options, limits(), race_by(time_by_size), {.stages = stages});

  const std::string all = std::to_string(compiled.trace.search.entries.size());
  EXPECT_THAT(compiled.trace.reason,
              testing::ContainsRegex("^proxy: fastest of [23] timed in full, the best of " + all +
                                     " timed by proxy, of " + all + " tiles"));
}

TEST(Pipeline, ASearchWithoutTimeKeepsTheHeuristicsChoiceAndSaysSo) {
  const auto matrix = random_matrix(60, 300, 0.8);
  for (const auto mode : {SearchMode::ranked, SearchMode::proxy, SearchMode::exhaustive}) {
    CompileOptions options = base_options();
    options.policy.search = mode;
    options.policy.search_budget_ms = 0;

    const CompiledArtifact compiled = spjit::compile_host(matrix, options, limits(), no_timing);

    const spjit::HostTile heuristic = spjit::plan_choice(matrix, options, limits()).tile;
    EXPECT_EQ(compiled.trace.tile, heuristic);
    EXPECT_EQ(spjit::read_program(compiled.artifact.image()).tile, heuristic);
    EXPECT_THAT(compiled.trace.reason, testing::HasSubstr("ranked, not timed"));
  }
}

TEST(Pipeline, CandidatesThatFailAreRecordedAndNeverChosen) {
  const auto matrix = random_matrix(60, 300, 0.8);
  CompileOptions options = base_options();
  options.policy.search = SearchMode::exhaustive;
  const spjit::HostTile heuristic = spjit::plan_choice(matrix, options, limits()).tile;
  const auto only_the_heuristic_works = [&](const HostTuningCandidate& contestant) {
    return contestant.tile == heuristic ? spjit::testing_support::finished_in(1e9)
                                        : spjit::testing_support::failed_because("no luck");
  };

  const CompiledArtifact compiled =
      spjit::compile_host(matrix, options, limits(), race_by(only_the_heuristic_works));

  EXPECT_EQ(compiled.trace.tile, heuristic);
  for (const SearchTraceEntry& tile : compiled.trace.search.entries) {
    EXPECT_EQ(tile.full->failure, tile.tile == to_string(heuristic) ? "" : "no luck");
  }
  EXPECT_GT(compiled.trace.search.entries.size(), 1U);
}

TEST(Pipeline, ASearchOfWhichNothingRunsKeepsTheHeuristicsChoiceAndSaysWhy) {
  const auto matrix = random_matrix(60, 300, 0.8);
  CompileOptions options = base_options();
  options.policy.search = SearchMode::ranked;
  const auto fail = [](const HostTuningCandidate&) {
    return spjit::testing_support::failed_because("no luck");
  };

  const CompiledArtifact compiled = spjit::compile_host(matrix, options, limits(), race_by(fail));

  EXPECT_EQ(compiled.trace.tile, spjit::plan_choice(matrix, options, limits()).tile);
  EXPECT_FALSE(compiled.trace.search.timed);
  EXPECT_EQ(compiled.trace.reason, "ranked: ranked, not timed: nothing ran, no luck");
}

TEST(Pipeline, NoKernelOfAnySearchIsOverTheCodeBudget) {
  const auto matrix = random_matrix(60, 300, 0.8);
  const auto free_choice = spjit::compile_host(matrix, base_options(), limits(), no_timing);
  for (const auto search : k_modes) {
    CompileOptions options = base_options();
    options.policy.search = search;
    options.policy.code_budget_bytes = static_cast<std::int64_t>(free_choice.artifact.text.size()) - 1;

    const CompiledArtifact compiled =
        spjit::compile_host(matrix, options, limits(), race_by(time_by_size));

    EXPECT_LE(static_cast<std::int64_t>(compiled.artifact.text.size()), options.policy.code_budget_bytes)
        << to_string(search) << ": " << compiled.trace.reason;
  }
}

TEST(Pipeline, ACsrKernelTakesOverAboveTheBudgetAndSaysWhy) {
  const auto matrix = random_matrix(60, 300, 0.8);
  for (const auto search : k_modes) {
    CompileOptions options = base_options();
    options.policy.search = search;
    options.policy.code_budget_bytes = 1000;

    const CompiledArtifact compiled = spjit::compile_host(matrix, options, limits(), no_timing);

    EXPECT_EQ(spjit::read_program(compiled.artifact.image()).kind, spjit::KernelKind::csr);
    EXPECT_EQ(compiled.trace.reason.rfind("csr: at least ", 0), 0U) << compiled.trace.reason;
    EXPECT_NE(compiled.trace.reason.find("the budget is 1000"), std::string::npos);
  }
}

TEST(Pipeline, AFewColumnsAreSlicedUnlessTheyComeInPanels) {
  const auto matrix = random_matrix(60, 300, 0.8);
  const auto compile = [&](const CompileOptions& options) {
    return spjit::compile_host(matrix, options, limits(), no_timing);
  };
  const auto kind_of = [](const CompiledArtifact& compiled) {
    return spjit::read_program(compiled.artifact.image()).kind;
  };
  for (const auto search : k_modes) {
    for (std::int64_t n = 1; n <= spjit::k_most_sliced_columns; ++n) {
      CompileOptions options = base_options(n);
      options.policy.search = search;

      const CompiledArtifact compiled = compile(options);

      EXPECT_EQ(kind_of(compiled), spjit::KernelKind::sliced) << n;
      EXPECT_TRUE(compiled.trace.reason.starts_with("sliced: n is ")) << compiled.trace.reason;
    }
  }
  CompileOptions panels = base_options(1);
  panels.panel_columns = 16;
  EXPECT_EQ(kind_of(compile(panels)), spjit::KernelKind::unrolled);
  EXPECT_EQ(kind_of(compile(base_options(spjit::k_most_sliced_columns + 1))),
            spjit::KernelKind::unrolled);
}

TEST(Pipeline, AForcedPanelWidthIsThePanelsWidth) {
  CompileOptions options = base_options(100);
  for (const std::int64_t width : {16, 32, 48, 80, 128}) {
    options.panel_columns = width;

    const auto compiled =
        spjit::compile_host(random_matrix(60, 70, 0.8), options, limits(), no_timing);

    const auto record = spjit::read_program(compiled.artifact.image());
    EXPECT_EQ(record.tile.nv * 16, width);
    EXPECT_EQ(record.in_place_ldb, 0);
  }
}

}  // namespace
