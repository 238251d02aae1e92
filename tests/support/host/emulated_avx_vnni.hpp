#pragma once

/// @file
/// AVX-VNNI on a CPU that has none: its one instruction that loops use, vpdpbusd of ymm registers
/// in VEX code, is computed where the CPU refuses it. Slowly: for tests of loops, not of times.

#include <immintrin.h>
#include <signal.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace spjit::testing_support {

/// The instruction, and where its last operand is if that is memory.
struct VexProducts {
  std::size_t bytes = 0;  ///< of code; 0: it is another instruction
  unsigned sums = 0;      ///< register
  unsigned unsigned_bytes = 0;
  unsigned signed_bytes = 0;
  const std::byte* memory = nullptr;
};

/// Code of registers of 64 bits without prefixes before VEX.
class VexDecoder {
 public:
  VexDecoder(const std::uint8_t* code, const greg_t* registers)
      : code_(code), registers_(registers) {}

  [[nodiscard]] VexProducts decode() const {
    constexpr unsigned k_vex3 = 0xC4;
    constexpr unsigned k_map_0f38 = 2;
    constexpr unsigned k_ymm_66 = 5;  // W is 0
    constexpr unsigned k_vpdpbusd = 0x50;
    const bool is_it = code_[0] == k_vex3 && (code_[1] & 0x1FU) == k_map_0f38 &&
                       (code_[2] & 0x87U) == k_ymm_66 && code_[3] == k_vpdpbusd;
    if (!is_it) return {};
    const unsigned modrm = code_[4];
    VexProducts found{5, high(7) | (modrm >> 3U & 7U), ~(unsigned{code_[2]} >> 3U) & 0xFU,
                      high(5) | (modrm & 7U)};
    if (modrm >> 6U != 3) set_memory(modrm, found);
    return found;
  }

 private:
  /// The fourth bit of a register's number, which VEX has inverted.
  [[nodiscard]] unsigned high(unsigned bit) const {
    return (~unsigned{code_[1]} >> bit & 1U) << 3U;
  }
  [[nodiscard]] std::int64_t value(unsigned number) const {
    constexpr std::array k_order = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                    REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                    REG_R12, REG_R13, REG_R14, REG_R15};
    return registers_[k_order[number]];
  }
  template <class Number>
  [[nodiscard]] std::int64_t number_at(std::size_t place) const {
    Number number;
    std::memcpy(&number, code_ + place, sizeof(number));
    return number;
  }

  void set_memory(unsigned modrm, VexProducts& found) const {
    const unsigned mod = modrm >> 6U;
    std::int64_t address = 0;
    bool has_base = true;
    if ((modrm & 7U) == 4) {
      const unsigned sib = code_[found.bytes++];
      const unsigned index = high(6) | (sib >> 3U & 7U);
      if (index != 4) address += value(index) << (sib >> 6U);
      has_base = mod != 0 || (sib & 7U) != 5;
      if (has_base) address += value(high(5) | (sib & 7U));
    } else if (mod == 0 && (modrm & 7U) == 5) {
      has_base = false;
      address += reinterpret_cast<std::intptr_t>(code_) + 9;  // the next instruction
    } else {
      address += value(high(5) | (modrm & 7U));
    }
    if (mod == 1) {
      address += number_at<std::int8_t>(found.bytes);
      found.bytes += 1;
    } else if (mod == 2 || !has_base) {
      address += number_at<std::int32_t>(found.bytes);
      found.bytes += 4;
    }
    found.memory = reinterpret_cast<const std::byte*>(address);
  }

  const std::uint8_t* code_;
  const greg_t* registers_;
};

/// The registers that a signal has interrupted.
class SavedYmm {
 public:
  explicit SavedYmm(const ucontext_t& context)
      : area_(reinterpret_cast<std::byte*>(context.uc_mcontext.fpregs)) {}

  using Bytes = std::array<std::uint8_t, 32>;
  [[nodiscard]] Bytes load(unsigned number) const {
    Bytes bytes;
    std::memcpy(bytes.data(), area_ + k_low + 16 * number, 16);
    std::memcpy(bytes.data() + 16, area_ + k_high + 16 * number, 16);
    return bytes;
  }
  void store(unsigned number, const Bytes& bytes) const {
    std::memcpy(area_ + k_low + 16 * number, bytes.data(), 16);
    std::memcpy(area_ + k_high + 16 * number, bytes.data() + 16, 16);
  }
  /// Whether upper halves are there: else they are zeros, in no code of AVX.
  [[nodiscard]] bool has_high() const {
    std::uint64_t saved = 0;
    std::memcpy(&saved, area_ + 512, sizeof(saved));
    return (saved & 4U) != 0;
  }

