// A walk knows what follows from the launch, and refuses what does not.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "clock_testing.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

using namespace testing_support;
using testing::ElementsAre;
using testing::HasSubstr;

WarpTrace walk(const TestKernel& kernel, std::uint32_t block = 0, std::uint32_t threads = 32) {
  const ClockProgram program = load_clock_program(cubin_of({kernel}));
  const std::vector<std::byte> parameters = pointer_parameter();
  const WalkedLaunch launch{program, program.kernel("k"), {4, 1, 1}, {threads, 1, 1}, parameters};
  return walk_warp(launch, {block, 0, 0}, 0);
}

std::string refusal_of(const std::vector<Code>& middle) {
  try {
    static_cast<void>(walk(pointer_kernel(middle)));
  } catch (const NotSupported& error) {
    return error.what();
  }
  return "walked";
}

std::vector<std::uint64_t> sectors_of(const WarpTrace& trace, std::size_t access = 0) {
  const TraceAccess& found = trace.accesses.at(access);
  const auto begin = trace.sectors.begin() + found.first;
  return {begin, begin + found.count};
}

TEST(ClockWalk, AnAddressIsWhatTheParameterSays) {
  const WarpTrace trace = walk(pointer_kernel({{.encoding = k_load}}));

  ASSERT_EQ(trace.accesses.size(), 1U);
  EXPECT_THAT(sectors_of(trace), ElementsAre(k_pointer / 32));
  EXPECT_EQ(trace.steps.size(), 4U);
  EXPECT_EQ(trace.steps[2].access, 0U);
  EXPECT_EQ(trace.assumed_branches + trace.assumed_accesses, 0U);
}

TEST(ClockWalk, LanesSideBySideTouchFourSectorsAndHalfAWarpTwo) {
  const std::vector<Code> code = {
      {.encoding = k_lane}, {.encoding = k_address}, {.encoding = k_load}};
  constexpr std::uint64_t first = k_pointer / 32;

  EXPECT_THAT(sectors_of(walk(pointer_kernel(code))),
              ElementsAre(first, first + 1, first + 2, first + 3));
  EXPECT_THAT(sectors_of(walk(pointer_kernel(code), 0, 16)), ElementsAre(first, first + 1));
}

TEST(ClockWalk, BlocksHaveTheirOwnNumbers) {
  const TestKernel kernel =
      pointer_kernel({{.encoding = k_block_index}, {.encoding = k_address}, {.encoding = k_load}});

  EXPECT_THAT(sectors_of(walk(kernel, 0)), ElementsAre(k_pointer / 32));
  EXPECT_THAT(sectors_of(walk(kernel, 3)), ElementsAre((k_pointer + 12) / 32));
}

TEST(ClockWalk, GuardsTurnLanesOff) {
  // Lanes 2 to 31 load; with the guard negated lanes 0 and 1.
  const auto code = [](bool negated) {
    return pointer_kernel({{.encoding = k_lane},
                           {.encoding = k_above_one},
                           {.encoding = k_address},
                           {.encoding = guarded(k_load, 0, negated)}});
  };

  EXPECT_EQ(sectors_of(walk(code(false))).size(), 4U);
  EXPECT_EQ(sectors_of(walk(code(true))).size(), 1U);
}

TEST(ClockWalk, AnAddressOutOfLoadedDataIsRefusedWithItsInstruction) {
  const std::string said =
      refusal_of({{.encoding = k_load}, {.encoding = k_copy}, {.encoding = k_load}});

  EXPECT_THAT(said, HasSubstr("depends on loaded data"));
  EXPECT_THAT(said, HasSubstr("k+0x40: 'LDG.E.SYS R0, [R2]'"));
}

TEST(ClockWalk, WhatWasLoadedIsGoneFromLanesThatAreWritten) {
  // Half a warp loads into R0, then computes a number in it, then an index out of that.
  const WarpTrace trace = walk(pointer_kernel({{.encoding = k_load},
                                               {.encoding = k_fma},
                                               {.encoding = k_address},
                                               {.encoding = k_load}}),
                               0, 16);

  EXPECT_EQ(trace.assumed_accesses, 1U);
}

