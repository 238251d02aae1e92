#include <gmock/gmock.h>

#include "interpreter_testing.hpp"

namespace spjit::emulated {
namespace {

using testing::ElementsAre;

std::vector<std::uint32_t> first(std::vector<std::uint32_t> words, std::size_t count) {
  words.resize(count);
  return words;
}

constexpr const char* k_store_by_thread =
    "mov.u32 %r10, %tid.x; mul.wide.u32 %rd10, %r10, 4; add.s64 %rd11, %rd0, %rd10;\n";

TEST(Programs, ThreadsAndBlocksAreNumberedAlongTheGrid) {
  const std::string text = kernel_of(
      "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;\n"
      "mad.lo.s32 %r4, %r1, %r2, %r3; mul.wide.u32 %rd1, %r4, 4; add.s64 %rd2, %rd0, %rd1;\n"
      "mad.lo.s32 %r5, %r1, 100, %r3; st.global.u32 [%rd2], %r5;");

  EXPECT_THAT(first(run_words(text, {{3, 1, 1}, {2, 1, 1}, 0}), 7),
              ElementsAre(0, 1, 100, 101, 200, 201, 0xdeadbeef));
}

TEST(Programs, PredicateTurnsAnInstructionOff) {
  EXPECT_EQ(run_body("mov.u32 %r1, 1; setp.eq.u32 %p1, %r1, 1;\n"
                     "@!%p1 mov.u32 %r1, 2; @%p1 add.u32 %r1, %r1, 10;\n"
                     "st.global.u32 [%rd0], %r1;"),
            11U);
}

TEST(Programs, LoopBranchesBackwards) {
  EXPECT_EQ(run_body("mov.u32 %r1, 0; mov.u32 %r2, 0;\n$L:\nadd.u32 %r1, %r1, %r2;\n"
                     "add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 10; @%p1 bra $L;\n"
                     "st.global.u32 [%rd0], %r1;"),
            45U);
}

TEST(Programs, BranchTableJumpsToTheIndexedLabel) {
  const std::string text = kernel_of(std::string(k_store_by_thread) +
                                     "$T: .branchtargets $A, $B, $A;\nbrx.idx %r10, $T;\n"
                                     "$A: st.global.u32 [%rd11], 7; ret;\n"
                                     "$B: st.global.u32 [%rd11], 8; ret;");

  EXPECT_THAT(first(run_words(text, {{1, 1, 1}, {3, 1, 1}, 0}), 3), ElementsAre(7, 8, 7));
}

// Each thread stores its number and reads that of the thread mirrored in the block.
TEST(Programs, BarrierMakesSharedMemoryOfAllThreadsVisible) {
  const std::string text =
      kernel_of(std::string(".shared .align 4 .b8 tile[256];\n") + k_store_by_thread +
                "mov.u32 %r1, tile; shl.b32 %r2, %r10, 2; add.s32 %r3, %r1, %r2;\n"
                "st.shared.u32 [%r3], %r10;\nbar.sync 0;\nsub.s32 %r4, 252, %r2;\n"
                "add.s32 %r4, %r4, %r1; ld.shared.u32 %r5, [%r4]; st.global.u32 [%rd11], %r5;");

  const std::vector<std::uint32_t> words = run_words(text, {{1, 1, 1}, {64, 1, 1}, 0});

  for (std::uint32_t i = 0; i < 64; ++i) {
    EXPECT_EQ(words[i], 63 - i);
  }
}

// Two warps, each with a barrier of its own, write to one place: both read what the last has
// written.
TEST(Programs, BarriersTakeTurns) {
  const std::string text =
      kernel_of(std::string(".shared .align 4 .b8 place[4];\n") + k_store_by_thread +
                "shr.u32 %r1, %r10, 5; mov.u32 %r2, place;\nbar.sync %r1, 32;\n"
                "st.shared.u32 [%r2], %r1;\nbar.sync %r1, 32;\n"
                "ld.shared.u32 %r3, [%r2]; st.global.u32 [%rd11], %r3;");

  const std::vector<std::uint32_t> words = run_words(text, {{1, 1, 1}, {64, 1, 1}, 0});

  EXPECT_EQ(words[0], words[63]);
}

TEST(Programs, DynamicSharedMemoryLiesBehindTheStatic) {
  std::string text = kernel_of(
      ".shared .align 4 .b8 fixed[20];\nmov.u32 %r1, dyn; st.shared.u32 [%r1+12], 5;\n"
      "ld.shared.u32 %r2, [dyn+12]; add.u32 %r2, %r2, %r1; st.global.u32 [%rd0], %r2;");
  text.insert(text.find(".visible"), ".extern .shared .align 16 .b8 dyn[];\n");

  EXPECT_EQ(run_words(text, {{1, 1, 1}, {1, 1, 1}, 16})[0], 32U + 5U);
  EXPECT_EQ(fault_of(text, {{1, 1, 1}, {1, 1, 1}, 12}).kind(), FaultKind::illegal_address);
}

TEST(Programs, LocalMemoryIsIndexedByAddress) {
  EXPECT_EQ(
      run_body(".local .align 8 .b8 depot[8];\nmov.u64 %rd1, depot;\n"
               "st.local.v2.u32 [%rd1], {5, 6}; ld.local.u32 %r1, [%rd1+4];\n"
               "cvta.local.u64 %rd2, %rd1; ld.u32 %r2, [%rd2]; mad.lo.u32 %r3, %r1, 10, %r2;\n"
               "st.global.u32 [%rd0], %r3;"),
      65U);
}

TEST(Programs, ConstantsAndGlobalsAreInitialized) {
  std::string text = kernel_of(
      "ld.const.u32 %r1, [table+4]; mov.u64 %rd1, table; ld.const.u16 %r2, [%rd1+8];\n"
      "ld.global.u32 %r3, [zero]; add.u32 %r4, %r1, %r2; add.u32 %r4, %r4, %r3;\n"
      "st.global.u32 [%rd0], %r4;");
  text.insert(text.find(".visible"),
              ".const .align 4 .u32 table[3] = {1, 20, 0x10300};\n"
              ".global .align 4 .u32 zero;\n");

  EXPECT_EQ(run_words(text)[0], 20U + 0x300U);
}

TEST(Programs, VectorsMoveAndSkipElements) {
  EXPECT_EQ(run_body("st.global.v4.f32 [%rd0], {0f00000001, 0f00000002, 0f00000003, 0f00000004};\n"
                     "ld.global.v4.u32 {%r1, _, %r3, %r4}, [%rd0]; mov.b64 %rd1, {%r3, %r4};\n"
                     "mov.b64 {%r5, %r6}, %rd1; mad.lo.u32 %r7, %r6, 10, %r5;\n"
                     "st.global.u32 [%rd0], %r7;"),
            43U);
}

TEST(Programs, CallHandsOverParametersAndResult) {
  std::string text = kernel_of(
      "{\n.param .b32 a; .param .b32 r;\nst.param.b32 [a+0], 5;\n"
      "call.uni (r), twice, (a);\nld.param.b32 %r1, [r+0];\n}\n"
      "call (%r2), plus, (%r1, 3);\nst.global.u32 [%rd0], %r2;");
  text.insert(text.find(".visible"),
              ".func (.param .b32 r) twice(.param .b32 x)\n{ .reg .b32 %r<3>;\n"
              "ld.param.b32 %r1, [x]; add.s32 %r2, %r1, %r1; st.param.b32 [r+0], %r2; ret; }\n"
              ".func (.reg .b32 s) plus(.reg .b32 a, .reg .b32 b)\n{ add.s32 s, a, b; }\n");

  EXPECT_EQ(run_words(text)[0], 13U);
}

TEST(Programs, UnitsAreLinkedByTheirVisibleFunctions) {
  std::string text = kernel_of("call (%r1), seven, ();\nst.global.u32 [%rd0], %r1;");
  text.insert(text.find(".visible"), ".extern .func (.reg .b32 r) seven();\n");
  const std::string other =
      fmt::format("{}.visible .func (.reg .b32 r) seven() {{ mov.b32 r, 7; }}", k_header);

  EXPECT_EQ(run_words(text + other)[0], 7U);
  EXPECT_EQ(fault_of(text).kind(), FaultKind::unresolved_symbol);
}

TEST(Programs, EveryBlockFindsItsSharedMemoryUnwritten) {
  const std::string text = kernel_of(
      ".shared .align 4 .b32 x;\nmov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r1, 0;\n"
      "@%p1 st.shared.u32 [x], 1;\nld.shared.u32 %r2, [x];");

  EXPECT_EQ(fault_of(text, {{2, 1, 1}, {1, 1, 1}, 0}).kind(), FaultKind::uninitialized_read);
}

}  // namespace
}  // namespace spjit::emulated
