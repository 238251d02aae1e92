#include "compiler/compile_record.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "spjit/version.hpp"
#include "tests/support/host_tuning_testing.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using nlohmann::json;
using spjit::CompileOptions;
using spjit::HostIsa;
using spjit::testing_support::failed_because;
using spjit::testing_support::finished_in;
using spjit::testing_support::race_by;
using spjit::testing_support::random_matrix;

CompileOptions record_options() {
  CompileOptions options;
  options.n = 48;
  options.target = spjit::Target(HostIsa::avx2);
  return options;
}

json record_of(const CompileOptions& options, const spjit::TimeHostKernels& race = {}) {
  const auto matrix = random_matrix(40, 50, 0.8);
  const auto limits = spjit::host_device_info(options.target.isa());
  return make_record(matrix, options, limits, spjit::compile_host(matrix, options, limits, race));
}

TEST(CompileRecord, SaysWhatWasCompiledAndWhatWasChosen) {
  const json record = record_of(record_options());

  EXPECT_EQ(record["spjit"], SPJIT_VERSION);
  EXPECT_EQ(record["target"], "host-avx2");
  EXPECT_EQ(record["matrix"]["rows"], 40);
  EXPECT_EQ(record["matrix"]["cols"], 50);
  EXPECT_EQ(record["matrix"]["nnz"], 400);
  EXPECT_EQ(record["n"], 48);
  EXPECT_EQ(record["kind"], "unrolled");
  EXPECT_EQ(record["search"]["mode"], "instant");
  EXPECT_EQ(record["reorder"], "similarity");
  EXPECT_GT(record["code_bytes"], 0);
  EXPECT_EQ(record["weight_bytes"], 1600);
  EXPECT_GE(record["grouping"]["tiles"], 1);
  EXPECT_EQ(record["search"]["timed"], false);
  EXPECT_FALSE(record["search"].contains("space"));
}

TEST(CompileRecord, NamesACsrKernelAndItsReason) {
  CompileOptions options = record_options();
  options.policy.code_budget_bytes = 0;

  const json record = record_of(options);

  EXPECT_EQ(record["kind"], "csr");
  EXPECT_EQ(record["tile"], nullptr);
  EXPECT_EQ(record["grouping"], nullptr);
  EXPECT_EQ(record["code_bytes"], 0);
  EXPECT_NE(record["search"]["reason"].get<std::string>().find("the budget is 0"),
            std::string::npos);
}

TEST(CompileRecord, NamesASlicedKernelAndNoTileThatItDoesNotHave) {
  CompileOptions options = record_options();
  options.n = 1;
  options.target = spjit::Target(HostIsa::avx512);

  const json record = record_of(options);

  EXPECT_EQ(record["kind"], "sliced");
  EXPECT_EQ(record["tile"], nullptr);
  EXPECT_EQ(record["grouping"], nullptr);
  EXPECT_THAT(record["search"]["reason"].get<std::string>(), testing::StartsWith("sliced: n is 1"));
}

TEST(CompileRecord, NamesAnUnrolledKernelOfAMatrixWithoutEntries) {
  const CompileOptions options = record_options();
  const spjit::CsrMatrix matrix{3, 4, {0, 0, 0, 0}, {}, {}};
  const auto limits = spjit::host_device_info(options.target.isa());

  const json record =
      make_record(matrix, options, limits, spjit::compile_host(matrix, options, limits, {}));

  EXPECT_EQ(record["kind"], "unrolled");
  EXPECT_TRUE(record["tile"].is_object());
}

TEST(CompileRecord, HoldsTheTraceOfAnExhaustiveSearch) {
  CompileOptions options = record_options();
  options.policy.search = spjit::SearchMode::exhaustive;
  std::vector<spjit::HostTile> seen;  // few tiles are loaded several times each
  const auto one_fails = [&](const spjit::HostTuningCandidate& contestant) {
    if (std::ranges::find(seen, contestant.tile) == seen.end()) seen.push_back(contestant.tile);
    const bool fails = seen.size() > 1 && contestant.tile == seen[1];
    return fails ? failed_because("did not load") : finished_in(5);
  };

  const json record = record_of(options, race_by(one_fails));

  const json& search = record["search"];
  EXPECT_EQ(search["mode"], "exhaustive");
  EXPECT_EQ(search["timed"], true);
  ASSERT_GT(search["entries"].size(), 1U);
  EXPECT_EQ(search["entries"].size(), seen.size());
  EXPECT_EQ(search["chosen"], search["entries"][0]["tile"]);
  EXPECT_EQ(search["entries"][0]["full"]["median_us"], 5);
  EXPECT_EQ(std::ranges::count_if(search["entries"],
                                  [](const json& entry) {
                                    return entry["full"].value("failure", "") == "did not load";
                                  }),
            1);
  EXPECT_FALSE(record["search"]["space"]["candidates"].empty());
}

TEST(CompileRecord, ListsDroppedCandidatesWithRuleAndNumbers) {
  spjit::TileSpace space;
  spjit::TileCandidate kept;
  spjit::TileCandidate dropped;
  dropped.dropped = spjit::DroppedCandidate{spjit::TileRule::balance, "2 panels ..."};
  space.candidates = {kept, dropped};
  space.relaxed = {spjit::TileRule::utilisation};

  const json record = spjit::to_json(space);

  EXPECT_FALSE(record["candidates"][0].contains("dropped"));
  EXPECT_EQ(record["candidates"][1]["dropped"]["rule"], "balance");
  EXPECT_EQ(record["candidates"][1]["dropped"]["numbers"], "2 panels ...");
  EXPECT_EQ(record["relaxed"], json::array({"utilisation"}));
}

TEST(CompileRecord, GivesTheReasonBackToTheKernel) {
  spjit::KernelInfo info;

  spjit::apply_record(json{{"search", {{"reason", "because"}}}}, info);

  EXPECT_EQ(info.reason, "because");
}

TEST(CompileRecord, ARecordWithoutAReasonLeavesTheKernelAsItIs) {
  for (const json& record :
       {json::object(), json{{"search", 3}}, json{{"search", json::object()}}}) {
    spjit::KernelInfo info;

    spjit::apply_record(record, info);

    EXPECT_EQ(info.reason, "");
  }
}

}  // namespace
