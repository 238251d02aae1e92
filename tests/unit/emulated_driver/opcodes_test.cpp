#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "interpreter_testing.hpp"

namespace spjit::emulated {
namespace {

/// One instruction: what is in its operands, and the first word (or two) of what it gives.
struct OpcodeCase {
  const char* opcode;
  const char* type;                   ///< of the result's register: r, rd, f, fd, h or p
  std::vector<const char*> operands;  ///< numbers, or registers that `before` sets
  std::uint64_t expected;
  const char* before = "";
};

// NOLINTNEXTLINE(readability-identifier-naming): the name GoogleTest looks for
void PrintTo(const OpcodeCase& one, std::ostream* out) {
  *out << one.opcode;
  for (const char* operand : one.operands) {
    *out << ' ' << operand;
  }
}

class Opcode : public testing::TestWithParam<OpcodeCase> {};

TEST_P(Opcode, GivesTheValueWorkedOutByHand) {
  const OpcodeCase& one = GetParam();
  const std::string type = one.type;
  std::string body = fmt::format("{}\n{} %{}1", one.before, one.opcode, type);
  for (const char* operand : one.operands) {
    body += fmt::format(", {}", operand);
  }
  body += ";\n";
  if (type == "p") {
    body += "selp.u32 %r9, 1, 0, %p1; st.global.u32 [%rd0], %r9;";
  } else {
    const char* store = type == "rd" ? "u64" : type == "fd" ? "f64" : type == "f" ? "f32" : "u32";
    body += type == "h" ? "st.global.u16 [%rd0], %h1; st.global.u16 [%rd0+2], 0;"
                        : fmt::format("st.global.{} [%rd0], %{}1;", store, type);
  }

  const std::vector<std::uint32_t> words = run_words(kernel_of(body));

  const bool is_wide = type == "rd" || type == "fd";
  const std::uint64_t high = is_wide ? std::uint64_t{words[1]} << 32 : 0;
  EXPECT_EQ(high | words[0], one.expected);
}

constexpr const char* k_nan = "0f7fc12345";

INSTANTIATE_TEST_SUITE_P(
    Integer, Opcode,
    testing::Values(
        OpcodeCase{"add.s32", "r", {"2147483647", "1"}, 0x80000000},
        OpcodeCase{"add.u64", "rd", {"0xffffffff", "1"}, 0x100000000},
        OpcodeCase{"add.u16", "h", {"65535", "2"}, 1},
        OpcodeCase{"sub.s32", "r", {"3", "5"}, 0xfffffffe},
        OpcodeCase{"sub.s64", "rd", {"3", "5"}, 0xfffffffffffffffe},
        OpcodeCase{"mul.lo.s32", "r", {"-3", "7"}, 0xffffffeb},
        OpcodeCase{"mul.lo.u16", "h", {"65535", "65535"}, 1},
        OpcodeCase{"mul.hi.u32", "r", {"0x80000000", "6"}, 3},
        OpcodeCase{"mul.hi.s32", "r", {"-1", "1"}, 0xffffffff},
        OpcodeCase{
            "mul.hi.u64", "rd", {"0xffffffffffffffff", "0xffffffffffffffff"}, 0xfffffffffffffffe},
        OpcodeCase{"mul.hi.s64", "rd", {"-1", "5"}, 0xffffffffffffffff},
        OpcodeCase{"mul.wide.s32", "rd", {"-2", "3"}, 0xfffffffffffffffa},
        OpcodeCase{"mul.wide.u32", "rd", {"0xffffffff", "2"}, 0x1fffffffe},
        OpcodeCase{"mul.wide.s16", "r", {"-2", "300"}, 0xfffffda8},
        OpcodeCase{"mad.lo.s32", "r", {"5", "6", "-31"}, 0xffffffff},
        OpcodeCase{"mad.hi.u32", "r", {"0x80000000", "2", "41"}, 42},
        OpcodeCase{"mad.wide.u32", "rd", {"0xffffffff", "1", "1"}, 0x100000000},
        OpcodeCase{"div.s32", "r", {"-7", "2"}, 0xfffffffd},
        OpcodeCase{"div.u32", "r", {"0xfffffff9", "2"}, 0x7ffffffc},
        OpcodeCase{"rem.s32", "r", {"-7", "2"}, 0xffffffff},
        OpcodeCase{"rem.u64", "rd", {"100", "7"}, 2},
        OpcodeCase{"min.s32", "r", {"-1", "1"}, 0xffffffff},
        OpcodeCase{"min.u32", "r", {"0xffffffff", "1"}, 1},
        OpcodeCase{"max.s32", "r", {"-1", "1"}, 1}, OpcodeCase{"abs.s32", "r", {"-9"}, 9},
        OpcodeCase{"neg.s32", "r", {"9"}, 0xfffffff7}));

INSTANTIATE_TEST_SUITE_P(
    Logic, Opcode,
    testing::Values(
        OpcodeCase{"and.b32", "r", {"12", "10"}, 8}, OpcodeCase{"or.b64", "rd", {"12", "10"}, 14},
        OpcodeCase{"xor.b32", "r", {"12", "10"}, 6}, OpcodeCase{"not.b32", "r", {"0"}, 0xffffffff},
        OpcodeCase{"not.pred", "p", {"%p2"}, 1, "setp.ne.u32 %p2, 1, 1;"},
        OpcodeCase{"xor.pred", "p", {"%p2", "%p2"}, 0, "setp.ne.u32 %p2, 1, 2;"},
        OpcodeCase{"shl.b32", "r", {"1", "31"}, 0x80000000},
        OpcodeCase{"shl.b32", "r", {"1", "32"}, 0},
        OpcodeCase{"shr.u32", "r", {"0x80000000", "31"}, 1},
        OpcodeCase{"shr.s32", "r", {"0x80000000", "40"}, 0xffffffff},
        OpcodeCase{"shr.s64", "rd", {"-8", "1"}, 0xfffffffffffffffc},
        OpcodeCase{"shf.l.wrap.b32", "r", {"0x80000001", "3", "33"}, 7},
        OpcodeCase{"shf.r.clamp.b32", "r", {"1", "5", "40"}, 5},
        OpcodeCase{"bfe.u32", "r", {"0xabcd", "4", "8"}, 0xbc},
        OpcodeCase{"bfe.s32", "r", {"0xabcd", "4", "8"}, 0xffffffbc},
        OpcodeCase{"bfi.b32", "r", {"0xfab", "0x12345678", "8", "8"}, 0x1234ab78},
        OpcodeCase{"bfi.b32", "r", {"0xff", "0", "28", "28"}, 0xf0000000},
        OpcodeCase{"bfi.b64", "rd", {"0", "-1", "32", "8"}, 0xffffff00ffffffff},
        OpcodeCase{"prmt.b32", "r", {"0x33221100", "0x77665544", "0x7531"}, 0x77553311},
        OpcodeCase{"popc.b32", "r", {"0xf0f0"}, 8}, OpcodeCase{"clz.b64", "r", {"1"}, 63},
        OpcodeCase{"brev.b32", "r", {"1"}, 0x80000000},
        OpcodeCase{"selp.b32", "r", {"5", "6", "%p2"}, 6, "setp.lt.s32 %p2, 1, -1;"},
        OpcodeCase{"mov.b64", "rd", {"{%r2, %r3}"}, 0x200000001, "mov.u32 %r2, 1; mov.u32 %r3, 2;"},
        OpcodeCase{"mov.u32", "r", {"%ntid.x"}, 1},
        OpcodeCase{"mov.b32", "r", {"%f2"}, 0x3fc00000, "mov.f32 %f2, 0f3FC00000;"}));

INSTANTIATE_TEST_SUITE_P(
    Float, Opcode,
    testing::Values(
        OpcodeCase{"add.f32", "f", {"0f3f800000", "0f33800000"}, 0x3f800000},
        OpcodeCase{"add.rp.f32", "f", {"0f3f800000", "0f33800000"}, 0x3f800001},
        OpcodeCase{"add.rz.f32", "f", {"0fbf800000", "0fb3800000"}, 0xbf800000},
        OpcodeCase{"add.rm.f32", "f", {"0fbf800000", "0fb3800000"}, 0xbf800001},
        OpcodeCase{"add.ftz.f32", "f", {"0f00000001", "0f00000001"}, 0},
        OpcodeCase{"add.f32", "f", {"0f00000001", "0f00000001"}, 2},
        OpcodeCase{"add.sat.f32", "f", {"0f3f800000", "0f3f800000"}, 0x3f800000},
        OpcodeCase{"add.f32", "f", {k_nan, "0f3f800000"}, 0x7fffffff},
        OpcodeCase{
            "sub.f64", "fd", {"0d4008000000000000", "0d3ff0000000000000"}, 0x4000000000000000},
        OpcodeCase{"mul.f32", "f", {"0f40400000", "0f3f000000"}, 0x3fc00000},
        // (1 + 2^-12)^2 - (1 + 2^-11) = 2^-24: two roundings would give 0.
        OpcodeCase{"fma.rn.f32", "f", {"0f3f800800", "0f3f800800", "0fbf801000"}, 0x33800000},
        OpcodeCase{"fma.rn.f64",
                   "fd",
                   {"0d4000000000000000", "0d4008000000000000", "0d3ff0000000000000"},
                   0x401c000000000000},
        OpcodeCase{"fma.rm.f32", "f", {"0f3f800000", "0f3f800000", "0fb0000000"}, 0x3f7fffff},
        OpcodeCase{"div.rn.f32", "f", {"0f3f800000", "0f40400000"}, 0x3eaaaaab},
        OpcodeCase{"rcp.rn.f32", "f", {"0f40800000"}, 0x3e800000},
        OpcodeCase{"sqrt.rn.f32", "f", {"0f40000000"}, 0x3fb504f3},
        OpcodeCase{"min.f32", "f", {k_nan, "0f40000000"}, 0x40000000},
        OpcodeCase{"max.NaN.f32", "f", {k_nan, "0f40000000"}, 0x7fffffff},
        OpcodeCase{"max.f32", "f", {"0f80000000", "0f00000000"}, 0},
        OpcodeCase{"min.f32", "f", {"0f00000000", "0f80000000"}, 0x80000000},
        OpcodeCase{"abs.f32", "f", {"0fbf800000"}, 0x3f800000},
        OpcodeCase{"neg.f64", "fd", {"0d3ff0000000000000"}, 0xbff0000000000000},
        OpcodeCase{"copysign.f32", "f", {"0f80000000", "0f40000000"}, 0xc0000000}));

INSTANTIATE_TEST_SUITE_P(
    Compare, Opcode,
    testing::Values(
        OpcodeCase{"setp.lt.s32", "p", {"-1", "1"}, 1},
        OpcodeCase{"setp.lt.u32", "p", {"0xffffffff", "1"}, 0},
        OpcodeCase{"setp.lo.u32", "p", {"1", "2"}, 1},
        OpcodeCase{"setp.ge.s64", "p", {"-1", "-1"}, 1},
        OpcodeCase{"setp.eq.b32", "p", {"7", "7"}, 1},
        OpcodeCase{"setp.lt.f32", "p", {k_nan, "0f00000000"}, 0},
        OpcodeCase{"setp.ltu.f32", "p", {k_nan, "0f00000000"}, 1},
        OpcodeCase{"setp.neu.f32", "p", {"0f00000000", "0f80000000"}, 0},
        OpcodeCase{"setp.nan.f32", "p", {k_nan, "0f00000000"}, 1},
        OpcodeCase{"setp.num.f64", "p", {"0d0000000000000000", "0d0000000000000000"}, 1},
        OpcodeCase{"setp.gt.ftz.f32", "p", {"0f00000001", "0f00000000"}, 0},
        OpcodeCase{"setp.eq.and.u32", "p", {"1", "1", "!%p2"}, 1, "setp.eq.u32 %p2, 1, 2;"},
        OpcodeCase{"setp.eq.xor.u32", "p", {"1", "1", "%p2"}, 0, "setp.eq.u32 %p2, 1, 1;"}));

INSTANTIATE_TEST_SUITE_P(
    Convert, Opcode,
    testing::Values(
        OpcodeCase{"cvt.s64.s32", "rd", {"%r2"}, 0xfffffffffffffffe, "mov.u32 %r2, -2;"},
        OpcodeCase{"cvt.u64.u32", "rd", {"%r2"}, 0xfffffffe, "mov.u32 %r2, -2;"},
        OpcodeCase{"cvt.s32.s8", "r", {"%r2"}, 0xffffff80, "mov.u32 %r2, 0x180;"},
        OpcodeCase{"cvt.sat.u8.s32", "r", {"-5"}, 0},
        OpcodeCase{"cvt.u32.u64", "r", {"0x100000002"}, 2},
        OpcodeCase{"cvt.rn.f32.s32", "f", {"16777217"}, 0x4b800000},
        OpcodeCase{"cvt.rp.f32.u32", "f", {"16777217"}, 0x4b800001},
        OpcodeCase{"cvt.rn.f64.u64", "fd", {"3"}, 0x4008000000000000},
        OpcodeCase{"cvt.rzi.s32.f32", "r", {"0fc0200000"}, 0xfffffffe},
        OpcodeCase{"cvt.rmi.s32.f32", "r", {"0fc0200000"}, 0xfffffffd},
        OpcodeCase{"cvt.rni.s32.f32", "r", {"0f40200000"}, 2},
        OpcodeCase{"cvt.rpi.s32.f32", "r", {"0f40200000"}, 3},
        OpcodeCase{"cvt.rzi.u32.f32", "r", {"0fbf800000"}, 0},
        OpcodeCase{"cvt.rzi.s32.f32", "r", {"0f7f800000"}, 0x7fffffff},
        OpcodeCase{"cvt.rzi.s32.f32", "r", {k_nan}, 0},
        OpcodeCase{"cvt.rzi.u64.f64", "rd", {"0d43f0000000000000"}, 0xffffffffffffffff},
        OpcodeCase{"cvt.f64.f32", "fd", {"0f3fc00000"}, 0x3ff8000000000000},
        OpcodeCase{"cvt.rn.f32.f64", "f", {"0d3ff0000010000000"}, 0x3f800000},
        OpcodeCase{"cvt.rp.f32.f64", "f", {"0d3ff0000010000000"}, 0x3f800001},
        OpcodeCase{"cvt.rmi.f32.f32", "f", {"0fbfc00000"}, 0xc0000000},
        OpcodeCase{"cvt.sat.f32.f32", "f", {"0f40000000"}, 0x3f800000},
        OpcodeCase{"cvta.to.global.u64", "rd", {"16"}, 16}));

}  // namespace
}  // namespace spjit::emulated
