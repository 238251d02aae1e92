// Times that follow from a few instructions by hand.

#include <gtest/gtest.h>

#include <set>

#include "clock_testing.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

using namespace testing_support;

/// One SM, or as many as are said, of sm_75.
CudaDeviceInfo device_of(std::int64_t sms) {
  CudaDeviceInfo device = parse_cuda_target("sm_75:rtx2080ti");
  device.sms = sms;
  return device;
}

struct Timed {
  std::vector<Code> middle;
  std::uint32_t blocks = 1;
  std::uint32_t threads = 32;
  std::int64_t sms = 1;
  ClockConstants constants = simple_constants();
  ClockLimits limits = {.instructions_at_hand = true};
};

ModelledTime time_of(const Timed& timed) {
  ClockLaunch launch;
  launch.kernel = "k";
  launch.grid = {timed.blocks, 1, 1};
  launch.block = {timed.threads, 1, 1};
  launch.parameters = pointer_parameter();
  return modelled_time(cubin_of({pointer_kernel(timed.middle)}), launch, device_of(timed.sms),
                       timed.constants, timed.limits);
}

double cycles_of(const Timed& timed) { return time_of(timed).cycles; }

// The two moves take 6 cycles each, the exit's issue is one.
constexpr double k_frame = 100 + 6 + 6 + 1;

TEST(CubinClock, StallCountsPass) {
  EXPECT_EQ(cycles_of({.middle = {}}), k_frame);
  EXPECT_EQ(cycles_of({.middle = {{.encoding = k_seven, .stall = 4}}}), k_frame + 4);
  EXPECT_EQ(cycles_of({.middle = {{.encoding = k_seven, .stall = 11}}}), k_frame + 11);
}

TEST(CubinClock, AWaitIsForItsScoreboardAlone) {
  const auto code = [](std::uint8_t mask, std::uint8_t barrier = 2) {
    return std::vector<Code>{{.encoding = k_load, .stall = 2, .write_barrier = barrier},
                             {.encoding = k_seven, .stall = 1, .wait_mask = mask}};
  };

  // From L2: one cycle of L1's unit, and the latency.
  EXPECT_NEAR(cycles_of({.middle = code(1 << 2)}), k_frame + 1 + 200 + 1, 0.01);
  EXPECT_NEAR(cycles_of({.middle = code(1 << 1)}), k_frame + 2 + 1, 0.01);
  EXPECT_NEAR(cycles_of({.middle = code(1 << 3, 1)}), k_frame + 2 + 1, 0.01);
}

TEST(CubinClock, AsSimulatedAWaitIsForTheRegisterAlone) {
  // The store names R0, which the load brings; nothing of its control bits says so.
  Timed timed{.middle = {{.encoding = k_load, .stall = 2, .write_barrier = 2},
                         {.encoding = into(k_seven, 7), .stall = 11},
                         {.encoding = k_store, .stall = 1}}};
  const double by_barrier = cycles_of(timed);
  timed.limits.waits_by_register = true;
  const double by_register = cycles_of(timed);
  timed.middle[2].encoding = into(k_seven, 8);
  const double of_others = cycles_of(timed);

  EXPECT_LT(by_barrier, k_frame + 40);
  EXPECT_GT(by_register, 100 + 200);
  EXPECT_LT(of_others, k_frame + 20);
}

TEST(CubinClock, ASecondLoadOfALineIsFoundInL1) {
  const Code load = {.encoding = k_load, .stall = 1, .write_barrier = 0, .wait_mask = 1};
  const Code last = {.encoding = k_seven, .stall = 1, .wait_mask = 1};

  const ModelledTime once = time_of({.middle = {load, last}});
  const ModelledTime twice = time_of({.middle = {load, load, last}});

  EXPECT_NEAR(twice.cycles - once.cycles, 1 + 40, 0.01);
  EXPECT_EQ(once.l1_hits, 0);
  EXPECT_EQ(twice.l1_hits, 0.5);
  EXPECT_EQ(twice.bytes_from_l2, 32);
}

