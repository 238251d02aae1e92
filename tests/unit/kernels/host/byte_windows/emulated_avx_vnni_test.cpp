// What computes AVX-VNNI for tests where the CPU has none, against sums by hand.

#include "tests/support/host/emulated_avx_vnni.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

namespace {

using namespace spjit::testing_support;

/// A context that a signal would have at some code.
class Interrupted {
 public:
  explicit Interrupted(const std::vector<std::uint8_t>& code) : code_(code) {
    code_.resize(std::max<std::size_t>(code.size(), 16), 0x90);
    context_.uc_mcontext.fpregs = reinterpret_cast<fpregset_t>(area_.data());
    area_[512] = std::byte{7};
    set(REG_RIP, reinterpret_cast<std::intptr_t>(code_.data()));
  }

  void set(int name, std::int64_t value) { context_.uc_mcontext.gregs[name] = value; }
  [[nodiscard]] SavedYmm registers() const { return SavedYmm(context_); }
  /// Bytes of code that were taken.
  std::int64_t compute() {
    EmulatedAvxVnni::compute(SIGILL, nullptr, &context_);
    return context_.uc_mcontext.gregs[REG_RIP] - reinterpret_cast<std::intptr_t>(code_.data());
  }

 private:
  alignas(64) std::array<std::byte, 1024> area_{};
  std::vector<std::uint8_t> code_;
  ucontext_t context_{};
};

SavedYmm::Bytes bytes_of(std::uint8_t first) {
  SavedYmm::Bytes bytes;
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(first + i);
  return bytes;
}

std::int32_t lane(const SavedYmm::Bytes& bytes, std::size_t number) {
  std::int32_t value = 0;
  std::memcpy(&value, bytes.data() + 4 * number, sizeof(value));
  return value;
}

void expect_products(const SavedYmm::Bytes& before, const SavedYmm::Bytes& x,
                     const SavedYmm::Bytes& w, const SavedYmm::Bytes& after) {
  for (std::size_t number = 0; number < 8; ++number) {
    std::int32_t sum = lane(before, number);
    for (std::size_t i = 4 * number; i < 4 * number + 4; ++i) {
      sum += int{x[i]} * int{static_cast<std::int8_t>(w[i])};
    }
    EXPECT_EQ(lane(after, number), sum) << "lane " << number;
  }
}

TEST(EmulatedAvxVnni, AddsProductsOfRegisters) {
  const SavedYmm::Bytes before{1, 2, 0, 0, 255, 255, 255, 255};
  // {vex} vpdpbusd ymm2, ymm1, ymm0; {vex} vpdpbusd ymm10, ymm9, ymm8
  for (const auto& [code, high] :
       {std::pair(std::vector<std::uint8_t>{0xC4, 0xE2, 0x75, 0x50, 0xD0}, 0U),
        std::pair(std::vector<std::uint8_t>{0xC4, 0x42, 0x35, 0x50, 0xD0}, 8U)}) {
    Interrupted at(code);
    at.registers().store(high + 2, before);
    at.registers().store(high + 1, bytes_of(230));
    at.registers().store(high, bytes_of(120));

    EXPECT_EQ(at.compute(), 5);

    expect_products(before, bytes_of(230), bytes_of(120), at.registers().load(high + 2));
    EXPECT_EQ(at.registers().load(high + 1), bytes_of(230));
    EXPECT_EQ(at.registers().load(high), bytes_of(120));
  }
}

TEST(EmulatedAvxVnni, ReadsMemory) {
  alignas(32) const SavedYmm::Bytes w = bytes_of(100);
  const auto address = reinterpret_cast<std::intptr_t>(w.data());
  struct Case {
    std::vector<std::uint8_t> code;
    int base;
    std::int64_t value;
    std::int64_t index;  ///< rcx and r9
  };
  const std::vector<Case> cases = {
      // [rdi], [r8 - 32], [rax + rcx*4 + 8], [rax + r9], [rsp], [rdx + 256], [rcx*4 + 256]
      {{0xC4, 0xE2, 0x75, 0x50, 0x17}, REG_RDI, address, 0},
      {{0xC4, 0xC2, 0x75, 0x50, 0x50, 0xE0}, REG_R8, address + 32, 0},
      {{0xC4, 0xE2, 0x75, 0x50, 0x54, 0x88, 0x08}, REG_RAX, address - 48, 10},
      {{0xC4, 0xA2, 0x75, 0x50, 0x14, 0x08}, REG_RAX, address - 7, 7},
      {{0xC4, 0xE2, 0x75, 0x50, 0x14, 0x24}, REG_RSP, address, 99},
      {{0xC4, 0xE2, 0x75, 0x50, 0x92, 0, 1, 0, 0}, REG_RDX, address - 256, 0},
      {{0xC4, 0xE2, 0x75, 0x50, 0x14, 0x8D, 0, 1, 0, 0}, REG_RAX, 0, (address - 256) / 4},
  };
  for (const Case& one : cases) {
    Interrupted at(one.code);
    at.registers().store(1, bytes_of(7));
    at.set(one.base, one.value);
    at.set(REG_RCX, one.index);
    at.set(REG_R9, one.index);

    EXPECT_EQ(at.compute(), std::ssize(one.code));

    expect_products({}, bytes_of(7), w, at.registers().load(2));
  }
}

TEST(EmulatedAvxVnni, ReadsMemoryBesideTheCode) {
  std::vector<std::uint8_t> code = {0xC4, 0xE2, 0x75, 0x50, 0x15, 23, 0, 0, 0};  // [rip + 23]
  const SavedYmm::Bytes w = bytes_of(100);
  code.resize(32, 0x90);
  code.insert(code.end(), w.begin(), w.end());
  Interrupted at(code);
  at.registers().store(1, bytes_of(7));

  EXPECT_EQ(at.compute(), 9);

  expect_products({}, bytes_of(7), w, at.registers().load(2));
}

TEST(EmulatedAvxVnni, LeavesOtherInstructions) {
  struct sigaction before = {};
  ::sigaction(SIGILL, nullptr, &before);
  // Of AVX-512; vpdpbusds; of xmm registers; ud2
  for (const std::vector<std::uint8_t>& code :
       std::vector<std::vector<std::uint8_t>>{{0x62, 0xF2, 0x75, 0x28, 0x50, 0xD0},
                                              {0xC4, 0xE2, 0x75, 0x51, 0xD0},
                                              {0xC4, 0xE2, 0x71, 0x50, 0xD0},
                                              {0x0F, 0x0B}}) {
    Interrupted at(code);
    at.registers().store(1, bytes_of(7));
    at.registers().store(0, bytes_of(7));

    EXPECT_EQ(at.compute(), 0);

    EXPECT_EQ(at.registers().load(2), SavedYmm::Bytes{});
  }
  ::sigaction(SIGILL, &before, nullptr);
}

}  // namespace
