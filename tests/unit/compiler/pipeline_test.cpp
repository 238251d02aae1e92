// Which family of kernels gets a problem, and what it says of it.

#include "compiler/pipeline.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "artifact/families.hpp"
#include "artifact/kernel_files.hpp"
#include "kernels/host/windows/windows_kernel.hpp"
#include "spjit/error.hpp"
#include "tests/support/compile_testing.hpp"
#include "tests/support/request_testing.hpp"
#include "tests/unit/compiler/toy_family.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::array<SearchMode, 4> k_modes = {SearchMode::instant, SearchMode::ranked,
                                               SearchMode::proxy, SearchMode::exhaustive};

CompileOptions base_options(SearchMode search = SearchMode::instant) {
  CompileOptions options = options_of(HostIsa::avx512);
  options.policy.search = search;
  return options;
}

/// What the families make of a problem on a made-up AVX-512 host. Nothing is timed.
CompiledKernel compile_for(const Problem& problem, const CompileOptions& options,
                           std::span<const KernelFamily* const> families = families_for(Target())) {
  OwnRequest own(problem, options, made_up_host());
  own.request.search = [&](TunableSpace& space, auto begin) {
    TimedBySize by_size(space);
    return search(by_size, settings_of(options.policy, space, begin), {});
  };
  return compile_problem(own.request, families);
}

std::string reason_in(const CompiledKernel& compiled) {
  return compiled.record.at("search").at("reason").get<std::string>();
}

std::size_t code_bytes(const CompiledKernel& compiled) {
  return read_object(compiled.code->files({}).at(0).bytes, k_object_name).text.size();
}

TEST(Pipeline, NoKernelOfAnySearchIsOverTheCodeBudget) {
  const auto matrix = random_matrix(60, 300, 0.8);
  const std::size_t free_choice = code_bytes(compile_for(problem_of(matrix, 96), base_options()));
  ASSERT_GT(free_choice, 0U);
  for (const auto search : k_modes) {
    CompileOptions options = base_options(search);
    options.policy.code_budget_bytes = static_cast<std::int64_t>(free_choice) - 1;

    const CompiledKernel compiled = compile_for(problem_of(matrix, 96), options);

    EXPECT_LT(code_bytes(compiled), free_choice) << to_string(search) << reason_in(compiled);
    EXPECT_EQ(compiled.record.at("family"), compiled.family->name());
  }
}

TEST(Pipeline, AKernelThatTurnsOutOverTheBudgetIsDeclined) {
  const auto matrix = random_matrix(60, 300, 0.8);
  const std::size_t free_choice = code_bytes(compile_for(problem_of(matrix, 96), base_options()));
  CompileOptions options = base_options();
  options.policy.code_budget_bytes = static_cast<std::int64_t>(free_choice) - 1;

  const CompiledKernel compiled = compile_for(problem_of(matrix, 96), options);

  EXPECT_EQ(compiled.record.at("family"), "compact");
  EXPECT_EQ(reason_in(compiled), "compact: " + std::to_string(free_choice) +
                                     " bytes of code, the budget is " +
                                     std::to_string(free_choice - 1));
}

TEST(Pipeline, AKernelThatReadsATakesOverAboveTheBudgetAndSaysWhy) {
  const auto matrix = random_matrix(60, 300, 0.8);
  for (const auto search : k_modes) {
    OwnRequest own(problem_of(matrix, 96), base_options(search), made_up_host());
    own.options.policy.code_budget_bytes = 1000;
    own.request.search = [](TunableSpace&, auto) {
      ADD_FAILURE() << "kernels were to be timed";
      return SearchOutcome{};
    };

    const CompiledKernel compiled = compile_problem(own.request, families_for(own.options.target));

    EXPECT_EQ(compiled.family->name(), "compact");
    EXPECT_THAT(reason_in(compiled), StartsWith("compact: at least "));
    EXPECT_THAT(reason_in(compiled), HasSubstr("the budget is 1000"));
  }
}

