// Machine code that waits too little, reads what nothing wrote or is not known ends in an error
// that names it; the same code with the right control bits runs.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sass_testing.hpp"

namespace spjit::emulated {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Of tests/golden/sass.txt, with other registers and immediates; control bits are Code's.
const std::string k_low = "000fe40000000f000000580000027a02";       // MOV R2, c[0x0][0x160]
const std::string k_high = "000fe40000000f000000590000037a02";      // MOV R3, c[0x0][0x164]
const std::string k_seven = "000fe40000000f000000000700007802";     // MOV R0, 0x7
const std::string k_one_more = "000fe20007ffe0ff0000000100007810";  // IADD3 R0, R0, 0x1, RZ
const std::string k_load = "000ea200001ee9000000000002007381";      // LDG.E.SYS R0, [R2]
const std::string k_store = "000fe2000010e9000000000002007386";     // STG.E.SYS [R2], R0
const std::string k_copy = "000fe40000000f000000000000027202";      // MOV R2, R0
const std::string k_lane = "000e2200000021000000000000007919";      // S2R R0, SR_TID.X
const std::string k_exit = "000fea0003800000000000000000794d";

/// Puts another register, of eight bits, into an encoding's lower half, or its guard.
std::string with_bits(const std::string& encoding, unsigned first, unsigned width,
                      std::uint64_t value) {
  sass::Encoding bits = testing_support::parse_encoding(encoding);
  const std::uint64_t mask = ((std::uint64_t{1} << width) - 1) << first;
  bits[0] = (bits[0] & ~mask) | value << first;
  return fmt::format("{:016x}{:016x}", bits[1], bits[0]);
}
std::string into(const std::string& encoding, unsigned reg) {
  return with_bits(encoding, 16, 8, reg);
}
std::string of(const std::string& encoding, unsigned reg) {
  return with_bits(encoding, 32, 8, reg);
}
std::string guarded(const std::string& encoding, unsigned predicate, bool negated) {
  return with_bits(encoding, 12, 4, predicate | (negated ? 8U : 0U));
}

/// MOV of an immediate.
std::string moved(unsigned reg, std::uint32_t value) {
  return with_bits(into(k_seven, reg), 32, 32, value);
}

TestKernel kernel_of_code(const std::vector<Code>& middle) {
  TestKernel kernel;
  kernel.code = {{.encoding = k_low}, {.encoding = k_high, .stall = 8}};
  kernel.code.insert(kernel.code.end(), middle.begin(), middle.end());
  kernel.code.push_back({.encoding = k_exit});
  return kernel;
}

std::vector<std::uint32_t> run(const std::vector<Code>& middle) {
  return run_code({kernel_of_code(middle)});
}

/// The error that the program ends in; none: the test fails.
std::optional<ProgramError> fault_of_code(const std::vector<TestKernel>& kernels) {
  try {
    static_cast<void>(run_code(kernels));
  } catch (const ProgramError& error) {
    return error;
  }
  ADD_FAILURE() << "no fault";
  return std::nullopt;
}

void expect_fault(const std::vector<Code>& middle, FaultKind kind, const std::string& message) {
  const std::optional<ProgramError> error = fault_of_code({kernel_of_code(middle)});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), kind);
  EXPECT_THAT(error->what(), HasSubstr(message));
}

TEST(SassCode, RunsAsItsInstructionsSay) {
  EXPECT_THAT(
      run({{.encoding = k_seven}, {.encoding = k_one_more, .stall = 8}, {.encoding = k_store}}),
      ElementsAre(8, 6, 7, 8));
}

TEST(SassCode, AnFmaRoundsOnce) {
  // FFMA R0, R7, R7, R8 of 1 + 2^-12 and -(1 + 2^-11) is 2^-24.
  const std::vector<Code> code = {{.encoding = moved(7, 0x3f800800)},
                                  {.encoding = moved(8, 0xbf801000), .stall = 8},
                                  {.encoding = "000fe400000000080000000707007223", .stall = 8},
                                  {.encoding = k_store}};

  EXPECT_THAT(run(code), ElementsAre(0x33800000, 6, 7, 8));
}

TEST(SassCode, AWideProductAddsAllOfItsSum) {
  // IMAD.WIDE.U32 R4, R7, 0x10, R10 of 0x10000001 and {7, 2} is {0x17, 3}.
  for (const unsigned stored : {4U, 5U}) {
    const std::vector<Code> code = {{.encoding = moved(7, 0x10000001)},
                                    {.encoding = moved(10, 7)},
                                    {.encoding = moved(11, 2), .stall = 8},
                                    {.encoding = "000fe200078e000a0000001007047825", .stall = 8},
                                    {.encoding = of(k_store, stored)}};

    EXPECT_THAT(run(code), ElementsAre(stored == 4 ? 0x17 : 3, 6, 7, 8));
  }
}

