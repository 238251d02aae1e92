#include "compiler/compile_record.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "artifact/families.hpp"
#include "compiler/pipeline.hpp"
#include "kernels/host/unrolled/tile_space.hpp"
#include "kernels/kernel_record.hpp"
#include "plan/search_policy.hpp"
#include "spjit/version.hpp"
#include "tests/support/compile_testing.hpp"
#include "tests/support/host/host_tuning_testing.hpp"
#include "tests/support/request_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;
using nlohmann::json;

CompileOptions record_options() { return options_of(HostIsa::avx2); }

json record_of(const CompileOptions& options, const Problem& problem) {
  const OwnRequest own(problem, options, host_device_info(options.target.isa()));
  return compile_problem(own.request, families_for(own.options.target)).record;
}

json record_of(const CompileOptions& options) {
  return record_of(options, problem_of(random_matrix(40, 50, 0.8), 48));
}

TEST(CompileRecord, SaysWhatWasCompiledAndWhatWasChosen) {
  const json record = record_of(record_options());

  EXPECT_EQ(record["spjit"], SPJIT_VERSION);
  EXPECT_EQ(record["target"], "host-avx2");
  EXPECT_EQ(record["matrix"]["rows"], 40);
  EXPECT_EQ(record["matrix"]["cols"], 50);
  EXPECT_EQ(record["matrix"]["nnz"], 400);
  EXPECT_EQ(record["problem"]["n"], (json{{"value", 48}, {"runtime", false}}));
  EXPECT_EQ(record["family"], "unrolled");
  EXPECT_EQ(record["search"]["mode"], "instant");
  EXPECT_EQ(record["policy"]["reorder"], "auto");
  EXPECT_GT(record["code_bytes"], 0);
  EXPECT_EQ(record["weight_bytes"], 1600);
  EXPECT_GE(record["grouping"]["tiles"], 1);
  EXPECT_EQ(record["search"]["timed"], false);
  EXPECT_FALSE(record["search"].contains("space"));
}

TEST(CompileRecord, NamesACsrKernelAndItsReason) {
  CompileOptions options = record_options();
  options.target = Target(HostIsa::generic);
  options.policy.code_budget_bytes = 0;

  const json record = record_of(options);

  EXPECT_EQ(record["family"], "csr");
  EXPECT_EQ(record["tile"], nullptr);
  EXPECT_EQ(record["grouping"], nullptr);
  EXPECT_EQ(record["code_bytes"], 0);
  EXPECT_NE(record["search"]["reason"].get<std::string>().find("the budget is 0"),
            std::string::npos);
}

TEST(CompileRecord, NamesASlicedKernelAndNoTileThatItDoesNotHave) {
  const json record =
      record_of(options_of(HostIsa::avx512), problem_of(random_matrix(40, 50, 0.8), 1));

  EXPECT_EQ(record["family"], "windows");
  EXPECT_EQ(record["tile"], nullptr);
  EXPECT_EQ(record["grouping"], nullptr);
  EXPECT_THAT(record["search"]["reason"].get<std::string>(),
              testing::StartsWith("heuristic: n is 1"));
}

TEST(CompileRecord, NamesAnUnrolledKernelOfAMatrixWithoutEntries) {
  const CsrMatrix matrix{3, 4, {0, 0, 0, 0}, {}, {}};

  const json record = record_of(record_options(), problem_of(matrix, 48));

  EXPECT_EQ(record["family"], "unrolled");
  EXPECT_TRUE(record["tile"].is_object());
}

/// A space of which the second tile that is timed fails, every time; the others take 5 us.
class SecondTileFails final : public MadeUpTimes {
 public:
  using MadeUpTimes::MadeUpTimes;

  [[nodiscard]] std::size_t tiles() const { return seen_.size(); }

 private:
  [[nodiscard]] TuningResult result_of(const TuningJob& job) override {
    // Few tiles are loaded several times each.
    if (std::ranges::find(seen_, job.candidate) == seen_.end()) seen_.push_back(job.candidate);
    const bool fails = seen_.size() > 1 && job.candidate == seen_[1];
    return fails ? failed_because("did not load") : finished_in(5);
  }

