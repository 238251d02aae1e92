#include "kernels/host/unrolled/x86_encoder.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "kernels/host/unrolled/disassembler.hpp"

#ifdef SPJIT_HAVE_LLVM
#define SPJIT_SKIP_WITHOUT_LLVM() static_cast<void>(0)
#else
#define SPJIT_SKIP_WITHOUT_LLVM() GTEST_SKIP() << "this build has no LLVM to decode with"
#endif

namespace spjit {
namespace {

using testing::ElementsAre;
using Vectors = X86Encoder::Vectors;

constexpr std::array<const char*, 12> k_gpr_names = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp",
                                                     "rsi", "rdi", "r8",  "r9",  "r10", "r11"};

std::string name(Gpr reg) { return fmt::format("%{}", k_gpr_names[static_cast<std::size_t>(reg)]); }

std::string text_of(const Address& address) {
  const std::string disp = address.disp == 0 ? "" : fmt::format("{}", address.disp);
  const std::string index = address.has_index ? fmt::format(",{}", name(address.index)) : "";
  return fmt::format("{}({}{})", disp, name(address.base), index);
}

/// Instructions and, beside each, the AT&T text it must decode to.
class Expectation {
 public:
  explicit Expectation(Vectors vectors) : encoder_(vectors), zmm_(vectors == Vectors::zmm) {}

  std::string reg(int number) const { return fmt::format("%{}mm{}", zmm_ ? 'z' : 'y', number); }
  int registers() const { return zmm_ ? 32 : 16; }
  bool zmm() const { return zmm_; }

  void fma(int acc, int a, int b) {
    encoder_.fma(acc, a, b);
    expect(fmt::format("vfmadd231ps {}, {}, {}", reg(b), reg(a), reg(acc)));
  }
  void fma(int acc, int a, const Address& b) {
    encoder_.fma(acc, a, b);
    expect(fmt::format("vfmadd231ps {}, {}, {}", text_of(b), reg(a), reg(acc)));
  }
  void fma_broadcast(int acc, int a, const Address& b) {
    encoder_.fma_broadcast(acc, a, b);
    expect(fmt::format("vfmadd231ps {}{{1to16}}, {}, {}", text_of(b), reg(a), reg(acc)));
  }
  void broadcast(int dst, const Address& src) {
    encoder_.broadcast(dst, src);
    expect(fmt::format("vbroadcastss {}, {}", text_of(src), reg(dst)));
  }
  void load(int dst, const Address& src) {
    encoder_.load(dst, src);
    expect(fmt::format("vmovups {}, {}", text_of(src), reg(dst)));
  }
  void store(const Address& dst, int src) {
    encoder_.store(dst, src);
    expect(fmt::format("vmovups {}, {}", reg(src), text_of(dst)));
  }
  void store_streaming(const Address& dst, int src) {
    encoder_.store_streaming(dst, src);
    expect(fmt::format("vmovntps {}, {}", reg(src), text_of(dst)));
  }
  void store_masked(const Address& dst, int src, int mask) {
    encoder_.store_masked(dst, src, mask);
    expect(zmm_ ? fmt::format("vmovups {}, {} {{%k{}}}", reg(src), text_of(dst), mask)
                : fmt::format("vmaskmovps {}, {}, {}", reg(src), reg(mask), text_of(dst)));
  }
  void load_mask(int mask, const Address& src) {
    encoder_.load_mask(mask, src);
    expect(fmt::format("kmovw {}, %k{}", text_of(src), mask));
  }
  void zero(int dst) {
    encoder_.zero(dst);
    expect(fmt::format("{} {}, {}, {}", zmm_ ? "vpxord" : "vpxor", reg(dst), reg(dst), reg(dst)));
  }
  void load(Gpr dst, const Address& src) {
    encoder_.load(dst, src);
    expect(fmt::format("movq {}, {}", text_of(src), name(dst)));
  }
  void add(Gpr dst, std::int32_t value) {
    encoder_.add(dst, value);
    expect(fmt::format("addq ${}, {}", value, name(dst)));
  }
  void add(Gpr dst, Gpr value) {
    encoder_.add(dst, value);
    expect(fmt::format("addq {}, {}", name(value), name(dst)));
  }
  void set(Gpr dst, std::int64_t value) {
    encoder_.set(dst, value);
    expect(fmt::format("movabsq ${}, {}", value, name(dst)));
  }
  void multiply(Gpr dst, Gpr src, std::int32_t value) {
    encoder_.multiply(dst, src, value);
    expect(fmt::format("imulq ${}, {}, {}", value, name(src), name(dst)));
  }
  void test(Gpr reg) {
    encoder_.test(reg);
    expect(fmt::format("testq {}, {}", name(reg), name(reg)));
  }

