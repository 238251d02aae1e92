// Constants of devices: every one has a unit and a source.

#include "runtime/cuda/clock/clock_constants.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "spjit/error.hpp"

namespace spjit {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json document_of(int arch) {
  std::ifstream file(std::string(SPJIT_SOURCE_DIR) + "/runtime/cuda/clock/devices/sm_" +
                     std::to_string(arch) + ".json");
  std::ostringstream text;
  text << file.rdbuf();
  return json::parse(text.str());
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

TEST(ClockConstants, SayThatOnlySm75WasComparedWithAnything) {
  EXPECT_THAT(clock_constants(75)->compared_with, HasSubstr("simulated"));
  EXPECT_EQ(clock_constants(80)->compared_with, "nothing");
  EXPECT_EQ(clock_constants(90)->compared_with, "nothing");
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
  expect_refused(bad, "39 members");
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
  expect_refused(json::array(), "clock constants");
}

TEST(ClockConstants, AMemberThatIsThereTwiceIsRefused) {
  std::string text = document_of(75).dump();
  text.insert(1, R"("arch": 80, )");

  EXPECT_THROW(static_cast<void>(read_clock_constants(text)), Error);
}

}  // namespace
}  // namespace spjit