TEST(SassCode, TheClockIsTheSumOfTheStallCountsBefore) {
  // CS2R R4, SR_CLOCKLO, of 64 bits; two moves of 6 and 8 go before.
  const Code clock = {.encoding = "000fe200000150000000000000047805", .stall = 11};
  const Code store = {.encoding = of(k_store, 4)};
  const Code store_high = {.encoding = of(k_store, 5)};

  EXPECT_THAT(run({clock, store}), ElementsAre(14, 6, 7, 8));
  EXPECT_THAT(run({{.encoding = k_seven, .stall = 9}, clock, store}), ElementsAre(23, 6, 7, 8));
  EXPECT_THAT(run({clock, store_high}), ElementsAre(0, 6, 7, 8));
}

TEST(SassCode, OnlyLanesWhoseGuardIsTrueExecute) {
  // ISETP.GT.U32.AND P0, PT, R0, 0x1, PT: false of 0 and 1.
  const std::string greater = "000fd80003f04070000000010000780c";
  // LEA R2, R0, R2, 0x2 of addresses below 2^32, without a carry.
  const std::string address = "001fc800078e10ff0000000200027211";
  for (const bool negated : {false, true}) {
    std::vector<Code> code = {{.encoding = k_lane, .stall = 2, .write_barrier = 0}};
    code.push_back({.encoding = greater, .stall = 11, .wait_mask = 1});
    code.push_back({.encoding = address, .stall = 8});
    code.push_back({.encoding = k_seven, .stall = 11});
    code.push_back({.encoding = guarded(k_store, 0, negated)});

    const std::vector<std::uint32_t> words = run_code({kernel_of_code(code)}, 4);

    EXPECT_EQ(words, negated ? (std::vector<std::uint32_t>{7, 7, 7, 8})
                             : (std::vector<std::uint32_t>{5, 6, 7, 7}));
  }
}

TEST(SassCode, AStallCountThatIsTooShortIsAHazard) {
  const auto code = [](std::uint8_t stall) {
    return std::vector<Code>{{.encoding = k_seven, .stall = stall},
                             {.encoding = k_one_more, .stall = 8},
                             {.encoding = k_store}};
  };

  EXPECT_THAT(run(code(4)), ElementsAre(8, 6, 7, 8));
  expect_fault(code(3), FaultKind::hazard,
               "k+0x30: 'IADD3 R0, R0, 0x1, RZ': reads R0 3 cycles after 'MOV R0, 0x7', at least "
               "4 are needed (warp 0 of block 0,0,0 in k)");
}

TEST(SassCode, AStallCountThatIsTooShortForAnAddressIsAHazard) {
  const auto code = [](std::uint8_t stall) {
    return std::vector<Code>{{.encoding = k_seven, .stall = 8},
                             {.encoding = k_low, .stall = stall},
                             {.encoding = k_store}};
  };

  EXPECT_THAT(run(code(8)), ElementsAre(7, 6, 7, 8));
  expect_fault(code(7), FaultKind::hazard, "reads R2 7 cycles after");
}

TEST(SassCode, AGuardThatIsNotThereYetIsAHazard) {
  const std::string greater = "000fd80003f04070000000010000780c";  // ISETP P0, of R0
  const std::vector<Code> code = {{.encoding = k_seven},
                                  {.encoding = greater, .stall = 11},
                                  {.encoding = guarded(k_store, 0, false)}};

  expect_fault(code, FaultKind::hazard, "reads P0 11 cycles after");
}

TEST(SassCode, ALoadThatNothingWaitsForIsAHazard) {
  const auto code = [](std::uint8_t wait_mask) {
    return std::vector<Code>{{.encoding = k_load, .stall = 2, .write_barrier = 2},
                             {.encoding = k_one_more, .stall = 8, .wait_mask = wait_mask},
                             {.encoding = k_store}};
  };

  EXPECT_THAT(run(code(1 << 2)), ElementsAre(6, 6, 7, 8));
  expect_fault(code(0), FaultKind::hazard,
               "reads R0, but nothing has waited for 'LDG.E.SYS R0, [R2]'");
  expect_fault(code(1 << 1), FaultKind::hazard, "reads R0, but nothing has waited");
}

TEST(SassCode, ALoadWithoutAScoreboardIsNeverThere) {
  const std::vector<Code> code = {{.encoding = k_load, .stall = 2},
                                  {.encoding = k_one_more, .stall = 8, .wait_mask = 0x3f},
                                  {.encoding = k_store}};

  expect_fault(code, FaultKind::hazard, "reads R0, but nothing has waited");
}

TEST(SassCode, AWaitRightAfterItsScoreboardWasSetIsAHazard) {
  const std::vector<Code> code = {{.encoding = k_load, .stall = 1, .write_barrier = 2},
                                  {.encoding = k_one_more, .stall = 8, .wait_mask = 1 << 2},
                                  {.encoding = k_store}};

  expect_fault(code, FaultKind::hazard, "waits for scoreboard 2 1 cycle after it was set");
}