TEST(CubinClock, WhatIsNotInL2ComesFromDram) {
  Timed timed{.middle = {{.encoding = k_load, .stall = 1, .write_barrier = 0},
                         {.encoding = k_seven, .stall = 1, .wait_mask = 1}}};
  ClockLaunch launch;
  launch.kernel = "k";
  launch.block = {32, 1, 1};
  launch.parameters = pointer_parameter();
  launch.touched_bytes = std::int64_t{1} << 30;

  const ModelledTime cold = modelled_time(cubin_of({pointer_kernel(timed.middle)}), launch,
                                          device_of(1), timed.constants, timed.limits);

  EXPECT_NEAR(cold.cycles - cycles_of(timed), 300, 0.01);
}

TEST(CubinClock, MissesWaitWhereTooManyAreOnTheirWay) {
  const Code load = {.encoding = k_load, .stall = 1, .write_barrier = 0};
  const Code far = {.encoding = with_bits(k_load, 40, 24, 0x100), .stall = 1, .write_barrier = 0};
  const Code last = {.encoding = k_seven, .stall = 1, .wait_mask = 1};
  Timed timed{.middle = {load, far, last}};
  const double both = cycles_of(timed);

  timed.constants.misses_in_flight = 1;

  EXPECT_NEAR(cycles_of(timed) - both, 200, 3);
}

TEST(CubinClock, L2GivesSoManyBytesACycle) {
  Timed timed{.middle = {{.encoding = k_lane, .stall = 2, .write_barrier = 1},
                         {.encoding = k_address, .stall = 8, .wait_mask = 2},
                         {.encoding = k_load, .stall = 1, .write_barrier = 0},
                         {.encoding = k_seven, .stall = 1, .wait_mask = 1}}};
  const double fast = cycles_of(timed);

  timed.constants.l2_bytes_a_cycle = 1;

  EXPECT_NEAR(cycles_of(timed) - fast, 128, 0.1);
}

/// Each lane loads its element, `count` times from other lines.
std::vector<Code> loads_of(int count) {
  std::vector<Code> code = {{.encoding = k_lane, .stall = 2, .write_barrier = 1},
                            {.encoding = k_address, .stall = 8, .wait_mask = 2}};
  for (int i = 0; i < count; ++i) {
    const auto bytes = static_cast<std::uint64_t>(i) * 0x1000;
    code.push_back({.encoding = with_bits(k_load, 40, 24, bytes), .stall = 1, .write_barrier = 0});
  }
  return code;
}

TEST(CubinClock, RequestsLeaveOneAfterTheOtherAlsoThoseOfStores) {
  std::vector<Code> code = loads_of(1);
  code.push_back({.encoding = k_store, .stall = 1, .wait_mask = 1});
  Timed timed{.middle = code};
  const double fast = cycles_of(timed);

  timed.constants.request_bytes_a_cycle = 1;

  // Four sectors there, and four back again, behind which the exit's cycle does not show.
  EXPECT_NEAR(cycles_of(timed) - fast, 128 + 128 - 1, 0.1);
}

TEST(CubinClock, AnElementOnItsWayComesOnceForEachThatWaits) {
  std::vector<Code> code = loads_of(1);
  code.push_back(code.back());
  code.push_back({.encoding = k_seven, .stall = 1, .wait_mask = 1});
  Timed timed{.middle = code};
  const double fast = cycles_of(timed);

  timed.constants.l2_port_bytes_a_cycle = 1;
  const ModelledTime slow = time_of(timed);

  EXPECT_EQ(slow.bytes_from_l2, 128);
  EXPECT_NEAR(slow.cycles - fast, 128 + 128, 0.1);
}

TEST(CubinClock, PartitionsTakeTurnsAtTheMemoryUnit) {
  // Those that never come first would end long after the others: twice as late as the first.
  std::vector<Code> code = loads_of(64);
  code.push_back({.encoding = k_seven, .stall = 1, .wait_mask = 1});
  Timed timed{.middle = code, .threads = 128};
  timed.constants.l1_bytes_a_cycle = 32;
  timed.constants.memory_interval = 8;

  const ModelledTime time = time_of(timed);

  // Each of 256 loads takes four cycles of L1; nobody waits while others have nothing to do.
  EXPECT_LT(time.schedulers.empty, 0.1 * 4 * time.cycles);
}

