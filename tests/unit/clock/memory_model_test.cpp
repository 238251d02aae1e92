// What many SMs ask for is served in the order of its times, whatever order it is asked in.

#include "clock/memory_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace spjit {
namespace {

TEST(SharedServer, WhatIsLateTakesNothingFromWhatComesBefore) {
  SharedServer server;

  EXPECT_EQ(server.serve(1000, 2), 1002);
  EXPECT_EQ(server.serve(10, 2), 12);
  EXPECT_EQ(server.serve(500.5, 2), 502.5);
}

TEST(SharedServer, RequestsOfOneTimeTakeAsLongAsAllOfThem) {
  SharedServer server;
  double last = 0;
  for (int i = 0; i < 1000; ++i) last = std::max(last, server.serve(100, 0.25));

  // From the slot on that holds cycle 100.
  EXPECT_NEAR(last, 100 + 250, 8);
  EXPECT_NEAR(server.serve(100, 1), 100 + 250, 8);
  EXPECT_EQ(server.serve(500, 1), 501);
}

TEST(SharedServer, ALongRequestFillsSeveralSlots) {
  SharedServer server;

  EXPECT_NEAR(server.serve(0, 100), 100, 1e-9);
  EXPECT_GE(server.serve(3, 1), 101);
  EXPECT_GE(server.serve(50, 1), 101);
  EXPECT_EQ(server.serve(200, 1), 201);
}

ClockConstants code_constants() {
  ClockConstants constants;
  constants.l0_code_bytes = 4096;
  constants.l1_code_bytes = 65536;
  constants.l1_code_latency = 20;
  constants.l2_code_latency = 200;
  constants.l1_code_bytes_a_cycle = 6.4;  // a line in 20 cycles
  constants.l2_code_bytes_a_cycle = 3.2;  // a line in 40 cycles
  constants.dram_bytes_a_cycle = 3.2;
  constants.prefetched_lines = 8;
  return constants;
}

/// Each partition goes through `lines` lines, one instruction a cycle at most; from `begin` on and
/// from the first line of each. When the last has what it asked for last.
double walk(CodePath& path, double begin, std::uint64_t lines,
            const std::vector<std::uint64_t>& first) {
  std::vector<double> at(first.size(), begin);
  for (std::uint64_t i = 0; i < lines; ++i) {
    for (std::size_t partition = 0; partition < first.size(); ++partition) {
      at[partition] =
          path.fetch(at[partition], partition, first[partition] + i) + CodePath::k_line_operations;
    }
  }
  return *std::ranges::max_element(at);
}

TEST(CodePath, FromL2AllPartitionsOfAnSmHaveOneWay) {
  const ClockConstants constants = code_constants();
  CodePath alone(constants, 4, true);
  CodePath same(constants, 4, true);
  CodePath different(constants, 4, true);

  const double one = walk(alone, 0, 100, {0});

  EXPECT_NEAR(one, 100 * 40 + 200, 100);
  EXPECT_NEAR(walk(same, 0, 100, {0, 0, 0, 0}), one, 100);
  EXPECT_NEAR(walk(different, 0, 100, {0, 1000, 2000, 3000}), 4 * 100 * 40 + 200, 1500);
}

TEST(CodePath, FromItsSecondLevelEachPartitionHasItsOwn) {
  const ClockConstants constants = code_constants();
  CodePath path(constants, 4, true);
  const std::vector<std::uint64_t> first = {0, 100, 200, 300};
  const double begin = walk(path, 0, 80, first) + 1000;

  EXPECT_NEAR(walk(path, begin, 80, first) - begin, 80 * 20, 100);
}

TEST(CodePath, WhatIsOnItsWayFromL2HoldsNothingUpThatIsThere) {
  ClockConstants constants = code_constants();
  constants.prefetched_lines = 0.5;
  CodePath path(constants, 2, true);
  static_cast<void>(path.fetch(0, 0, 7));

  static_cast<void>(path.fetch(1000, 1, 50));

  EXPECT_NEAR(path.fetch(1001, 1, 7), 1001 + 20 + 20, 10);
}

TEST(CodePath, TakesAsLongAsStraightLinesThatWereMeasured) {
  std::ifstream file(std::string(SPJIT_SOURCE_DIR) +
                     "/bench/results/constants-nvidia-h100-80gb-hbm3.json");
  const nlohmann::json document = nlohmann::json::parse(file);
  const ClockConstants constants = *clock_constants(90);
  for (const nlohmann::json& point : document.at("fetch_curve")) {
    const auto lines = point.at("code_bytes").get<std::uint64_t>() / k_line_bytes;
    const std::vector<std::uint64_t> first(point.at("warps").get<std::size_t>(), 0);
    const double measured = point.at("cycles_an_instruction");
    CodePath path(constants, 4, true);

    const double begin = walk(path, 0, lines, first);
    const double cycles = (walk(path, begin, lines, first) - begin) /
                          static_cast<double>(lines * CodePath::k_line_operations);

    // Where the first level ends, in 32 KiB, it is not the least recently used line that goes.
    const double tolerance = lines == 256 ? 0.25 : 0.06;
    EXPECT_NEAR(cycles, measured, tolerance * measured) << point;
  }
}

}  // namespace
}  // namespace spjit
