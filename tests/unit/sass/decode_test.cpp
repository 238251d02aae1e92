#include "sass/decode.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "spjit/error.hpp"
#include "tests/support/cuda/sass_golden.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;
using sass::Instruction;
using sass::Modifier;
using sass::Opcode;
using sass::OperandKind;
using testing::HasSubstr;

Instruction decoded(const std::string& encoding, int arch, std::uint32_t offset = 0) {
  return sass::decode(parse_encoding(encoding), offset, arch);
}

std::string text_or_refusal(const std::string& encoding, int arch) {
  try {
    return to_text(decoded(encoding, arch));
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(SassDecode, HasNvdisasmsTextForTheGoldenInstructions) {
  std::set<Opcode> opcodes;
  for (const GoldenInstruction& item : read_golden_instructions()) {
    const Instruction instruction = sass::decode(item.encoding, item.offset, item.arch);

    EXPECT_EQ(to_text(instruction), item.text) << "sm_" << item.arch;
    opcodes.insert(instruction.opcode);
  }
  EXPECT_GT(opcodes.size(), 60U);
}

TEST(SassDecode, ReadsOperandsInTheirPlaces) {
  const Instruction fma = decoded("080fe400000000080000001504087223", 80);  // FFMA R8, R4, R21, R8

  EXPECT_EQ(fma.opcode, Opcode::ffma);
  EXPECT_EQ(fma.destinations, 1);
  ASSERT_EQ(fma.operands.size(), 4U);
  const std::array<int, 4> registers = {8, 4, 21, 8};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(fma.operands[i].kind, OperandKind::reg);
    EXPECT_EQ(fma.operands[i].number, registers[i]);
    EXPECT_EQ(fma.operands[i].reuse, i == 2);
  }
}

TEST(SassDecode, ReadsAnAddress) {
  // LDG.E.128.CONSTANT R4, desc[UR4][R4.64+0x8c]
  const Instruction load = decoded("000ea2000c1e9d0000008c0404047981", 90);

  EXPECT_TRUE(load.has(Modifier::b128));
  EXPECT_TRUE(load.has(Modifier::constant));
  EXPECT_EQ(load.operands[0].registers, 4);
  EXPECT_EQ(load.operands[1].kind, OperandKind::memory);
  EXPECT_EQ(load.operands[1].number, 4);
  EXPECT_EQ(load.operands[1].form, sass::AddressForm::wide);
  EXPECT_EQ(load.operands[1].value, 0x8c);
  EXPECT_EQ(load.operands[1].descriptor, 4);
  EXPECT_EQ(load.operands[1].uniform, sass::k_zero_uniform);
}

TEST(SassDecode, ReadsControlBits) {
  const Instruction load = decoded("000ea2000c1e9d000000000404047981", 80);  // waits for nothing
  const Instruction sum = decoded("002fc600078e02030000010000007a24", 80);   // waits for 1

  EXPECT_EQ(load.control.stall, 1);
  EXPECT_FALSE(load.control.yield);
  EXPECT_EQ(load.control.write_barrier, 2);
  EXPECT_EQ(load.control.read_barrier, sass::k_no_scoreboard);
  EXPECT_EQ(load.control.wait_mask, 0);
  EXPECT_EQ(sum.control.stall, 3);
  EXPECT_TRUE(sum.control.yield);
  EXPECT_EQ(sum.control.wait_mask, 1 << 1);
}

TEST(SassDecode, ReadsAGuard) {
  const Instruction exit = decoded("000fea0003800000000000000000894d", 90);  // @!P0 EXIT

  EXPECT_EQ(exit.guard.predicate, 0);
  EXPECT_TRUE(exit.guard.negated);
  EXPECT_FALSE(exit.guard.uniform);
}

TEST(SassDecode, KeepsWhatIsNotPrintedInItsPlace) {
  // IADD3 R5, R6, 0x1, RZ: no carries out or in.
  const Instruction sum = decoded("000fe20007ffe0ff0000000106057810", 80);

  ASSERT_EQ(sum.operands.size(), 8U);
  for (const std::size_t carry : {1U, 2U, 6U, 7U}) {
    EXPECT_EQ(sum.operands[carry].kind, OperandKind::predicate);
    EXPECT_TRUE(sum.operands[carry].hidden);
  }
  EXPECT_EQ(sum.destinations, 3);
  EXPECT_EQ(sum.operands[4].value, 1);
}

TEST(SassDecode, HasTargetsInTheSection) {
  const Instruction branch = decoded("000fea00038000000000072000000947", 80, 0x150);
  const Instruction on_hopper = decoded("000fea00038000000000000800280947", 90, 0x150);

  EXPECT_EQ(branch.operands[1].value, 0x880);
  EXPECT_EQ(on_hopper.operands[1].value, 0x160 + 0x800 + 0xa0);
}

TEST(SassDecode, RefusesWhatItDoesNotKnowAndNamesTheBits) {
  const std::string tensor = "000fe200000000ff000000020404723c";  // HMMA, which no kernel here has
  EXPECT_EQ(text_or_refusal(tensor, 80), "unknown instruction " + tensor + " of sm_80");
  EXPECT_THAT(text_or_refusal("080fe400000000080000001504087223", 120), HasSubstr("of sm_120"));
  EXPECT_THAT(text_or_refusal("000fe200000000000000000106057836", 80),
              HasSubstr("unknown"));  // VIADD
}

TEST(SassDecode, RefusesEveryBitThatNothingReads) {
  // FFMA R8, R4, R21, R8: bits 40 to 61 belong to constants and immediates, 76 is .FMZ.
  const sass::Encoding fma = parse_encoding("000fe400000000080000001504087223");
  for (const unsigned bit : {40U, 50U, 61U, 76U, 81U, 87U, 91U, 104U, 125U, 126U, 127U}) {
    sass::Encoding changed = fma;
    changed[bit / 64] |= std::uint64_t{1} << bit % 64;

    EXPECT_THROW(static_cast<void>(sass::decode(changed, 0, 80)), Error) << bit;
  }
}

TEST(SassDecode, RefusesControlBitsThatHaveNoMeaning) {
  EXPECT_THAT(text_or_refusal("000fe000000000080000001504087223", 80),
              HasSubstr("unknown"));  // stall 0
  EXPECT_THAT(text_or_refusal("040fc400000000080000001504087223", 80),
              HasSubstr("unknown"));  // reuse
  EXPECT_THAT(text_or_refusal("0007ea0003800000000000000000094d", 90),
              HasSubstr("unknown"));  // EXIT sets
}

TEST(SassDecode, OfAllCodeNamesFunctionAndOffset) {
  std::vector<std::byte> code(48);
  const sass::Encoding nop = parse_encoding("000fc000000000000000000000007918");
  for (std::size_t at = 0; at < code.size(); at += sizeof nop) {
    std::memcpy(code.data() + at, nop.data(), sizeof nop);
  }
  EXPECT_EQ(sass::decode_all(code, 80, "tile").size(), 3U);
  code[32] = std::byte{0xff};
  try {
    static_cast<void>(sass::decode_all(code, 80, "tile"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("tile+0x20: unknown instruction 000fc0000000000"));
  }
  code.pop_back();
  EXPECT_THROW(static_cast<void>(sass::decode_all(code, 80, "tile")), Error);
}

}  // namespace
