// Constants of devices: every one has a unit and a source.

#include "clock/clock_constants.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <tuple>

#include "spjit/error.hpp"

namespace spjit {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json read_json(const std::string& path) {
  std::ifstream file(std::string(SPJIT_SOURCE_DIR) + "/" + path);
  std::ostringstream text;
  text << file.rdbuf();
  return json::parse(text.str());
}

json document_of(int arch) {
  return read_json("clock/devices/sm_" + std::to_string(arch) + ".json");
}

void expect_refused(const json& document, const char* message) {
  try {
    static_cast<void>(read_clock_constants(document.dump()));
    FAIL() << "taken";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(message));
  }
}

TEST(ClockConstants, ThereAreThoseOfThreeArchitecturesAndNoOthers) {
  for (const int arch : {75, 80, 90}) {
    const auto constants = clock_constants(arch);

    ASSERT_TRUE(constants) << arch;
    EXPECT_EQ(constants->arch, arch);
    EXPECT_EQ(constants->l2_latency, document_of(arch).at("l2_latency").at("value"));
    EXPECT_FALSE(constants->shared_carveouts_kib.empty());
  }
  EXPECT_FALSE(clock_constants(86));
  EXPECT_FALSE(clock_constants(0));
}

TEST(ClockConstants, SayWhatTheyWereComparedWith) {
  EXPECT_THAT(clock_constants(75)->compared_with, HasSubstr("simulated"));
  EXPECT_EQ(clock_constants(80)->compared_with, "nothing");
  EXPECT_THAT(clock_constants(90)->compared_with, HasSubstr("measured times"));
}

TEST(ClockConstants, WhatWasMeasuredIsWhatTheFileOfMeasurementsSays) {
  const json measured =
      read_json("bench/results/constants-nvidia-h100-80gb-hbm3.json").at("constants");
  const json document = document_of(90);
  int count = 0;
  for (const auto& [name, constant] : document.items()) {
    if (!constant.is_object() || !constant.contains("source")) continue;
    if (!constant["source"].get<std::string>().starts_with("measured on an NVIDIA H100")) continue;
    const double expected = measured.at(name).at("value");

    EXPECT_NEAR(constant["value"].get<double>(), expected, 0.005 * expected) << name;
    ++count;
  }
  EXPECT_GE(count, 10);
  const double mhz = measured.at("boost_mhz").at("value");
  EXPECT_NEAR(clock_constants(90)->mhz_of("h100"), mhz, 0.005 * mhz);
}

TEST(ClockConstants, TheNearestAreNotNewerAndHaveTheLanesOfTheArchitecture) {
  for (const auto& [arch, of, fp32_interval] : {std::tuple{70, 75, 2},
                                                {75, 75, 2},
                                                {80, 80, 2},
                                                {86, 86, 1},
                                                {89, 86, 1},
                                                {90, 90, 1},
                                                {120, 90, 1}}) {
    EXPECT_EQ(nearest_clock_constants(arch).arch, of) << arch;
    EXPECT_EQ(nearest_clock_constants(arch).fp32_interval, fp32_interval) << arch;
  }
  EXPECT_EQ(nearest_clock_constants(89).l2_latency, clock_constants(80)->l2_latency);
}

TEST(ClockConstants, BlocksAreOrderedAsTheSimulatorHasThemButForTheH100) {
  EXPECT_EQ(clock_constants(75)->block_order, BlockOrder::same);
  EXPECT_EQ(clock_constants(90)->block_order, BlockOrder::moved);
  EXPECT_EQ(clock_constants(75)->warp_order, WarpOrder::in_turn);
  EXPECT_EQ(clock_constants(90)->warp_order, WarpOrder::greedy);
}

TEST(ClockConstants, ACardHasItsClockAndOthersTheArchitectures) {
  const ClockConstants constants = *clock_constants(75);

  EXPECT_EQ(constants.mhz_of("t4"), 1590);
  EXPECT_EQ(constants.mhz_of("unknown"), constants.boost_mhz);
}

TEST(ClockConstants, WhatIsMissingUnknownOrWithoutASourceIsRefused) {
  const json good = document_of(75);

  json bad = good;
  bad.erase("l1_latency");
  expect_refused(bad, "l1_latency");
  bad = good;
  bad["l9_latency"] = good["l1_latency"];
  expect_refused(bad, "40 members");
  bad = good;
  bad["l1_latency"].erase("source");
  expect_refused(bad, "source");
  bad = good;
  bad["l1_latency"]["source"] = "";
  expect_refused(bad, "l1_latency: the source is empty");
  bad = good;
  bad["l1_latency"]["value"] = -1;
  expect_refused(bad, "l1_latency");
  bad = good;
  bad["shared_carveouts_kib"]["value"] = {64, 32};
  expect_refused(bad, "expected ascending sizes");
  bad = good;
  bad["warp_order"]["value"] = "youngest";
  expect_refused(bad, "warp_order: \"youngest\"; expected \"greedy\" or \"in turn\"");
  bad = good;
  bad["block_order"]["value"] = "drawn";
  expect_refused(bad, "block_order: \"drawn\"; expected \"same\" or \"moved\"");
  bad = good;
  bad["block_order"]["source"] = "";
  expect_refused(bad, "block_order: the source is empty");
  expect_refused(json::array(), "clock constants");
}

TEST(ClockConstants, AMemberThatIsThereTwiceIsRefused) {
  std::string text = document_of(75).dump();
  text.insert(1, R"("arch": 80, )");

  EXPECT_THROW(static_cast<void>(read_clock_constants(text)), Error);
}

}  // namespace
}  // namespace spjit