TEST(Pipeline, AFewColumnsHaveWindowsUnlessTheyComeInPanels) {
  const auto matrix = random_matrix(60, 300, 0.8);
  const auto family_of = [&](const Problem& problem, SearchMode search = SearchMode::instant) {
    return compile_for(problem, base_options(search)).record.at("family").get<std::string>();
  };
  for (const auto search : k_modes) {
    for (std::int64_t n = 1; n <= k_most_window_columns; ++n) {
      const CompiledKernel compiled = compile_for(problem_of(matrix, n), base_options(search));

      EXPECT_EQ(compiled.record.at("family"), "windows") << n;
      EXPECT_THAT(reason_in(compiled), StartsWith("heuristic: n is " + std::to_string(n)));
    }
  }
  Problem panels = problem_of(matrix, 1);
  panels.panel_columns = 16;
  EXPECT_EQ(family_of(panels), "unrolled");
  EXPECT_EQ(family_of(problem_of(matrix, k_most_window_columns + 1)), "unrolled");
}

/// A race whose times are made up: a family's is where its name stands in `order`.
class Avx512FamilyRace : public testing::Test {
 protected:
  CompiledKernel race(const std::vector<std::string>& order, CompileOptions options) {
    OwnRequest own(problem_, std::move(options), made_up_host());
    own.request.search = [&](TunableSpace& space, auto begin) {
      TimedBySize by_size(space);
      return search(by_size, settings_of(own.options.policy, space, begin), {});
    };
    return compile_problem(
        own.request, families_for(own.options.target), [&](std::span<const RaceEntry> entries) {
          std::vector<TuningResult> results;
          for (const RaceEntry& entry : entries) {
            entered_.push_back(entry.name);
            const auto place = std::ranges::find(order, entry.name);
            if (entry.name == cut_off_) {
              results.emplace_back();
              continue;
            }
            results.push_back(place == order.end()
                                  ? failed_because("it was not to be timed")
                                  : finished_in(static_cast<double>(place - order.begin()) + 1));
          }
          return results;
        });
  }

  void SetUp() override {
    if (!Target(HostIsa::avx512).runs_here()) GTEST_SKIP() << "this CPU has no AVX-512";
  }

  Problem problem_ = problem_of(random_matrix(60, 300, 0.8), 33);
  std::string cut_off_;  ///< a family that the budget leaves no sample
  std::vector<std::string> entered_;
};

TEST_F(Avx512FamilyRace, IsTakenByTheFastestAndTheRecordHasAllTimes) {
  const CompiledKernel compiled =
      race({"csr", "unrolled", "compact"}, base_options(SearchMode::ranked));

  EXPECT_THAT(entered_, ElementsAre("compact", "unrolled", "csr"));
  EXPECT_EQ(compiled.record.at("family"), "csr");
  EXPECT_EQ(reason_in(compiled),
            "ranked: fastest of 3 families, hot: 1.0 us, compact 3.0 us, unrolled 2.0 us");
  EXPECT_EQ(compiled.record.at("verdicts").size(), 5U);  // dense and windows refused
  EXPECT_EQ(compiled.record.at("verdicts").at(2).at("reason"), "3.0 us");
}

TEST_F(Avx512FamilyRace, ThatTimesNothingLeavesTheChoiceToTheRules) {
  const CompiledKernel compiled = race({}, base_options(SearchMode::ranked));

  EXPECT_EQ(compiled.record.at("family"), "unrolled");
  EXPECT_THAT(reason_in(compiled), StartsWith("no families timed: ranked: "));
}

TEST_F(Avx512FamilyRace, ThatTheBudgetCutsOffLeavesTheChoiceToTheRules) {
  cut_off_ = "unrolled";

  const CompiledKernel compiled = race({"compact", "csr"}, base_options(SearchMode::ranked));

  EXPECT_EQ(compiled.record.at("family"), "unrolled");
  EXPECT_EQ(compiled.record.at("verdicts").at(2).at("reason"), "1.0 us");
}