 private:
  static constexpr std::size_t k_low = 160;  // of XSAVE's area
  static constexpr std::size_t k_high = 576;
  std::byte* area_;
};

/// While one is there, the instruction is computed where it raises SIGILL. Some CPUs have it though
/// a hypervisor says that they do not.
class EmulatedAvxVnni {
 public:
  EmulatedAvxVnni() {
    struct sigaction action = {};
    action.sa_sigaction = compute;
    action.sa_flags = SA_SIGINFO;
    ::sigaction(SIGILL, &action, &before_);
  }
  ~EmulatedAvxVnni() { ::sigaction(SIGILL, &before_, nullptr); }
  EmulatedAvxVnni(const EmulatedAvxVnni&) = delete;
  EmulatedAvxVnni& operator=(const EmulatedAvxVnni&) = delete;

  /// Whether the instruction computes here, by the CPU or by this. It does not where a signal does
  /// not come with the registers, as in QEMU. Tries once, in a process of its own.
  [[nodiscard]] static bool works() {
    static const bool k_works = [] {
      const pid_t child = ::fork();
      if (child == 0) {
        ::signal(SIGSEGV, SIG_DFL);
        const EmulatedAvxVnni emulated;
        ::_exit(computes() ? 0 : 1);
      }
      int status = 1;
      return child > 0 && ::waitpid(child, &status, 0) == child && status == 0;
    }();
    return k_works;
  }

  /// Takes the instruction that a signal has interrupted, and what it computes.
  static void compute(int /*signal*/, siginfo_t* /*info*/, void* context) {
    auto& interrupted = *static_cast<ucontext_t*>(context);
    greg_t* const registers = interrupted.uc_mcontext.gregs;
    const auto* const code = reinterpret_cast<const std::uint8_t*>(registers[REG_RIP]);
    const VexProducts found = VexDecoder(code, registers).decode();
    const SavedYmm saved(interrupted);
    if (found.bytes == 0 || !saved.has_high()) {  // it comes again, and ends the program
      ::signal(SIGILL, SIG_DFL);
      return;
    }
    SavedYmm::Bytes w = saved.load(found.signed_bytes);
    if (found.memory != nullptr) std::memcpy(w.data(), found.memory, w.size());
    saved.store(found.sums, sums_of(saved.load(found.sums), saved.load(found.unsigned_bytes), w));
    registers[REG_RIP] += static_cast<greg_t>(found.bytes);
  }

 private:
  /// Precondition: AVX2.
  __attribute__((target("avxvnni,avx2"), noinline)) static bool computes() {
    alignas(32) std::array<std::int32_t, 8> sums = {1, 2, 3, 4, 5, 6, 7, 8};
    auto* const at = reinterpret_cast<__m256i*>(sums.data());
    _mm256_store_si256(at, _mm256_dpbusd_avx_epi32(_mm256_load_si256(at), _mm256_set1_epi8(-1),
                                                   _mm256_set1_epi8(-128)));
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if (sums.at(i) != static_cast<std::int32_t>(i) + 1 - 4 * 255 * 128) return false;
    }
    return true;
  }

  static SavedYmm::Bytes sums_of(const SavedYmm::Bytes& before, const SavedYmm::Bytes& x,
                                 const SavedYmm::Bytes& w) {
    SavedYmm::Bytes after;
    for (std::size_t lane = 0; lane < after.size(); lane += 4) {
      std::uint32_t sum = 0;
      std::memcpy(&sum, before.data() + lane, sizeof(sum));
      for (std::size_t i = lane; i < lane + 4; ++i) {
        sum += static_cast<std::uint32_t>(int{x[i]} * int{static_cast<std::int8_t>(w[i])});
      }
      std::memcpy(after.data() + lane, &sum, sizeof(sum));
    }
    return after;
  }

  struct sigaction before_ = {};
};

}  // namespace spjit::testing_support