TEST(ClockWalk, AnAddressOutOfNumbersIsTakenForATable) {
  // FFMA R0, R7, R7, R8 of what nothing has written, as an index.
  const WarpTrace trace =
      walk(pointer_kernel({{.encoding = k_fma}, {.encoding = k_address}, {.encoding = k_load}}));

  EXPECT_EQ(trace.assumed_accesses, 1U);
  EXPECT_EQ(sectors_of(trace).size(), 4U);
}

/// What ptxas makes of R0 = R7 / divisor, unsigned: instructions of sm_75.
std::vector<Code> division(std::uint32_t divisor) {
  const auto with = [](const char* encoding, std::uint32_t immediate) {
    return Code{.encoding = with_bits(encoding, 32, 32, immediate)};
  };
  const std::uint32_t minus = 0U - divisor;
  return {with("000e2200002090000000002000047906", divisor),  // I2F.U32.RP R4, 0x20
          {.encoding = "001e2200000010000000000400047308"},   // MUFU.RCP R4, R4
          {.encoding = "001fe20007ffe0ff0ffffffe04027810"},   // IADD3 R2, R4, 0xffffffe, RZ
          {.encoding = "0004e2000021f0000000000200037305"},   // F2I.FTZ.U32.TRUNC.NTZ R3, R2
          {.encoding = "004fe200078e00ff000000ffff027224"},   // IMAD.MOV.U32 R2, RZ, RZ, RZ
          with("008fc400078e00ffffffffe003097824", minus),    // IMAD.U32 R9, R3, -0x20, RZ
          {.encoding = "000fe200078e00020000000903037227"},   // IMAD.HI.U32 R3, R3, R9, R2
          {.encoding = "002fc800078e00ff0000000703007227"},   // IMAD.HI.U32 R0, R3, R7, RZ
          with("000fe200078e0207ffffffe000037824", minus),    // IMAD R3, R0, -0x20, R7
          with("000fe40003f06070000000200300780c", divisor),  // ISETP.GE.U32.AND P0, R3, 0x20
          with("000fe40007ffe0ffffffffe003030810", minus),    // @P0 IADD3 R3, R3, -0x20, RZ
          {.encoding = "000fe40007ffe0ff0000000100000810"},   // @P0 IADD3 R0, R0, 0x1, RZ
          with("000fe40003f26070000000200300780c", divisor),  // ISETP.GE.U32.AND P1, R3, 0x20
          {.encoding = "000fc80007ffe0ff0000000100001810"}};  // @P1 IADD3 R0, R0, 0x1, RZ
}

TEST(ClockWalk, DivisionsOfKnownIntegersAreKnown) {
  // A sector has eight words: those of lanes 0 to 31 divided by 3 are 0 to 10, by 4 0 to 7.
  const auto divided = [](std::uint32_t divisor) {
    TestKernel kernel;
    kernel.code = {{.encoding = into(k_lane, 7)}};
    const std::vector<Code> quotient = division(divisor);
    kernel.code.insert(kernel.code.end(), quotient.begin(), quotient.end());
    for (const std::string& encoding : {k_low, k_high, k_address, k_load}) {
      kernel.code.push_back({.encoding = encoding});
    }
    kernel.code.push_back({.encoding = k_exit, .stall = 1});
    return walk(kernel);
  };
  constexpr std::uint64_t first = k_pointer / 32;

  EXPECT_THAT(sectors_of(divided(1)), ElementsAre(first, first + 1, first + 2, first + 3));
  EXPECT_THAT(sectors_of(divided(3)), ElementsAre(first, first + 1));
  EXPECT_THAT(sectors_of(divided(4)), ElementsAre(first));
  EXPECT_EQ(divided(3).assumed_accesses, 0U);
}