  std::vector<std::size_t> seen_;
};

TEST(CompileRecord, HoldsTheTraceOfAnExhaustiveSearch) {
  CompileOptions options = record_options();
  options.policy.search = SearchMode::exhaustive;
  OwnRequest own(problem_of(random_matrix(40, 50, 0.8), 48), options,
                 host_device_info(HostIsa::avx2));
  std::size_t tiles = 0;
  own.request.search = [&](TunableSpace& space, auto begin) {
    SecondTileFails one_fails(space);
    SearchOutcome found =
        spjit::search(one_fails, settings_of(options.policy, space, begin), own.context);
    tiles = one_fails.tiles();
    return found;
  };

  const json record = compile_problem(own.request, families_for(own.options.target)).record;

  const json& search = record["search"];
  EXPECT_EQ(search["mode"], "exhaustive");
  EXPECT_EQ(search["timed"], true);
  ASSERT_GT(search["entries"].size(), 1U);
  EXPECT_EQ(search["entries"].size(), tiles);
  EXPECT_EQ(search["chosen"], search["entries"][0]["tile"]);
  EXPECT_EQ(search["entries"][0]["full"]["median_us"], 5);
  EXPECT_EQ(std::ranges::count_if(search["entries"],
                                  [](const json& entry) {
                                    return entry["full"].value("failure", "") == "did not load";
                                  }),
            1);
  EXPECT_FALSE(search.contains("space"));
  EXPECT_FALSE(search.contains("entries_left_out"));
}

TEST(CompileRecord, ListsDroppedCandidatesWithRuleAndNumbers) {
  TileSpace space;
  TileCandidate kept;
  TileCandidate dropped;
  dropped.dropped = DroppedCandidate{TileRule::balance, "2 panels ..."};
  space.candidates = {kept, dropped};
  space.relaxed = {TileRule::utilisation};

  const json record = to_json(space);

  EXPECT_FALSE(record["candidates"][0].contains("dropped"));
  EXPECT_EQ(record["candidates"][1]["dropped"]["rule"], "balance");
  EXPECT_EQ(record["candidates"][1]["dropped"]["numbers"], "2 panels ...");
  EXPECT_EQ(record["relaxed"], json::array({"utilisation"}));
}

TEST(CompileRecord, GivesTheReasonBackToTheKernel) {
  KernelInfo info;

  apply_record(json{{"search", {{"reason", "because"}}}}, info);

  EXPECT_EQ(info.reason, "because");
}

TEST(CompileRecord, ARecordWithoutAReasonLeavesTheKernelAsItIs) {
  for (const json& record :
       {json::object(), json{{"search", 3}}, json{{"search", json::object()}}}) {
    KernelInfo info;

    apply_record(record, info);

    EXPECT_EQ(info.reason, "");
  }
}

TEST(CompileRecord, HasTheProblemAndThePolicyToBeReadBack) {
  const CsrMatrix matrix = random_matrix(40, 50, 0.8);
  Problem problem = problem_of(matrix, 48);
  problem.b.leading_dimension = 64;
  problem.c.leading_dimension = 50;
  problem.panel_columns = 16;
  CompileOptions options = record_options();
  options.policy.reorder = ReorderAlgorithm::balanced;
  options.policy.top_k = 7;
  options.policy.values["m1"] = "5";

  const json record = json::parse(record_of(options, problem).dump());
  const Problem read = read_problem(record["problem"], matrix);
  const SearchPolicy policy = read_search_policy(record["policy"]);

  EXPECT_EQ(read.n, problem.n);
  EXPECT_EQ(read.b, problem.b);
  EXPECT_EQ(read.c, problem.c);
  EXPECT_EQ(read.panel_columns, problem.panel_columns);
  EXPECT_EQ(*read.a, matrix);
  EXPECT_EQ(policy.reorder, ReorderAlgorithm::balanced);
  EXPECT_EQ(policy.top_k, 7);
  EXPECT_EQ(policy.values.at("m1"), "5");
  EXPECT_EQ(to_json(policy), record["policy"]);
}

}  // namespace
