#include "tools/cuda_layer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace {

using spjit::cli::CudaLayer;
using spjit::cli::Terminal;
using testing::HasSubstr;
using testing::Not;

CudaLayer layer(const std::string& file, bool timed) {
  CudaLayer made;
  made.path = file;
  made.info.emplace();
  made.info->tile = "16x64";
  made.record = {{"search", {{"timed", timed}}}};
  return made;
}

TEST(CudaLayerTable, SaysWhichTilesWereNotTimed) {
  const std::string none = layer_table({layer("a.npz", false), layer("b.npz", false)}, Terminal{});
  const std::string some = layer_table({layer("a.npz", true), layer("b.npz", false)}, Terminal{});
  const std::string all = layer_table({layer("a.npz", true), layer("b.npz", true)}, Terminal{});

  EXPECT_THAT(none, HasSubstr("\nRanked, not timed.\n"));
  EXPECT_THAT(some, HasSubstr("\nRanked, not timed: b.npz.\n"));
  EXPECT_THAT(all, Not(HasSubstr("not timed")));
}

TEST(CudaLayerTable, LeavesOutWhatFailed) {
  CudaLayer failed;
  failed.path = "broken.npz";
  failed.error = "no such matrix";

  EXPECT_EQ(layer_table({failed}, Terminal{}), "");
  const std::string one = layer_table({failed, layer("a.npz", false)}, Terminal{});
  EXPECT_THAT(one, Not(HasSubstr("broken.npz")));
  EXPECT_THAT(one, HasSubstr("Ranked, not timed.\n"));
}

}  // namespace
