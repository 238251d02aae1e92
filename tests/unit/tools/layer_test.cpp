#include "tools/report/layer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace {

using spjit::cli::Layer;
using spjit::cli::Terminal;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Layer layer(const std::string& file, bool timed) {
  Layer made;
  made.path = file;
  made.info.emplace();
  made.info->tile = "rows=16 columns=64";
  made.info->cuda.emplace();
  made.record = {{"search", {{"timed", timed}}}};
  return made;
}

TEST(LayerTable, SaysWhichTilesOfAGpuWereNotTimed) {
  const std::string none = layer_table({layer("a.npz", false), layer("b.npz", false)}, Terminal{});
  const std::string some = layer_table({layer("a.npz", true), layer("b.npz", false)}, Terminal{});
  const std::string all = layer_table({layer("a.npz", true), layer("b.npz", true)}, Terminal{});

  EXPECT_THAT(none, HasSubstr("\nRanked, not timed.\n"));
  EXPECT_THAT(some, HasSubstr("\nRanked, not timed: b.npz.\n"));
  EXPECT_THAT(all, Not(HasSubstr("not timed")));
}

TEST(LayerTable, SaysWhichTilesTheClockChose) {
  Layer modelled = layer("m.npz", false);
  modelled.record["search"]["modelled"] = true;

  const std::string both = layer_table({modelled, layer("r.npz", false)}, Terminal{});

  EXPECT_THAT(both, HasSubstr("\nRanked, not timed: r.npz.\nModelled, not timed: m.npz.\n"));
  EXPECT_THAT(layer_table({modelled}, Terminal{}), HasSubstr("\nModelled, not timed.\n"));
}

TEST(LayerTable, LeavesOutWhatFailed) {
  Layer failed;
  failed.path = "broken.npz";
  failed.error = "no such matrix";

  EXPECT_EQ(layer_table({failed}, Terminal{}), "");
  const std::string one = layer_table({failed, layer("a.npz", false)}, Terminal{});
  EXPECT_THAT(one, Not(HasSubstr("broken.npz")));
  EXPECT_THAT(one, HasSubstr("Ranked, not timed.\n"));
}

TEST(LayerTable, HasColumnsForItsTarget) {
  Layer gpu = layer("a.npz", true);
  gpu.info->cuda->spilled_bytes = 4711;
  Layer host = layer("a.npz", true);
  host.info->cuda.reset();
  host.info->family = "windows";

  const std::string of_gpu = layer_table({gpu}, Terminal{});
  const std::string of_host = layer_table({host}, Terminal{});

  EXPECT_THAT(of_gpu, AllOf(HasSubstr("spilled"), HasSubstr("4711"), Not(HasSubstr("vs CSR"))));
  EXPECT_THAT(of_host, AllOf(HasSubstr("vs CSR"), HasSubstr("windows"), Not(HasSubstr("spilled"))));
}

TEST(LayerTable, ShowsWhatWasMeasuredOnAGpuWithoutAPeak) {
  Layer made = layer("a.npz", true);
  made.info->nnz = 1000;
  made.info->n = 500;
  made.measurement.emplace().kernel.median_us = 10;

  EXPECT_THAT(layer_table({made}, Terminal{}), AllOf(HasSubstr("10.00"), HasSubstr("100.0")));
  EXPECT_THAT(summarize(made), AllOf(HasSubstr("100.0 GFLOP/s"), Not(HasSubstr("of peak"))));
  EXPECT_TRUE(describe(made)["speed"]["share_of_peak"].is_null());
}

}  // namespace