TEST(SassCode, AnOperandOverwrittenBeforeItWasReadIsAHazard) {
  const auto code = [](std::uint8_t read_barrier, std::uint8_t wait_mask) {
    return std::vector<Code>{{.encoding = k_seven, .stall = 8},
                             {.encoding = k_store, .stall = 2, .read_barrier = read_barrier},
                             {.encoding = k_one_more, .stall = 8, .wait_mask = wait_mask},
                             {.encoding = k_store}};
  };

  EXPECT_THAT(run(code(1, 1 << 1)), ElementsAre(8, 6, 7, 8));
  expect_fault(code(1, 0), FaultKind::hazard,
               "overwrites R0, which 'STG.E.SYS [R2], R0' may not have read");
  expect_fault(code(sass::k_no_scoreboard, 0x3f), FaultKind::hazard, "overwrites R0, which");
}

TEST(SassCode, AResultOverwrittenBeforeItCameIsAHazard) {
  const std::vector<Code> code = {{.encoding = k_load, .stall = 2, .write_barrier = 2},
                                  {.encoding = k_seven, .stall = 8},
                                  {.encoding = k_store}};

  expect_fault(code, FaultKind::hazard, "overwrites R0, but nothing has waited for 'LDG");
}

TEST(SassCode, ARegisterThatNothingHasWrittenIsNotRead) {
  expect_fault({{.encoding = of(k_store, 9)}}, FaultKind::uninitialized_read,
               "k+0x20: 'STG.E.SYS [R2], R9': reads R9, which nothing has written");
}

/// ptxas moves registers that only some lanes have, for those lanes.
TEST(SassCode, ACopyOfWhatNothingHasWrittenIsRefusedWhereItIsUsed) {
  const Code copy = {.encoding = of(into(k_copy, 4), 9), .stall = 8};  // MOV R4, R9

  EXPECT_THAT(run({copy, {.encoding = k_seven, .stall = 8}, {.encoding = k_store}}),
              ElementsAre(7, 6, 7, 8));
  expect_fault({copy, {.encoding = of(k_store, 4)}}, FaultKind::uninitialized_read,
               "reads R4, which nothing has written");
}

/// ptxas loads a word of shared memory beside one that it needs.
TEST(SassCode, AWordOfSharedMemoryThatNothingHasWrittenIsRefusedWhereItIsUsed) {
  const auto kernel = [](unsigned stored) {
    TestKernel made = kernel_of_code(
        {{.encoding = k_seven, .stall = 8},
         {.encoding = moved(4, 0), .stall = 8},
         {.encoding = "004fe800000008000000000004007388", .stall = 2},  // STS [R4], R0
         {.encoding = "000e240000001c000000000004087984", .stall = 2, .write_barrier = 0},
         {.encoding = of(k_store, stored), .wait_mask = 1}});  // LDS.U.128 R8, [R4]
    made.shared_bytes = 64;
    return made;
  };

  EXPECT_THAT(run_code({kernel(8)}), ElementsAre(7, 6, 7, 8));
  const std::optional<ProgramError> error = fault_of_code({kernel(9)});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), FaultKind::uninitialized_read);
  EXPECT_THAT(error->what(), HasSubstr("reads R9, which nothing has written"));
}

TEST(SassCode, AnInstructionThatIsNotKnownIsNamedByPlaceAndBits) {
  const std::string tensor = "000fe200000000ff000000020404723c";  // HMMA

  const std::optional<ProgramError> error =
      fault_of_code({kernel_of_code({{.encoding = tensor, .stall = 1}})});

  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), FaultKind::invalid_cubin);
  EXPECT_EQ(std::string(error->what()),
            ".text.k+0x20: unknown instruction " + tensor + " of sm_75");
}

TEST(SassCode, AKnownInstructionThatIsNotExecutedIsNamedByPlaceAndText) {
  const std::string mask = "000e2200000038000000000000007919";

  expect_fault({{.encoding = mask, .write_barrier = 0}}, FaultKind::trap,
               "k+0x20: 'S2R R0, SR_EQMASK': SR_EQMASK is not emulated");
}

TEST(SassCode, RegistersBeyondTheKernelsAreRefused) {
  TestKernel small = kernel_of_code({{.encoding = k_seven, .stall = 8}, {.encoding = k_store}});
  small.registers = 4;
  TestKernel large = kernel_of_code({{.encoding = into(k_seven, 9)}});
  large.name = "large";

  EXPECT_THAT(run_code({small, large}), ElementsAre(7, 6, 7, 8));  // each has its own
  large.registers = 9;
  const std::optional<ProgramError> error = fault_of_code({small, large});
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("'MOV R9, 0x7' names R9, but large has 9 registers"));
}

TEST(SassCode, AnAddressBehindItsAllocationIsAnError) {
  const std::string behind = with_bits(k_store, 40, 24, 16);  // STG.E.SYS [R2+0x10], R0

  expect_fault({{.encoding = k_seven, .stall = 8}, {.encoding = k_store}, {.encoding = behind}},
               FaultKind::illegal_address, "k+0x40: 'STG.E.SYS [R2+0x10], R0': ");
}

TEST(SassCode, AnAddressBeyondAllMemoryIsAnError) {
  const std::vector<Code> code = {
      {.encoding = k_seven}, {.encoding = into(k_seven, 3), .stall = 8}, {.encoding = k_store}};

  expect_fault(code, FaultKind::illegal_address, "k+0x40: 'STG.E.SYS [R2], R0': ");
}

}  // namespace
}  // namespace spjit::emulated