TEST(CubinClock, AUnitTakesAnInstructionAnInterval) {
  std::vector<Code> fmas(100, {.encoding = k_fma, .stall = 1});
  Timed timed{.middle = fmas};
  const double each_cycle = cycles_of(timed);

  timed.constants.fp32_interval = 2;
  const ModelledTime slower = time_of(timed);

  EXPECT_NEAR(slower.cycles - each_cycle, 99, 1);
  EXPECT_GT(slower.schedulers.unit, 95);
}

TEST(CubinClock, FourPartitionsIssueSideBySideAndWarpsOfOneInTurns) {
  const std::vector<Code> fmas(100, {.encoding = k_fma, .stall = 1});

  const double one = cycles_of({.middle = fmas});
  const double four = cycles_of({.middle = fmas, .threads = 128});
  const double eight = cycles_of({.middle = fmas, .threads = 256});

  EXPECT_NEAR(four, one, 1);
  EXPECT_NEAR(eight - one, 100, 12);
}

TEST(CubinClock, WarpsInTurnComeToTheirLoadsTogether) {
  // Greedy, the fifth warp asks for its element where the first has nothing to do any more.
  std::vector<Code> code = {{.encoding = k_lane, .stall = 2, .write_barrier = 1},
                            {.encoding = k_address, .stall = 8, .wait_mask = 2},
                            {.encoding = k_load, .stall = 1, .write_barrier = 0}};
  code.insert(code.end(), 50, {.encoding = k_seven, .stall = 1});
  code.push_back({.encoding = k_seven, .stall = 1, .wait_mask = 1});
  Timed timed{.middle = code, .threads = 160};
  const double greedy = cycles_of(timed);

  timed.constants.warp_order = WarpOrder::in_turn;

  EXPECT_NEAR(greedy - cycles_of(timed), 50, 5);
}

TEST(CubinClock, AnotherWarpHidesStalls) {
  const std::vector<Code> fmas(100, {.encoding = k_fma, .stall = 4});

  const double four = cycles_of({.middle = fmas, .threads = 128});
  const double eight = cycles_of({.middle = fmas, .threads = 256});

  EXPECT_NEAR(eight, four, 12);
}

TEST(CubinClock, WarpsMeetAtABarrier) {
  const Code barrier = {.encoding = k_barrier, .stall = 1};
  const std::vector<Code> without = {{.encoding = k_seven, .stall = 1}};

  const double met = cycles_of({.middle = {barrier}, .threads = 64});

  EXPECT_NEAR(met - cycles_of({.middle = without, .threads = 64}), 14, 1);
}

TEST(CubinClock, ABarrierHoldsTheFirstWarpUntilTheLastIsThere) {
  // The fifth warp comes to it when the first one, of the same partition, has.
  std::vector<Code> code(101, {.encoding = k_seven, .stall = 1});
  const double without = cycles_of({.middle = code, .threads = 160});
  code[50].encoding = k_barrier;

  EXPECT_NEAR(cycles_of({.middle = code, .threads = 160}) - without, 14, 2);
}

TEST(CubinClock, BlocksBeyondAWaveBeginWhenOthersEnd) {
  const std::vector<Code> stalls(10, {.encoding = k_seven, .stall = 11});
  // An SM of sm_75 holds 16 blocks.
  const double one_wave = cycles_of({.middle = stalls, .blocks = 16});

  const double two_waves = cycles_of({.middle = stalls, .blocks = 17});
  const double two_sms = cycles_of({.middle = stalls, .blocks = 32, .sms = 2});

  EXPECT_NEAR(two_waves - one_wave, 10 + (one_wave - 100), 8);
  EXPECT_EQ(two_sms, one_wave);
}

TEST(CubinClock, ARoundOfBlocksBeginsWhereItsOrderSays) {
  EXPECT_EQ(sm_of_block(131, 132, BlockOrder::same), 131);
  EXPECT_EQ(sm_of_block(133, 132, BlockOrder::same), 1);
  std::set<std::int64_t> sms;
  for (std::int64_t block = 132; block < 264; ++block) {
    const std::int64_t sm = sm_of_block(block, 132, BlockOrder::moved);

    EXPECT_NE(sm, block - 132);
    sms.insert(sm);
  }
  EXPECT_EQ(sms.size(), 132U);
  EXPECT_EQ(*sms.begin(), 0);
  EXPECT_EQ(*sms.rbegin(), 131);
  EXPECT_EQ(sm_of_block(131, 132, BlockOrder::moved), 131);
}

