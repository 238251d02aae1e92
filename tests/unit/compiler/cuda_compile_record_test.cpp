// The record of a kernel for a GPU, from a compilation that is made up.

#include <gtest/gtest.h>

#include <string>

#include "compiler/compile_record.hpp"
#include "kernels/built_kernel.hpp"
#include "kernels/cuda/unrolled/cuda_artifact.hpp"
#include "kernels/cuda/unrolled/cuda_family.hpp"
#include "kernels/cuda/unrolled/cuda_record.hpp"
#include "spjit/error.hpp"
#include "tests/support/cuda/cuda_search_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;
using nlohmann::json;

class CudaCompileRecord : public ::testing::Test {
 protected:
  CudaCompileRecord() {
    CudaKernelSpec spec;
    spec.tile = given_.ranked.front().tile;
    spec.n = spec.ldb = spec.ldc = given_.problem.n.value;
    compiled_.program = make_program(cuda_plan(*given_.problem.a, spec.tile.m1), spec, 90);
    compiled_.trace.attempts.emplace_back();
    compiled_.choice.chosen = given_.ranked.front();
    compiled_.choice.ranked = given_.ranked;
    compiled_.choice.ranked_by = "prior";
    compiled_.choice.reason = "a reason";
    given_.options.target = Target::parse("sm_90:h100");
  }

  [[nodiscard]] json record() const {
    const DeviceInfo device = given_.limits;
    const FamilyRequest what{given_.problem, given_.options, device, {}};
    BuiltKernel built;
    built.record = cuda_record(compiled_, what);
    built.reason = compiled_.choice.reason;
    return make_record(what, built, {{"unrolled", built.reason}});
  }

  [[nodiscard]] KernelInfo info_of(const json& record) const {
    const UnrolledProgram& program = compiled_.program;
    return cuda_info(record, program, {program.threads, program.blocks_x, 1});
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
  EXPECT_FALSE(search.contains("space"));
  EXPECT_FALSE(search.contains("entries"));
  EXPECT_FALSE(search.contains("chosen"));
}

TEST_F(CudaCompileRecord, OfASearchHasWhatBecameOfEveryTile) {
  MadeUpTools tools;
  tools.proxy_failures[16] = "too large";
  tools.results[given_.name(2)] = finished_in(4.5);
  given_.options.policy.search = SearchMode::proxy;
  compiled_.choice.search = search_cuda_tile(given_.input(), given_.ranked, tools.tools());

  const json made = record();

  const json& search = made.at("search");
  EXPECT_EQ(made.at("device"), given_.limits.product);
  EXPECT_EQ(made.at("card").at("sms"), given_.limits.sms);
  EXPECT_EQ(made.at("family"), "unrolled");
  EXPECT_EQ(search.at("mode"), "proxy");
  EXPECT_EQ(search.at("timed"), true);
  EXPECT_EQ(search.at("chosen"), given_.name(2));
  EXPECT_EQ(search.at("reason"), "a reason");
  EXPECT_FALSE(search.contains("space"));
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
  const KernelInfo info = info_of(record());

  EXPECT_EQ(info.reason, "a reason");
  EXPECT_EQ(info.tile, given_.name(0));
  EXPECT_EQ(info.device, given_.limits.product);
  EXPECT_EQ(info.cuda->arch, 90);
  EXPECT_EQ(info.cuda->threads, given_.ranked.front().tile.n1);
  EXPECT_EQ(info.family, "unrolled");
  EXPECT_EQ(info.n, 256);
}

TEST_F(CudaCompileRecord, WithoutAReasonIsNone) {
  json broken = record();
  broken["search"].erase("reason");

  EXPECT_THROW(static_cast<void>(info_of(broken)), Error);
  EXPECT_THROW(static_cast<void>(info_of(json::object())), Error);
}

TEST_F(CudaCompileRecord, WithoutAProgramOrACubinIsNotLoaded) {
  const UnrolledCudaFamily family;
  const auto load = [&](const json& record, const std::string& cubin) {
    Artifact artifact;
    const auto bytes = std::as_bytes(std::span(cubin));
    artifact.add(k_cubin_file, {bytes.begin(), bytes.end()});
    static_cast<void>(family.load(artifact, record, HostDevice{}, {}));
  };
  json without = record();
  without.erase("program");

  EXPECT_NO_THROW(load(record(), "PTX"));
  EXPECT_THROW(load(without, "PTX"), Error);
  EXPECT_THROW(load(record(), ""), Error);
}

}  // namespace
