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

TEST(ClockWalk, AnAddressOutOfNumbersIsTakenForATable) {
  // FFMA R0, R7, R7, R8 of what nothing has written, as an index.
  const WarpTrace trace =
      walk(pointer_kernel({{.encoding = k_fma}, {.encoding = k_address}, {.encoding = k_load}}));

  EXPECT_EQ(trace.assumed_accesses, 1U);
  EXPECT_EQ(sectors_of(trace).size(), 4U);
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