  /// Decodes everything and compares one instruction after another, where they begin included.
  void verify() const {
    const std::vector<DisassembledInstruction> decoded = disassemble(encoder_.code());
    ASSERT_EQ(decoded.size(), texts_.size());
    for (std::size_t i = 0; i < texts_.size(); ++i) {
      ASSERT_EQ(decoded[i].text, texts_[i])
          << fmt::format("{:02x}", fmt::join(decoded[i].bytes, " "));
      ASSERT_EQ(decoded[i].offset + decoded[i].bytes.size(), ends_[i]) << texts_[i];
    }
  }

 private:
  void expect(std::string text) {
    texts_.push_back(std::move(text));
    ends_.push_back(encoder_.size());
  }

  X86Encoder encoder_;
  bool zmm_;
  std::vector<std::string> texts_;
  std::vector<std::size_t> ends_;
};

std::vector<Gpr> all_gprs() {
  std::vector<Gpr> gprs;
  for (std::size_t i = 0; i < k_gpr_names.size(); ++i) gprs.push_back(static_cast<Gpr>(i));
  return gprs;
}

/// Every base, alone and with every index (rsp cannot be one), at displacements on both sides of
/// each edge: one byte, one byte compressed by 4 and by 64, four bytes.
std::vector<Address> all_addresses() {
  std::vector<Address> addresses;
  for (const std::int32_t disp :
       {0,   1,    -1,   4,    64,   127,   128,   -128, -129,       508,
        512, -512, -516, 8128, 8192, -8192, -8256, 8127, 2147483647, -2147483647 - 1}) {
    for (const Gpr base : all_gprs()) {
      addresses.push_back({base, disp});
      for (const Gpr index : all_gprs()) {
        if (index != Gpr::rsp) addresses.push_back({base, disp, true, index});
      }
    }
  }
  return addresses;
}

class EveryInstruction : public testing::TestWithParam<Vectors> {};

TEST_P(EveryInstruction, DecodesBackOverAllRegisters) {
  SPJIT_SKIP_WITHOUT_LLVM();
  Expectation code(GetParam());
  const Address from{Gpr::rdx, 64};
  const int masks = code.zmm() ? 8 : 16;

  for (int a = 0; a < code.registers(); ++a) {
    code.zero(a);
    code.load(a, from);
    code.store(from, a);
    code.store_streaming(from, a);
    code.broadcast(a, from);
    for (int b = 0; b < code.registers(); ++b) {
      code.fma(a, b, from);
      if (code.zmm()) code.fma_broadcast(a, b, from);
      for (int c = 0; c < code.registers(); ++c) code.fma(a, b, c);
    }
    // k0 as a mask means "no mask", so no store may ask for it.
    for (int mask = code.zmm() ? 1 : 0; mask < masks; ++mask) code.store_masked(from, a, mask);
  }

  code.verify();
}

TEST_P(EveryInstruction, DecodesBackOverAllAddresses) {
  SPJIT_SKIP_WITHOUT_LLVM();
  Expectation code(GetParam());
  const int high = code.registers() - 1;

  for (const Address& address : all_addresses()) {
    for (const int reg : {3, high}) {
      code.fma(reg, high - reg, address);
      code.broadcast(reg, address);
      code.load(reg, address);
      code.store(address, reg);
      code.store_streaming(address, reg);
      code.store_masked(address, reg, 5);
      if (code.zmm()) code.fma_broadcast(reg, high - reg, address);
    }
    if (code.zmm()) code.load_mask(6, address);
    for (const Gpr reg : all_gprs()) code.load(reg, address);
  }

  code.verify();
}

TEST_P(EveryInstruction, DecodesBackWithRandomOperands) {
  SPJIT_SKIP_WITHOUT_LLVM();
  Expectation code(GetParam());
  std::mt19937 random(20240607);
  const auto below = [&](int bound) {
    return static_cast<int>(random() % static_cast<unsigned>(bound));
  };
  const auto reg = [&] { return below(code.registers()); };
  const auto gpr = [&] { return static_cast<Gpr>(below(12)); };
  const auto address = [&] {
    // Displacements of every size, and multiples of every compression unit.
    const auto bits = static_cast<std::int32_t>(random()) >> below(32);
    const std::array<std::int32_t, 3> units = {1, 4, 64};
    const std::int32_t unit = units[static_cast<std::size_t>(below(3))];
    const Gpr index = gpr();
    return Address{gpr(), bits / unit * unit, below(2) == 0 && index != Gpr::rsp, index};
  };

  for (int i = 0; i < 5000; ++i) {
    code.fma(reg(), reg(), reg());
    code.fma(reg(), reg(), address());
    code.broadcast(reg(), address());
    code.load(reg(), address());
    code.store(address(), reg());
    code.store_streaming(address(), reg());
    code.store_masked(address(), reg(), 1 + below(7));
    code.zero(reg());
    if (code.zmm()) code.fma_broadcast(reg(), reg(), address());
    if (code.zmm()) code.load_mask(below(8), address());
    code.add(gpr(), static_cast<std::int32_t>(random()));
    code.multiply(gpr(), gpr(), static_cast<std::int32_t>(random()));
    code.load(gpr(), address());
  }

  code.verify();
}

INSTANTIATE_TEST_SUITE_P(X86Encoder, EveryInstruction, testing::Values(Vectors::zmm, Vectors::ymm),
                         [](const auto& instance) {
                           return instance.param == Vectors::zmm ? "zmm" : "ymm";
                         });

TEST(X86Encoder, ScalarInstructionsDecodeBackOverAllRegisters) {
  SPJIT_SKIP_WITHOUT_LLVM();
  Expectation code(Vectors::zmm);

  for (const Gpr a : all_gprs()) {
    code.test(a);
    for (const std::int32_t value :
         {0, 1, -1, 127, 128, -129, 65536, 2147483647, -2147483647 - 1}) {
      code.add(a, value);
      for (const Gpr b : all_gprs()) code.multiply(a, b, value);
    }
    for (const Gpr b : all_gprs()) code.add(a, b);
    for (const std::int64_t value :
         {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1} << 31, std::int64_t{1} << 32,
          std::int64_t{0x123456789ABCDEF0}, -(std::int64_t{1} << 62)}) {
      code.set(a, value);
    }
  }

