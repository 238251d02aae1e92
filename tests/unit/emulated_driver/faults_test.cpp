#include <gmock/gmock.h>

#include <array>
#include <cstdint>

#include "interpreter_testing.hpp"

namespace spjit::emulated {
namespace {

using testing::HasSubstr;

struct FaultCase {
  const char* name;
  FaultKind kind;
  const char* body;
  const char* message;
};

class Fault : public testing::TestWithParam<FaultCase> {};

TEST_P(Fault, NamesLineAndText) {
  const ProgramError error = fault_of(kernel_of(GetParam().body));

  EXPECT_EQ(error.kind(), GetParam().kind) << error.what();
  EXPECT_THAT(error.what(), HasSubstr(GetParam().message));
  EXPECT_THAT(error.what(), HasSubstr("line 9: '"));
}

INSTANTIATE_TEST_SUITE_P(
    Text, Fault,
    testing::Values(
        FaultCase{"opcode", FaultKind::invalid_ptx, "frobnicate.u32 %r1, 1;", "unknown opcode"},
        FaultCase{"modifier", FaultKind::invalid_ptx, "add.zap.f32 %f1, %f2, %f2;", "'.zap'"},
        FaultCase{"order", FaultKind::invalid_ptx, "add.ftz.rn.f32 %f1, %f2, %f2;", "'.rn'"},
        FaultCase{"approx", FaultKind::invalid_ptx, "div.approx.f32 %f1, %f2, %f2;", "'.approx'"},
        FaultCase{"type", FaultKind::invalid_ptx, "add.f16 %h1, %h2, %h2;", "'.f16'"},
        FaultCase{"space", FaultKind::invalid_ptx, "ld.texture.u32 %r1, [%rd0];", "'.texture'"},
        FaultCase{"rounding", FaultKind::invalid_ptx, "fma.f32 %f1, %f2, %f2, %f2;", "rounding"},
        FaultCase{"width", FaultKind::invalid_ptx, "add.s32 %r1, %rd1, 1;", "%rd1 is .b64"},
        FaultCase{"kind", FaultKind::invalid_ptx, "add.s32 %r1, %f1, 1;", "%f1 is .f32"},
        FaultCase{"range", FaultKind::invalid_ptx, "add.s32 %r1, %r16, 1;", "'%r16'"},
        FaultCase{"number", FaultKind::invalid_ptx, "add.u16 %h1, %h1, 65536;", "'65536'"},
        FaultCase{"operands", FaultKind::invalid_ptx, "add.s32 %r1, 1;", "','"},
        FaultCase{"function", FaultKind::invalid_ptx, "call nowhere;", "'nowhere'"},
        FaultCase{"vector", FaultKind::invalid_ptx, "ld.global.v2.u32 {%r1}, [%rd0];",
                  "1 elements"},
        FaultCase{"far", FaultKind::invalid_ptx, "st.global.u32 [%rd0+2147483648], 1;", "32 bits"},
        FaultCase{"far_back", FaultKind::invalid_ptx, "st.global.u32 [%rd0-2147483649], 1;",
                  "32 bits"},
        FaultCase{"parameter", FaultKind::invalid_ptx, "ld.param.u64 %rd1, [out+8];", "8 bytes"}),
    [](const auto& one) { return std::string(one.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Run, Fault,
    testing::Values(
        FaultCase{"end", FaultKind::illegal_address, "st.global.u32 [%rd0+256], 1;", "allocation"},
        FaultCase{"begin", FaultKind::illegal_address, "st.global.u32 [%rd0+-4], 1;", "allocation"},
        FaultCase{"null", FaultKind::illegal_address, "st.global.u32 [0], 1;", "0x0"},
        FaultCase{"shared", FaultKind::illegal_address, "st.shared.u32 [0], 1;", "shared"},
        FaultCase{"constant", FaultKind::illegal_address, "ld.const.u32 %r1, [%rd0];", "global"},
        FaultCase{"misaligned", FaultKind::misaligned_address, "st.global.u32 [%rd0+2], 1;",
                  "multiple of 4"},
        FaultCase{"vector_misaligned", FaultKind::misaligned_address,
                  "ld.global.v4.u32 {%r1,%r2,%r3,%r4}, [%rd0+8];", "multiple of 16"},
        FaultCase{"register_", FaultKind::uninitialized_read, "add.s32 %r1, %r2, 1;", "%r2"},
        FaultCase{"guard", FaultKind::uninitialized_read, "@%p3 bra $L; $L: ret;", "%p3"},
        FaultCase{"memory", FaultKind::uninitialized_read, "ld.global.u32 %r1, [%rd0];",
                  "never written"},
        FaultCase{"zero", FaultKind::trap, "div.s32 %r1, 1, 0;", "zero"},
        FaultCase{"trap", FaultKind::trap, "trap;", "traps"},
        FaultCase{"table", FaultKind::trap, "brx.idx 2, $T; $A: ret; $T: .branchtargets $A, $A;",
                  "index 2"}),
    [](const auto& one) { return std::string(one.param.name); });

TEST(Faults, MissingLabelAndMissingVersionAreRefused) {
  EXPECT_THAT(fault_of(kernel_of("bra $L_nowhere;")).what(), HasSubstr("$L_nowhere"));
  EXPECT_THAT(fault_of("ret;").what(), HasSubstr(".version"));
}

TEST(Faults, ThreadThatLeavesBeforeABarrierIsADivergence) {
  const std::string text = kernel_of(
      "mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 5; @%p1 bra $L;\n"
      "bar.sync 0;\n$L: ret;");

  const ProgramError error = fault_of(text, {{1, 1, 1}, {64, 1, 1}, 0});

  EXPECT_EQ(error.kind(), FaultKind::illegal_barrier);
  EXPECT_THAT(error.what(), HasSubstr("63 of 64 threads wait; 1 of the block's 64 have exited"));
}

TEST(Faults, WarpAtTwoBarriersIsADivergence) {
  const std::string text = kernel_of(
      "mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 5; @%p1 bra $L;\n"
      "bar.sync 0; ret;\n$L:\nbar.sync 0; ret;");

  EXPECT_EQ(fault_of(text, {{1, 1, 1}, {32, 1, 1}, 0}).kind(), FaultKind::illegal_barrier);
}

TEST(Faults, BlockLargerThanMaxntidIsRefused) {
  const std::string text =
      fmt::format("{}.visible .entry k(.param .u64 out) .maxntid 32, 1, 1 {{ ret; }}", k_header);

  EXPECT_EQ(fault_of(text, {{1, 1, 1}, {64, 1, 1}, 0}).kind(), FaultKind::launch_out_of_range);
}

TEST(Faults, GridOfMoreBlocksThanCanBeCountedIn32BitsIsNotCutShort) {
  const std::string text = kernel_of("ret;");

  // 2^32 + 65534 blocks, and more than 2^64.
  EXPECT_EQ(fault_of(text, {{65538, 65535, 1}, {32, 1, 1}, 0}).kind(), FaultKind::timeout);
  EXPECT_EQ(fault_of(text, {{0x7fffffff, 0xffffffff, 0xffff}, {1, 1, 1}, 0}).kind(),
            FaultKind::timeout);
}

TEST(Faults, MemoryThatIsNotTouchedIsFree) {
  GlobalMemory memory(std::uint64_t{1} << 40);
  Allocation* far = memory.allocate(std::uint64_t{1} << 36);
  ASSERT_NE(far, nullptr);

  far->contents.write((std::uint64_t{1} << 36) - 1, std::array<std::uint8_t, 1>{7});

  EXPECT_EQ(far->contents.bytes()[(std::uint64_t{1} << 36) - 1], 7);
  EXPECT_EQ(far->contents.defined()[(std::uint64_t{1} << 36) - 1], 1);
  EXPECT_EQ(far->contents.defined()[(std::uint64_t{1} << 36) - 2], 0);
}

TEST(Faults, FreedMemoryStaysAnError) {
  GlobalMemory memory(1024);
  const Address address = memory.allocate(512)->address;
  EXPECT_EQ(memory.allocate(1024), nullptr);

  EXPECT_TRUE(memory.free(address));

  EXPECT_EQ(memory.find(address), nullptr);
  EXPECT_NE(memory.allocate(512)->address, address);
}

}  // namespace
}  // namespace spjit::emulated