TEST(CubinClock, BlocksGoToTheSmsOfTheirOrder) {
  // One SM of four is modelled, SM 0: of six blocks it has 0 and 4, or 0 alone.
  Timed timed{.middle = {{.encoding = k_seven, .stall = 11}}, .blocks = 6, .sms = 4};
  timed.limits.most_steps = 6;
  const ModelledTime same = time_of(timed);

  timed.constants.block_order = BlockOrder::moved;
  const ModelledTime moved = time_of(timed);

  EXPECT_EQ(same.modelled_sms, 1);
  EXPECT_EQ(same.modelled_blocks, 2);
  EXPECT_EQ(moved.modelled_blocks, 1);
}

TEST(CubinClock, OfALongLaunchSomeSmsAreModelled) {
  const std::vector<Code> stalls(20, {.encoding = k_seven, .stall = 11});
  Timed timed{.middle = stalls, .blocks = 640, .sms = 40};
  const ModelledTime all = time_of(timed);

  timed.limits.most_steps = 640 * (23 / 4.0);
  const ModelledTime some = time_of(timed);

  EXPECT_EQ(all.modelled_sms, 40);
  EXPECT_EQ(all.modelled_blocks, 640);
  EXPECT_EQ(some.modelled_sms, 10);
  EXPECT_EQ(some.modelled_blocks, 160);
  EXPECT_EQ(some.blocks, 640);
  EXPECT_EQ(some.cycles, all.cycles);
}

TEST(CubinClock, CodeHasToComeAndIsThereTheSecondTime) {
  const std::vector<Code> code(64, {.encoding = k_seven, .stall = 1});
  Timed timed{.middle = code};
  const double at_hand = cycles_of(timed);

  timed.limits.instructions_at_hand = false;
  const ModelledTime fetched = time_of(timed);
  timed.constants.l2_code_bytes_a_cycle = 1;
  const double slowly = cycles_of(timed);

  // The first line takes both latencies; one line is brought ahead, of 8 cycles each.
  EXPECT_GT(fetched.cycles, at_hand + 220);
  EXPECT_GT(fetched.schedulers.fetch, 200);
  EXPECT_GT(slowly, 9 * 128);
}

TEST(CubinClock, MicrosecondsAreOfTheCardsClock) {
  Timed timed{.middle = {}};
  EXPECT_DOUBLE_EQ(time_of(timed).us, k_frame / 1000);

  timed.constants.card_mhz = {{"rtx2080ti", 500}, {"t4", 250}};

  EXPECT_DOUBLE_EQ(time_of(timed).us, k_frame / 500);
}

TEST(CubinClock, SaysWhatItTookForGranted) {
  const ModelledTime time = time_of({.middle = {{.encoding = k_load},
                                                {.encoding = k_above_one},
                                                {.encoding = branch(16, false)},
                                                {.encoding = k_seven}}});

  EXPECT_EQ(time.assumptions, 1);
}

TEST(CubinClock, RefusesLaunchesThatAreNone) {
  EXPECT_THROW(static_cast<void>(time_of({.middle = {}, .blocks = 0})), InvalidArgument);
  EXPECT_THROW(static_cast<void>(time_of({.middle = {}, .threads = 0})), InvalidArgument);
  EXPECT_THROW(static_cast<void>(time_of({.middle = {}, .threads = 2048})), NotSupported);
}

TEST(CubinClock, GivesUpWhenItIsTold) {
  std::stop_source stop;
  stop.request_stop();
  ClockLaunch launch;
  launch.kernel = "k";
  launch.block = {32, 1, 1};
  launch.parameters = pointer_parameter();

  EXPECT_THROW(
      static_cast<void>(modelled_time(cubin_of({pointer_kernel({})}), launch, device_of(1),
                                      simple_constants(), {.cancel = {{}, stop.get_token()}})),
      Cancelled);
}

}  // namespace
}  // namespace spjit