  code.verify();
}

TEST(X86Encoder, MasksLoadIntoEveryMaskRegister) {
  SPJIT_SKIP_WITHOUT_LLVM();
  Expectation code(Vectors::zmm);

  for (int mask = 0; mask < 8; ++mask) {
    for (const Gpr base : all_gprs()) code.load_mask(mask, {base, 2 * mask});
  }

  code.verify();
}

// Bytes worked out by hand from the SDM's tables.
TEST(X86Encoder, WritesKnownEncodings) {
  const auto bytes_of = [](Vectors vectors, const std::function<void(X86Encoder&)>& write) {
    X86Encoder encoder(vectors);
    write(encoder);
    return std::vector<std::uint8_t>(encoder.code().begin(), encoder.code().end());
  };

  EXPECT_THAT(bytes_of(Vectors::zmm, [](X86Encoder& e) { e.fma(0, 1, 2); }),
              ElementsAre(0x62, 0xF2, 0x75, 0x48, 0xB8, 0xC2));
  EXPECT_THAT(bytes_of(Vectors::zmm,
                       [](X86Encoder& e) {
                         e.fma_broadcast(31, 28, {Gpr::rdx, 4});
                       }),
              ElementsAre(0x62, 0x62, 0x1D, 0x50, 0xB8, 0x7A, 0x01));
  EXPECT_THAT(bytes_of(Vectors::zmm,
                       [](X86Encoder& e) {
                         e.load(0, {Gpr::rdi, 64});
                       }),
              ElementsAre(0x62, 0xF1, 0x7C, 0x48, 0x10, 0x47, 0x01));
  EXPECT_THAT(bytes_of(Vectors::zmm,
                       [](X86Encoder& e) {
                         e.store_masked({Gpr::rsi, 0, true, Gpr::rax}, 1, 2);
                       }),
              ElementsAre(0x62, 0xF1, 0x7C, 0x4A, 0x11, 0x0C, 0x06));
  EXPECT_THAT(bytes_of(Vectors::ymm, [](X86Encoder& e) { e.fma(0, 1, 2); }),
              ElementsAre(0xC4, 0xE2, 0x75, 0xB8, 0xC2));
  EXPECT_THAT(bytes_of(Vectors::zmm, [](X86Encoder& e) { e.load_mask(1, {Gpr::r9}); }),
              ElementsAre(0xC4, 0xC1, 0x78, 0x90, 0x09));
  EXPECT_THAT(bytes_of(Vectors::zmm, [](X86Encoder& e) { e.add(Gpr::rdi, -2); }),
              ElementsAre(0x48, 0x81, 0xC7, 0xFE, 0xFF, 0xFF, 0xFF));
  EXPECT_THAT(bytes_of(Vectors::zmm, [](X86Encoder& e) { e.add(Gpr::rdi, Gpr::rax); }),
              ElementsAre(0x48, 0x01, 0xC7));
  EXPECT_THAT(bytes_of(Vectors::zmm, [](X86Encoder& e) { e.add(Gpr::rax, Gpr::r9); }),
              ElementsAre(0x4C, 0x01, 0xC8));
  EXPECT_THAT(bytes_of(Vectors::zmm,
                       [](X86Encoder& e) {
                         e.load(Gpr::r9, {Gpr::r10, 40});
                       }),
              ElementsAre(0x4D, 0x8B, 0x4A, 0x28));
  EXPECT_THAT(bytes_of(Vectors::zmm, [](X86Encoder& e) { e.set(Gpr::rax, 0x0102030405060708); }),
              ElementsAre(0x48, 0xB8, 0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01));
  EXPECT_THAT(bytes_of(Vectors::zmm, [](X86Encoder& e) { e.multiply(Gpr::rax, Gpr::rcx, 258); }),
              ElementsAre(0x48, 0x69, 0xC1, 0x02, 0x01, 0x00, 0x00));
  EXPECT_THAT(bytes_of(Vectors::zmm, [](X86Encoder& e) { e.test(Gpr::r9); }),
              ElementsAre(0x4D, 0x85, 0xC9));
  EXPECT_THAT(bytes_of(Vectors::zmm, [](X86Encoder& e) { e.zero_upper(), e.ret(); }),
              ElementsAre(0xC5, 0xF8, 0x77, 0xC3));
}

