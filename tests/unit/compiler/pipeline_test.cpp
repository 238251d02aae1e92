#include "compiler/pipeline.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/spmm_testing.hpp"

namespace {

using spjit::CompiledArtifact;
using spjit::CompileOptions;
using spjit::HostArtifact;
using spjit::HostIsa;
using spjit::HostLimits;
using spjit::TimedCandidate;
using spjit::testing_support::random_matrix;

HostLimits limits() {
  HostLimits limits;
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
std::vector<TimedCandidate> no_timing(const std::vector<HostArtifact>& artifacts) {
  ADD_FAILURE() << artifacts.size() << " artifacts were timed";
  return std::vector<TimedCandidate>(artifacts.size());
}

/// A clock by which less text is faster.
std::vector<TimedCandidate> time_by_size(const std::vector<HostArtifact>& artifacts) {
  std::vector<TimedCandidate> times(artifacts.size());
  for (std::size_t i = 0; i < times.size(); ++i) {
    times[i].median_us = static_cast<double>(artifacts[i].text.size());
    times[i].samples = 1;
  }
  return times;
}

TEST(Pipeline, TheHeuristicTimesNothing) {
  const auto matrix = random_matrix(60, 70, 0.8);

  const CompiledArtifact compiled =
      spjit::compile_host(matrix, base_options(), limits(), no_timing);

  const auto record = spjit::read_program(compiled.artifact.image());
  EXPECT_EQ(record.kind, spjit::KernelKind::unrolled);
  EXPECT_EQ(record.tile, compiled.trace.tile);
  EXPECT_EQ(compiled.trace.tile, spjit::plan_choice(matrix, base_options(), limits()).tile);
  EXPECT_EQ(compiled.trace.reason, spjit::plan_choice(matrix, base_options(), limits()).reason);
  EXPECT_TRUE(compiled.trace.timed.empty());
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
  options.search = spjit::SearchMode::exhaustive;

  const CompiledArtifact compiled = spjit::compile_host(matrix, options, limits(), time_by_size);

  double best = compiled.trace.timed.front().median_us;
  for (const TimedCandidate& timed : compiled.trace.timed) {
    best = std::min(best, timed.median_us);
  }
  EXPECT_EQ(static_cast<double>(compiled.artifact.text.size()), best);
  EXPECT_GE(compiled.trace.timed.size(), compiled.trace.space.survivors().size());
  EXPECT_EQ(spjit::read_program(compiled.artifact.image()).tile, compiled.trace.tile);
  EXPECT_NE(compiled.trace.reason.find(", 0 not reached"), std::string::npos);
}

TEST(Pipeline, ASearchWithoutTimeKeepsTheHeuristicsChoice) {
  const auto matrix = random_matrix(60, 300, 0.8);
  CompileOptions options = base_options();
  options.search = spjit::SearchMode::exhaustive;
  options.search_budget_ms = 0;

  const CompiledArtifact compiled = spjit::compile_host(matrix, options, limits(), no_timing);

  EXPECT_EQ(compiled.trace.tile, spjit::plan_choice(matrix, options, limits()).tile);
}

TEST(Pipeline, CandidatesThatFailAreRecordedAndNeverChosen) {
  const auto matrix = random_matrix(60, 300, 0.8);
  CompileOptions options = base_options();
  options.search = spjit::SearchMode::exhaustive;
  const auto only_the_first_works = [](const std::vector<HostArtifact>& artifacts) {
    std::vector<TimedCandidate> times = time_by_size(artifacts);
    for (std::size_t i = 1; i < times.size(); ++i) times[i] = {{}, 0, 0, 0, 0, "failed"};
    return times;
  };

  const CompiledArtifact compiled =
      spjit::compile_host(matrix, options, limits(), only_the_first_works);

  EXPECT_EQ(compiled.trace.tile, spjit::plan_choice(matrix, options, limits()).tile);
  EXPECT_GT(std::ranges::count_if(compiled.trace.timed,
                                  [](const TimedCandidate& t) { return t.failure == "failed"; }),
            0);
}

TEST(Pipeline, NoKernelOfAnySearchIsOverTheCodeBudget) {
  const auto matrix = random_matrix(60, 300, 0.8);
  const auto free_choice = spjit::compile_host(matrix, base_options(), limits(), no_timing);
  for (const auto search : {spjit::SearchMode::heuristic, spjit::SearchMode::exhaustive}) {
    CompileOptions options = base_options();
    options.search = search;
    options.code_budget_bytes = static_cast<std::int64_t>(free_choice.artifact.text.size()) - 1;

    const CompiledArtifact compiled = spjit::compile_host(matrix, options, limits(), time_by_size);

    EXPECT_LE(static_cast<std::int64_t>(compiled.artifact.text.size()), options.code_budget_bytes)
        << to_string(search) << ": " << compiled.trace.reason;
  }
}

TEST(Pipeline, ACsrKernelTakesOverAboveTheBudgetAndSaysWhy) {
  const auto matrix = random_matrix(60, 300, 0.8);
  for (const auto search : {spjit::SearchMode::heuristic, spjit::SearchMode::exhaustive}) {
    CompileOptions options = base_options();
    options.search = search;
    options.code_budget_bytes = 1000;

    const CompiledArtifact compiled = spjit::compile_host(matrix, options, limits(), no_timing);

    EXPECT_EQ(spjit::read_program(compiled.artifact.image()).kind, spjit::KernelKind::csr);
    EXPECT_EQ(compiled.trace.reason.rfind("csr: at least ", 0), 0U) << compiled.trace.reason;
    EXPECT_NE(compiled.trace.reason.find("the budget is 1000"), std::string::npos);
  }
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
