#include "bench/side_by_side/result_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/host/surroundings.hpp"
#include "bench/json_file.hpp"
#include "bench/side_by_side/peers.hpp"
#include "bench/side_by_side/progress.hpp"
#include "spjit/error.hpp"

namespace {

using namespace spjit::side_by_side;
using testing::StartsWith;

/// A case of two libraries, of which the second failed.
CaseResult made_up() {
  CaseResult result;
  result.set = "dlmc";
  result.matrix = "rn50/a, b.smtx";
  result.rows = 4;
  result.cols = 5;
  result.nnz = 10;
  result.n = 100;
  result.threads = 2;
  result.checked = true;
  PeerTiming timed;
  timed.library = "spjit";
  timed.warm.median_us = 2;
  timed.warm.min_us = 1.5;
  timed.warm.samples = 9;
  timed.cold_us = 30;
  timed.prepare_ms = 0.5;
  timed.prepare_kind = "cold compile";
  timed.detail = "4x1";
  PeerTiming failed;
  failed.library = "libxsmm";
  failed.failed = "fsspmdm says \"no\"";
  result.timings = {timed, failed};
  return result;
}

nlohmann::json document_of(const CaseResult& result) {
  std::vector<std::unique_ptr<Peer>> peers;
  peers.push_back(make_missing_peer({"gone", "", "dense", "not installed"}));
  nlohmann::json document = new_document("bench --n 1", host_device({}, {}, 0.25), infos_of(peers));
  document["cases"].push_back(to_json(result));
  return document;
}

TEST(ResultFile, HasTheMembersOfItsSchema) {
  const nlohmann::json document = document_of(made_up());

  EXPECT_EQ(document["schema"], "spjit-side-by-side-1");
  EXPECT_THAT(document["created"].get<std::string>(),
              testing::MatchesRegex("[0-9]+-[0-9]+-[0-9]+T[0-9]+:[0-9]+:[0-9]+Z"));
  EXPECT_EQ(document["command"], "bench --n 1");
  for (const char* name :
       {"kind", "name", "isa", "cpus", "l1d_bytes", "l2_bytes", "l3_bytes", "load_average"}) {
    EXPECT_TRUE(document["device"].contains(name)) << name;
  }
  const auto& library = document["libraries"][0];
  EXPECT_EQ(library["name"], "gone");
  EXPECT_EQ(library["missing"], "not installed");
  const auto& result = document["cases"][0];
  for (const char* name : {"set", "matrix", "layer", "rows", "cols", "nnz", "sparsity", "n",
                           "threads", "peak_gflops", "traffic_bytes", "checked"}) {
    EXPECT_TRUE(result.contains(name)) << name;
  }
}

TEST(ResultFile, AnEmulatedGpuIsNotTakenForOne) {
  spjit::LocalGpu device;
  device.limits.product = "made up";
  device.limits.arch = 90;

  EXPECT_EQ(cuda_device(device, 0.25, false)["kind"], "cuda");
  EXPECT_EQ(cuda_device(device, 0.25, true)["kind"], "emulated");
  EXPECT_EQ(cuda_device(device, 0.25, true)["isa"], "sm_90");
}

TEST(ResultFile, ATimingThatFailedHasNullsAndAReason) {
  const nlohmann::json timings = to_json(made_up())["timings"];

  EXPECT_EQ(timings[0]["library"], "spjit");
  EXPECT_EQ(timings[0]["median_us"], 2);
  EXPECT_EQ(timings[0]["gflops"], 1);  // 2000 operations in 2 us
  EXPECT_EQ(timings[0]["cold_us"], 30);
  EXPECT_TRUE(timings[0]["failed"].is_null());
  EXPECT_TRUE(timings[1]["median_us"].is_null());
  EXPECT_TRUE(timings[1]["gflops"].is_null());
  EXPECT_TRUE(timings[1]["cold_us"].is_null());
  EXPECT_EQ(timings[1]["failed"], "fsspmdm says \"no\"");
}

TEST(ResultFile, ACaseIsKnownBySetMatrixColumnsAndThreads) {
  const nlohmann::json document = document_of(made_up());

  EXPECT_TRUE(has_case(document, {"dlmc", "rn50/a, b.smtx", 100, 2}));
  EXPECT_FALSE(has_case(document, {"dlmc", "rn50/a, b.smtx", 100, 1}));
  EXPECT_FALSE(has_case(document, {"dlmc", "rn50/a, b.smtx", 101, 2}));
  EXPECT_FALSE(has_case(document, {"paper", "rn50/a, b.smtx", 100, 2}));
}

TEST(ResultFile, IsReadBackAsWritten) {
  const spjit::bench::ScratchDirectory scratch("spjit-result-test");
  std::filesystem::create_directory(scratch.path());
  const auto file = scratch.path() / "result.json";
  const nlohmann::json document = document_of(made_up());
  nlohmann::json without_cases = document;
  without_cases["cases"] = nlohmann::json::array();

  spjit::bench::save_json(file, document);

  EXPECT_EQ(earlier_document(file, without_cases), document);
  EXPECT_EQ(earlier_document(scratch.path() / "none.json", without_cases), without_cases);
  nlohmann::json cold = without_cases;
  cold["device"]["caches"] = "cold";
  EXPECT_THROW((void)earlier_document(file, cold), spjit::Error);
  without_cases["libraries"].push_back({{"name", "another"}});
  EXPECT_THROW((void)earlier_document(file, without_cases), spjit::Error);
  spjit::bench::save_json(file, {{"schema", "another"}});
  EXPECT_THROW((void)earlier_document(file, without_cases), spjit::IoError);
  EXPECT_THROW(spjit::bench::save_json(scratch.path() / "none" / "result.json", document),
               spjit::IoError);
}

TEST(Roofline, HasARateForEveryLevelThatIsThere) {
  spjit::HostCpu cpu = spjit::detect_host_cpu();
  cpu.l3_bytes = 0;

  const nlohmann::json roofline = measure_roofline(cpu, spjit::Target().isa());

  for (const char* name :
       {"fma_peak_gflops", "l1_gbytes_per_s", "l2_gbytes_per_s", "dram_gbytes_per_s"}) {
    EXPECT_GT(roofline[name].get<double>(), 0) << name;
  }
  EXPECT_TRUE(roofline["l3_gbytes_per_s"].is_null());
}

TEST(Progress, CountsAndSummarizes) {
  Progress progress(2);
  const std::string first = progress.advance();
  const std::string second = progress.advance();

  EXPECT_THAT(first, StartsWith("[   1/2, "));
  EXPECT_EQ(second, "[   2/2, 0:00 left]");
  CaseResult untimed = made_up();
  for (PeerTiming& timing : untimed.timings) timing.failed = k_not_timed;
  EXPECT_EQ(summary_of(untimed), "right, not timed");
  EXPECT_EQ(summary_of(made_up()), "spjit 2.00 us, 1.0 GFLOP/s; times as long: libxsmm failed");
}

}  // namespace