// With a base of rdi and no index, everything but the displacement takes 6 bytes (EVEX) or 5 (VEX).
TEST(X86Encoder, DisplacementsWithinReachTakeOneByte) {
  const auto displacement_bytes = [](Vectors vectors, bool scalar, std::int32_t disp) {
    X86Encoder encoder(vectors);
    const Address address{Gpr::rdi, disp};
    if (scalar) {
      encoder.broadcast(1, address);
    } else {
      encoder.load(1, address);
    }
    return encoder.size() - (vectors == Vectors::zmm ? 6 : 5);
  };

  for (const std::int32_t disp : {64, 127 * 64, -128 * 64}) {
    EXPECT_EQ(displacement_bytes(Vectors::zmm, false, disp), 1U) << disp;
  }
  for (const std::int32_t disp : {1, 32, 128 * 64, -129 * 64, 127 * 64 + 1}) {
    EXPECT_EQ(displacement_bytes(Vectors::zmm, false, disp), 4U) << disp;
  }
  for (const std::int32_t disp : {4, 127 * 4, -128 * 4}) {
    EXPECT_EQ(displacement_bytes(Vectors::zmm, true, disp), 1U) << disp;
  }
  for (const std::int32_t disp : {2, 128 * 4, -129 * 4}) {
    EXPECT_EQ(displacement_bytes(Vectors::zmm, true, disp), 4U) << disp;
  }
  for (const std::int32_t disp : {1, 127, -128}) {
    EXPECT_EQ(displacement_bytes(Vectors::ymm, false, disp), 1U) << disp;
  }
  for (const std::int32_t disp : {128, -129}) {
    EXPECT_EQ(displacement_bytes(Vectors::ymm, false, disp), 4U) << disp;
  }
  EXPECT_EQ(displacement_bytes(Vectors::zmm, false, 0), 0U);
}

TEST(X86Encoder, BoundJumpsLandAtTheEnd) {
  SPJIT_SKIP_WITHOUT_LLVM();
  X86Encoder encoder(Vectors::zmm);

  const PendingJump jump = encoder.jump_if_not_zero();
  encoder.zero_upper();
  encoder.ret();
  encoder.bind(jump);
  encoder.ret();

  const std::vector<DisassembledInstruction> decoded = disassemble(encoder.code());
  ASSERT_EQ(decoded.size(), 4U);
  EXPECT_EQ(decoded[0].text, "jne 4");  // over vzeroupper (3 bytes) and ret (1 byte)
  EXPECT_EQ(decoded[1].text, "vzeroupper");
  EXPECT_EQ(decoded[2].text, "retq");
  EXPECT_EQ(decoded[3].offset, decoded[1].offset + 4);
}

TEST(X86Encoder, JumpsBack) {
  SPJIT_SKIP_WITHOUT_LLVM();
  X86Encoder encoder(Vectors::zmm);

  encoder.ret();
  const std::size_t target = encoder.size();
  encoder.zero_upper();
  encoder.jump_back(target);

  const std::vector<DisassembledInstruction> decoded = disassemble(encoder.code());
  ASSERT_EQ(decoded.size(), 3U);
  EXPECT_EQ(decoded[2].text, "jmp -8");  // over itself (5 bytes) and vzeroupper (3 bytes)
}

TEST(X86Encoder, AlignsWithInt3) {
  X86Encoder encoder(Vectors::zmm);

  encoder.align(16);
  EXPECT_EQ(encoder.size(), 0U);
  encoder.ret();
  encoder.align(4);

  EXPECT_THAT(encoder.code(), ElementsAre(0xC3, 0xCC, 0xCC, 0xCC));
}

}  // namespace
}  // namespace spjit