TEST_F(Avx512FamilyRace, IsNotHeldForOneOrForPanels) {
  CompileOptions no_code = base_options(SearchMode::ranked);
  no_code.policy.code_budget_bytes = 0;
  problem_ = problem_of(random_matrix(3, 300'000, 0.9999), 33);
  static_cast<void>(race({"csr"}, no_code));  // the others refuse
  EXPECT_TRUE(entered_.empty());

  problem_ = problem_of(random_matrix(60, 300, 0.8), 33);
  problem_.panel_columns = 16;
  static_cast<void>(race({"csr"}, base_options(SearchMode::ranked)));
  EXPECT_TRUE(entered_.empty());
}

TEST_F(Avx512FamilyRace, IsNotHeldWhereNothingIsToBeTimedOrOneFamilyIsNamed) {
  CompileOptions named = base_options(SearchMode::ranked);
  named.policy.family = "csr";

  static_cast<void>(race({"csr"}, base_options(SearchMode::instant)));
  static_cast<void>(race({"csr"}, named));

  EXPECT_TRUE(entered_.empty());
}

TEST(Pipeline, AColdKernelIsCompactUnlessItsColumnsAreOneOrManyOrInPanels) {
  const auto matrix = random_matrix(60, 300, 0.8);
  const auto family_of = [&](const Problem& problem) {
    CompileOptions options = base_options();
    options.policy.hot = false;
    return compile_for(problem, options).record.at("family").get<std::string>();
  };
  Problem panels = problem_of(matrix, 200);
  panels.panel_columns = 16;
  Problem one_panel = problem_of(matrix, 16);
  one_panel.panel_columns = 16;
  Problem any_n = problem_of(matrix, 5000);
  any_n.n.runtime = true;

  for (const std::int64_t n : {5, 64}) EXPECT_EQ(family_of(problem_of(matrix, n)), "compact") << n;
  EXPECT_EQ(family_of(problem_of(matrix, 1)), "windows");
  EXPECT_EQ(family_of(problem_of(random_matrix(200, 300, 0.8), 768)), "compact");
  EXPECT_EQ(family_of(problem_of(random_matrix(200, 300, 0.8), 769)), "unrolled");
  EXPECT_EQ(family_of(problem_of(random_matrix(100, 9000, 0.96), 8)),
            "csr");  // 4 entries a row of B
  EXPECT_EQ(family_of(problem_of(matrix, 191)), "compact");
  EXPECT_EQ(family_of(problem_of(matrix, 192)), "unrolled");  // 12 entries a row of B, of 60
  EXPECT_EQ(family_of(problem_of(random_matrix(200, 300, 0.94), 192)), "csr");      // 12 of 200
  EXPECT_EQ(family_of(problem_of(random_matrix(400, 300, 0.94), 192)), "compact");  // 24 of 400
  EXPECT_EQ(family_of(panels), "unrolled");
  EXPECT_EQ(family_of(one_panel), "compact");
  EXPECT_EQ(family_of(any_n), "unrolled");
  any_n.n.value = 255;
  EXPECT_EQ(family_of(any_n), "compact");
}

TEST(Pipeline, AKernelOfASmallNetworkIsChosenAsIfItStayedInTheCaches) {
  constexpr std::int64_t k_l2_bytes = 1 << 16;
  constexpr std::int64_t k_l3_bytes = 1 << 20;
  std::int64_t l3_bytes = k_l3_bytes;
  const auto family_of = [&](std::int64_t network_nnz, std::int64_t n, double sparsity = 0.8,
                             std::int64_t rows = 60) {
    CompileOptions options = base_options();
    options.policy.hot = false;
    options.policy.network_nnz = network_nnz;
    HostDeviceInfo host = made_up_host();
    host.l2_bytes = k_l2_bytes;
    host.l3_bytes = l3_bytes;
    OwnRequest own(problem_of(random_matrix(rows, 300, sparsity), n), options, host);
    return compile_problem(own.request, families_for(own.options.target))
        .record.at("family")
        .get<std::string>();
  };
  const std::int64_t fits = k_l3_bytes / 5 / 14;

  EXPECT_EQ(family_of(fits, 48), "unrolled");
  EXPECT_EQ(family_of(fits, 47), "compact");
  EXPECT_EQ(family_of(fits + 1, 48), "compact");
  EXPECT_EQ(family_of(0, 48), "compact");
  EXPECT_EQ(family_of(fits, 4), "windows");
  EXPECT_EQ(family_of(fits, 5), "compact");
  EXPECT_EQ(family_of(fits + 1, 2, 0.98, 200), "csr") << "1200 entries, not near";
  EXPECT_EQ(family_of(fits, 2, 0.95, 200), "windows");
  EXPECT_EQ(family_of(fits, 3, 0.95, 200), "compact") << "5 % entries";
  const std::int64_t fits_l2 = k_l2_bytes * 3 / 2 / 14;
  EXPECT_EQ(family_of(fits_l2, 192, 0.95, 200), "unrolled");
  EXPECT_EQ(family_of(fits_l2 + 1, 192, 0.95, 200), "csr") << "10 entries a row of B";
  EXPECT_EQ(family_of(fits_l2, 256, 0.94, 400), "unrolled");
  EXPECT_EQ(family_of(fits_l2 + 1, 255, 0.94, 400), "unrolled");
  EXPECT_EQ(family_of(fits_l2 + 1, 256, 0.94, 400), "compact") << "24 entries a row of B";
  EXPECT_EQ(family_of(fits_l2 + 1, 256, 0.92, 400), "unrolled");
  constexpr std::int64_t k_near_bytes = 32 << 20;
  l3_bytes = 15 * k_near_bytes;
  EXPECT_EQ(family_of(k_near_bytes / 5 / 14, 48), "unrolled");
  EXPECT_EQ(family_of(k_near_bytes / 5 / 14 + 1, 48), "compact") << "a large L3 is far away";
}

TEST(Pipeline, AFarL3MakesUnrolledCodeWorthwhileForOtherNumbersOfColumns) {
  HostDeviceInfo host = made_up_host();
  host.l2_bytes = 2 << 20;
  host.l3_bytes = 480 << 20;
  host.l3_is_far = true;
  std::int64_t network_nnz = 0;
  const auto family_of = [&](std::int64_t rows, double sparsity, std::int64_t n) {
    CompileOptions options = base_options();
    options.policy.hot = false;
    options.policy.network_nnz = network_nnz;
    options.target = Target(host.isa);
    OwnRequest own(problem_of(random_matrix(rows, 300, sparsity), n), options, host);
    return compile_problem(own.request, families_for(own.options.target))
        .record.at("family")
        .get<std::string>();
  };

  EXPECT_EQ(family_of(200, 0.8, 255), "compact");
  EXPECT_EQ(family_of(200, 0.8, 256), "unrolled");
  EXPECT_EQ(family_of(60, 0.8, 192), "compact") << "12 entries a row of B, of 60";
  EXPECT_EQ(family_of(60, 0.8, 1000), "compact") << "the same";
  EXPECT_EQ(family_of(200, 0.94, 524), "csr") << "B and C in half of L2, 12 entries a row of B";
  EXPECT_EQ(family_of(200, 0.94, 525), "compact") << "more";
  EXPECT_EQ(family_of(1000, 0.975, 95), "compact") << "7 entries a row";
  EXPECT_EQ(family_of(1000, 0.975, 96), "csr");
  network_nnz = 20'000;
  EXPECT_EQ(family_of(200, 0.8, 127), "compact") << "code that stays in the caches";
  EXPECT_EQ(family_of(200, 0.8, 128), "unrolled");
}

TEST(Pipeline, AColdKernelWithRowsAlikeIsUnrolledForManyColumns) {
  /// `alike` rows each have the same columns.
  const auto family_of = [](std::int64_t alike, std::int64_t n) {
    CsrMatrix matrix{256, 256, {0}, {}, {}};
    for (std::int32_t row = 0; row < 256; ++row) {
      for (std::int32_t entry = 0; entry < 25; ++entry) {
        matrix.col_idxs.push_back(10 * entry + row / static_cast<std::int32_t>(alike) % 7);
        matrix.values.push_back(1.0F);
      }
      matrix.row_ptrs.push_back(matrix.nnz());
    }
    // Seven ways to begin; the last column makes more of them different.
    for (std::int32_t row = 0; row < 256; ++row) {
      matrix.col_idxs[static_cast<std::size_t>(25 * row + 24)] =
          248 + row / static_cast<std::int32_t>(alike) % 8;
    }
    CompileOptions options = base_options();
    options.policy.hot = false;
    return compile_for(problem_of(matrix, n), options).record.at("family").get<std::string>();
  };

  EXPECT_EQ(family_of(32, 48), "unrolled");
  EXPECT_EQ(family_of(32, 47), "compact");
  EXPECT_EQ(family_of(1, 192), "unrolled") << "56 patterns";
  EXPECT_EQ(family_of(1, 191), "compact");
}

TEST(Pipeline, AColdKernelWithShortRowsIsALoop) {
  const auto family_of = [](std::int64_t cols, double sparsity, std::int64_t n) {
    CompileOptions options = base_options();
    options.policy.hot = false;
    return compile_for(problem_of(random_matrix(2000, cols, sparsity), n), options)
        .record.at("family")
        .get<std::string>();
  };

  EXPECT_EQ(family_of(70, 0.9, 32), "csr");
  EXPECT_EQ(family_of(70, 0.9, 31), "compact");
  EXPECT_EQ(family_of(140, 0.9, 96), "csr");
  EXPECT_EQ(family_of(140, 0.9, 95), "compact");
  EXPECT_EQ(family_of(500, 0.999, 4), "csr");
}

TEST(Pipeline, AMatrixWithFewZerosIsDenseForFewColumnsSooner) {
  const auto family_of = [&](double sparsity, std::int64_t n, std::int64_t rows = 64) {
    return compile_for(problem_of(random_matrix(rows, 300, sparsity), n), base_options())
        .record.at("family")
        .get<std::string>();
  };

  EXPECT_EQ(family_of(0.5, 5), "dense");
  EXPECT_NE(family_of(0.6, 5), "dense");
  EXPECT_NE(family_of(0.5, 6), "dense");
  EXPECT_EQ(family_of(0.3, 48), "dense");
  EXPECT_NE(family_of(0.3, 49), "dense");
  EXPECT_EQ(family_of(0.2, 300), "dense");
  EXPECT_EQ(family_of(0, 300), "dense");
  EXPECT_NE(family_of(0, 300, 8), "dense") << "half of its strip would be zeros";
}

/// The toy family, and behind it what is shipped or only a few of that.
class ToyPipeline : public testing::Test {
 protected:
  [[nodiscard]] std::vector<const KernelFamily*> families() const {
    std::vector<const KernelFamily*> all = {&toy_};
    all.insert(all.end(), behind_.begin(), behind_.end());
    return all;
  }

  [[nodiscard]] CompiledKernel compile() const {
    return compile_for(problem_, base_options(), families());
  }

  /// "family: reason" of each.
  [[nodiscard]] static std::vector<std::string> verdicts(const CompiledKernel& compiled) {
    std::vector<std::string> lines;
    for (const auto& verdict : compiled.record.at("verdicts")) {
      lines.push_back(verdict.at("family").get<std::string>() + ": " +
                      verdict.at("reason").get<std::string>());
    }
    return lines;
  }

  /// A kernel of the artifact, as the family loads it.
  [[nodiscard]] static Kernel loaded(const CompiledKernel& compiled) {
    return Kernel(load_kernel(*compiled.family, compiled.code, compiled.record, HostDevice{}, {}));
  }

  [[nodiscard]] std::string refusal() const {
    try {
      static_cast<void>(compile());
    } catch (const NotSupported& error) {
      return error.what();
    }
    return "compiled";
  }

  CsrMatrix matrix_ = random_matrix(60, 70, 0.8);
  Problem problem_ = problem_of(matrix_, 33);
  ToyFamily toy_;
  std::vector<const KernelFamily*> behind_{families_for(Target()).begin(),
                                           families_for(Target()).end()};
};

TEST_F(ToyPipeline, TheFirstFamilyThatAcceptsIsTaken) {
  toy_.reason = "toys come first";

  const CompiledKernel compiled = compile();
  const Kernel kernel = loaded(compiled);

  EXPECT_EQ(compiled.family, &toy_);
  EXPECT_EQ(compiled.record.at("family"), "toy");
  EXPECT_EQ(compiled.record.at("toy").at("rows"), 60);  // the family's own member
  EXPECT_EQ(compiled.record.at("tile"), nullptr);
  EXPECT_THAT(verdicts(compiled), ElementsAre("toy: toys come first"));
  EXPECT_EQ(kernel.info().family, "toy");
  EXPECT_EQ(kernel.info().reason, "toys come first");
  EXPECT_EQ(kernel.artifact().files.at(0).name, k_toy_file);
  const std::vector<float> b = dense_values(70 * 33);
  std::vector<float> c(60 * 33, -7);
  kernel.run(b.data(), c.data());
  EXPECT_TRUE(same_bits(c, reference_product(matrix_, HostIsa::avx512, b.data(), 33, 33)));
}

TEST_F(ToyPipeline, IsExplainedByItsRecordWithoutAWordOfItsOwn) {
  toy_.reason = "toys come first";
  OwnRequest own(problem_, base_options(), made_up_host());

  const nlohmann::json record = explain_problem(own.request, families());

  EXPECT_EQ(record, compile().record);
  EXPECT_EQ(record.at("toy").at("cols"), 70);
}

TEST(Pipeline, ExplainsCandidatesThatInstantModeDoesNotRecord) {
  const Problem problem = problem_of(random_matrix(60, 300, 0.8), 96);
  OwnRequest own(problem, base_options(), made_up_host());

  const auto record = explain_problem(own.request, families_for(own.options.target));

  const CompiledKernel compiled = compile_for(problem, base_options());
  EXPECT_EQ(record.at("tile"), compiled.record.at("tile"));
  EXPECT_EQ(record.at("search").at("reason"), reason_in(compiled));
  EXPECT_FALSE(compiled.record.at("search").contains("space"));
  const auto& candidates = record.at("search").at("space").at("candidates");
  EXPECT_GT(candidates.size(), 10U);
  EXPECT_EQ(std::ranges::count(candidates, record.at("tile"),
                               [](const auto& candidate) { return candidate.at("tile"); }),
            1);
}

TEST_F(ToyPipeline, WhereOneRefusesTheNextIsAsked) {
  toy_.refuses = Refusal("the toy is broken");

  const CompiledKernel compiled = compile();

  EXPECT_EQ(compiled.record.at("family"), "unrolled");
  EXPECT_THAT(verdicts(compiled),
              ElementsAre("toy: the toy is broken", StartsWith("dense: "), StartsWith("compact: "),
                          StartsWith("windows: it is for n of 1 to 4"),
                          "unrolled: " + reason_in(compiled)));
}

TEST_F(ToyPipeline, WhatIsDeclinedLateGoesToTheNextAndTheReasonSaysWhy) {
  toy_.declines = Refusal("it took too many blocks");
  behind_ = {&find_family("csr")};

  const CompiledKernel compiled = compile();

  EXPECT_EQ(compiled.record.at("family"), "csr");
  EXPECT_THAT(verdicts(compiled), ElementsAre("toy: it took too many blocks", "csr: "));
  EXPECT_EQ(reason_in(compiled), "csr: it took too many blocks");
  EXPECT_EQ(compiled.code->files({}).at(0).name, k_object_file);
}

TEST_F(ToyPipeline, TheLoadedAvx512KernelKnowsTheReasonToo) {
  if (!Target(HostIsa::avx512).runs_here()) GTEST_SKIP() << "this CPU has no AVX-512";
  toy_.declines = Refusal("it took too many blocks");
  behind_ = {&find_family("csr")};

  const CompiledKernel compiled = compile();

  EXPECT_EQ(loaded(compiled).info().reason, "csr: it took too many blocks");
}

TEST_F(ToyPipeline, WithoutAReasonTheFamilysNameIsOne) { EXPECT_EQ(reason_in(compile()), "toy"); }

TEST_F(ToyPipeline, WhereNobodyAcceptsTheErrorHasAllVerdictsInOneLine) {
  ToyFamily other;
  other.refuses = Refusal("the other one too");
  toy_.declines = Refusal("it is bored");
  behind_ = {&other};

  EXPECT_EQ(refusal(),
            "no family of kernels for host-avx512 takes this problem: toy: it is bored; toy: the "
            "other one too");
}

TEST_F(ToyPipeline, AFamilyIsNotAskedAboutFeaturesItDoesNotKnow) {
  problem_.n = Extent::at_run_time(33);
  problem_.panel_columns = 16;
  behind_ = {};

  EXPECT_THAT(refusal(), HasSubstr("toy: it does not know a run-time n, a fixed panel width"));

  toy_.known = {ProblemFeature::spmm, ProblemFeature::panels};
  EXPECT_THAT(refusal(), testing::EndsWith("toy: it does not know a run-time n"));

  toy_.known = {ProblemFeature::spmm, ProblemFeature::panels, ProblemFeature::runtime_n};
  EXPECT_EQ(compile().family, &toy_);
}

TEST_F(ToyPipeline, AFamilyThatListsNoOperationIsAskedAboutNone) {
  toy_.known = {};
  behind_ = {};

  EXPECT_THAT(refusal(), testing::EndsWith("takes this problem: toy: it does not know a product"));
}

TEST_F(ToyPipeline, TheReferenceTakesWhatNoFasterFamilyKnows) {
  problem_.n = Extent::at_run_time(33);
  toy_.refuses = Refusal("the toy is broken");
  behind_ = {&find_family("windows"), &find_family("reference")};

  const CompiledKernel compiled = compile();

  EXPECT_EQ(compiled.record.at("family"), "reference");
  EXPECT_THAT(verdicts(compiled),
              ElementsAre("toy: it does not know a run-time n",
                          "windows: it does not know a run-time n without scales of groups",
                          "reference: "));
  EXPECT_EQ(reason_in(compiled),
            "reference: it does not know a run-time n without scales of groups");
}

}  // namespace