TEST(ClockWalk, NumbersAsDataNeedNotBeKnown) {
  const WarpTrace trace = walk(pointer_kernel({{.encoding = k_load}, {.encoding = k_store}}));

  EXPECT_EQ(trace.accesses.size(), 2U);
}

TEST(ClockWalk, ALoopGoesRoundAsOftenAsItsCounterSays) {
  // MOV R0, 7; IADD3 R0, R0, -1; ISETP.GT.U32 P0, R0, 1; @P0 BRA back.
  const std::string minus_one = with_bits(k_add_one, 32, 32, 0xffffffff);
  const WarpTrace trace = walk(pointer_kernel({{.encoding = k_seven},
                                               {.encoding = minus_one},
                                               {.encoding = k_above_one},
                                               {.encoding = branch(-48, false)}}));

  EXPECT_EQ(trace.steps.size(), 2U + 1 + 6 * 3 + 1);
}

TEST(ClockWalk, ALoopWhoseEndDependsOnDataIsRefused) {
  EXPECT_THAT(
      refusal_of(
          {{.encoding = k_load}, {.encoding = k_above_one}, {.encoding = branch(-32, false)}}),
      HasSubstr("a loop's end depends on data"));
}

TEST(ClockWalk, AForwardBranchThatDependsOnDataIsNotTaken) {
  const WarpTrace trace = walk(pointer_kernel({{.encoding = k_load},
                                               {.encoding = k_above_one},
                                               {.encoding = branch(16, false)},
                                               {.encoding = k_seven}}));

  EXPECT_EQ(trace.assumed_branches, 1U);
  EXPECT_EQ(trace.steps.size(), 7U);
}

TEST(ClockWalk, LanesThatPartAreWalkedOneAfterTheOther) {
  // Lanes 2 to 31 jump over the IADD3, and exit on their own.
  const WarpTrace trace = walk(pointer_kernel({{.encoding = k_lane},
                                               {.encoding = k_above_one},
                                               {.encoding = branch(16, false)},
                                               {.encoding = k_add_one}}));

  EXPECT_EQ(trace.steps.size(), 2U + 3 + 2 + 1);
}

TEST(ClockWalk, AnEndlessLoopIsRefused) {
  EXPECT_THAT(
      refusal_of(
          {{.encoding = k_seven}, {.encoding = k_above_one}, {.encoding = branch(-32, false)}}),
      HasSubstr("runs for too long"));
}

TEST(ClockWalk, BanksOfSharedMemoryCountPasses) {
  // STS [R0 (.X4, .X16)], R3 of lane numbers: words side by side, or every fourth word.
  const auto store = [](unsigned scale_code) {
    const sass::Encoding plain = parse_encoding("004fe800000008000000000004007388");
    sass::Encoding bits = plain;
    bits[0] = (bits[0] & ~(std::uint64_t{0xff} << 24)) | (std::uint64_t{0xff} << 32);
    bits[1] |= std::uint64_t{scale_code} << (78 - 64);
    return fmt::format("{:016x}{:016x}", bits[1], bits[0]);
  };
  const auto passes = [&](unsigned scale_code) {
    const WarpTrace trace =
        walk(pointer_kernel({{.encoding = k_lane}, {.encoding = store(scale_code)}}));
    EXPECT_EQ(trace.accesses.size(), 1U);
    EXPECT_EQ(trace.accesses.front().count, 0U);
    return trace.accesses.front().passes;
  };

  EXPECT_EQ(passes(1), 1U);  // .X4
  EXPECT_EQ(passes(3), 4U);  // .X16
}

TEST(ClockProgram, AKernelThatIsNotThereIsRefusedWithThoseThatAre) {
  const ClockProgram program = load_clock_program(cubin_of({pointer_kernel({})}));
  try {
    static_cast<void>(program.kernel("other"));
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("no kernel \"other\"; it has k"));
  }
}

}  // namespace
}  // namespace spjit
