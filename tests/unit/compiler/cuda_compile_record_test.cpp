#include "compiler/cuda_compile_record.hpp"

#include <gtest/gtest.h>

#include <string>

#include "kernels/unrolled_cuda/cuda_artifact.hpp"
#include "spjit/error.hpp"
#include "tests/support/cuda_search_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;
using nlohmann::json;

class CudaCompileRecord : public ::testing::Test {
 protected:
  CudaCompileRecord() {
    CudaKernelSpec spec;
    spec.tile = given_.ranked.front().tile;
    spec.n = spec.ldb = spec.ldc = given_.options.n;
    compiled_.program = make_program(cuda_plan(given_.matrix, spec.tile.m1), spec, 90);
    compiled_.trace.attempts.emplace_back();
    compiled_.trace.choice.chosen = given_.ranked.front();
    compiled_.trace.choice.ranked = given_.ranked;
    compiled_.trace.choice.reason = "a reason";
    given_.options.target = Target::parse("sm_90:h100");
  }

  [[nodiscard]] json record() const {
    return make_cuda_record(given_.matrix, given_.options, given_.limits, compiled_);
  }

  MadeUpSearch given_;
  CompiledCuda compiled_;
};

TEST_F(CudaCompileRecord, OfAnUntimedSearchHasItsModeAndReason) {
  given_.options.policy.search = SearchMode::exhaustive;

  const json search = record().at("search");

  EXPECT_EQ(search.at("mode"), "exhaustive");
  EXPECT_EQ(search.at("ranked_by"), "prior");
  EXPECT_EQ(search.at("timed"), false);
  EXPECT_EQ(search.at("reason"), "a reason");
  EXPECT_TRUE(search.at("space").contains("candidates"));
  EXPECT_FALSE(search.contains("entries"));
  EXPECT_FALSE(search.contains("chosen"));
}

TEST_F(CudaCompileRecord, OfASearchHasWhatBecameOfEveryTile) {
  MadeUpTools tools;
  tools.proxy_failures[16] = "too large";
  tools.results[given_.name(2)] = finished_in(4.5);
  given_.options.policy.search = SearchMode::proxy;
  compiled_.trace.choice.search = search_cuda_tile(given_.input(), given_.ranked, tools.tools());

  const json made = record();

  const json& search = made.at("search");
  EXPECT_EQ(made.at("device").at("product"), given_.limits.product);
  EXPECT_EQ(search.at("mode"), "proxy");
  EXPECT_EQ(search.at("timed"), true);
  EXPECT_EQ(search.at("chosen"), given_.name(2));
  EXPECT_EQ(search.at("reason"), "a reason");
  EXPECT_TRUE(search.at("space").contains("candidates"));
  ASSERT_EQ(search.at("entries").size(), 5U);
  const json& timed = search.at("entries")[2];
  EXPECT_EQ(timed.at("tile"), given_.name(2));
  EXPECT_EQ(timed.at("m1"), 8);
  EXPECT_EQ(timed.at("n1"), 128);
  EXPECT_EQ(timed.at("proxy").at("median_us"), 4.5);
  EXPECT_EQ(timed.at("proxy").at("samples"), 1);
  EXPECT_FALSE(timed.contains("full"));
  const json& failed = search.at("entries")[1];
  EXPECT_EQ(failed.at("proxy"), (json{{"outcome", "failed"}, {"failure", "too large"}}));
}

TEST_F(CudaCompileRecord, IsReadBack) {
  const CudaKernelInfo info = read_cuda_record(record());

  EXPECT_EQ(info.reason, "a reason");
  EXPECT_EQ(info.tile, given_.name(0));
  EXPECT_EQ(info.device, given_.limits.product);
  EXPECT_EQ(info.arch, 90);
  EXPECT_EQ(info.n, 256);
}

TEST_F(CudaCompileRecord, WithoutAReasonIsNone) {
  json broken = record();
  broken["search"].erase("reason");

  EXPECT_THROW(static_cast<void>(read_cuda_record(broken)), Error);
  EXPECT_THROW(static_cast<void>(read_cuda_record(json::object())), Error);
}

}  // namespace
