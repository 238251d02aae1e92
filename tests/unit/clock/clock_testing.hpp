#pragma once

/// @file
/// Code by hand for the clock, and constants with round numbers.

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "clock/cubin_clock.hpp"
#include "clock/warp_walker.hpp"
#include "tests/support/cuda/sass_code.hpp"

namespace spjit::testing_support {

// Of tests/golden/sass.txt, with other registers and immediates; control bits are Code's.
inline const std::string k_low = "000fe40000000f000000580000027a02";      // MOV R2, c[0x0][0x160]
inline const std::string k_high = "000fe40000000f000000590000037a02";     // MOV R3, c[0x0][0x164]
inline const std::string k_seven = "000fe40000000f000000000700007802";    // MOV R0, 0x7
inline const std::string k_add_one = "000fe20007ffe0ff0000000100007810";  // IADD3 R0, R0, 0x1, RZ
inline const std::string k_load = "000ea200001ee9000000000002007381";     // LDG.E.SYS R0, [R2]
inline const std::string k_store = "000fe2000010e9000000000002007386";    // STG.E.SYS [R2], R0
inline const std::string k_copy = "000fe40000000f000000000000027202";     // MOV R2, R0
inline const std::string k_lane = "000e2200000021000000000000007919";     // S2R R0, SR_TID.X
inline const std::string k_block_index = "000e2200000025000000000000007919";  // S2R R0, SR_CTAID.X
inline const std::string k_fma = "000fe400000000080000000707007223";          // FFMA R0, R7, R7, R8
inline const std::string k_address = "001fc800078e10ff0000000200027211";      // LEA R2, R0, R2, 0x2
inline const std::string k_barrier = "000fea00000000000000000000007b1d";      // BAR.SYNC 0x0
// ISETP.GT.U32.AND P0, PT, R0, 0x1, PT
inline const std::string k_above_one = "000fd80003f04070000000010000780c";
inline const std::string k_exit = "000fea0003800000000000000000794d";

/// An encoding with other bits in its lower half.
[[nodiscard]] inline std::string with_bits(const std::string& encoding, unsigned first,
                                           unsigned width, std::uint64_t value) {
  sass::Encoding bits = parse_encoding(encoding);
  const std::uint64_t mask = ((std::uint64_t{1} << width) - 1) << first;
  bits[0] = (bits[0] & ~mask) | value << first;
  return fmt::format("{:016x}{:016x}", bits[1], bits[0]);
}

/// The first register, or that of an address or a second source; the guard.
[[nodiscard]] inline std::string into(const std::string& encoding, unsigned number) {
  return with_bits(encoding, 16, 8, number);
}
[[nodiscard]] inline std::string guarded(const std::string& encoding, unsigned predicate,
                                         bool negated) {
  return with_bits(encoding, 12, 4, predicate | (negated ? 8U : 0U));
}

/// BRA of `bytes` from the next instruction on, guarded by P0 or !P0.
[[nodiscard]] inline std::string branch(std::int64_t bytes, bool negated) {
  const std::uint64_t low = (static_cast<std::uint64_t>(bytes) << 32) | (negated ? 0x8947 : 0x0947);
  const std::uint64_t high = 0x000fea0003800000 | (bytes < 0 ? 0x3ffff : 0);
  return fmt::format("{:016x}{:016x}", high, low);
}

/// A kernel whose R2 and R3 are its parameter, a pointer.
[[nodiscard]] inline TestKernel pointer_kernel(const std::vector<Code>& middle) {
  TestKernel kernel;
  kernel.code = {{.encoding = k_low}, {.encoding = k_high}};
  kernel.code.insert(kernel.code.end(), middle.begin(), middle.end());
  kernel.code.push_back({.encoding = k_exit, .stall = 1});
  return kernel;
}

inline constexpr std::uint64_t k_pointer = std::uint64_t{1} << 33;

[[nodiscard]] inline std::vector<std::byte> pointer_parameter() {
  std::vector<std::byte> bytes(sizeof k_pointer);
  std::memcpy(bytes.data(), &k_pointer, sizeof k_pointer);
  return bytes;
}

/// Nothing waits but for what a test raises: every unit takes an instruction a cycle.
[[nodiscard]] inline ClockConstants simple_constants() {
  ClockConstants constants;
  constants.arch = 75;
  constants.compared_with = "nothing";
  constants.fp32_interval = constants.integer_interval = constants.half_interval = 1;
  constants.special_interval = constants.uniform_interval = constants.memory_interval = 1;
  constants.special_latency = 10;
  constants.constant_latency = 20;
  constants.shared_latency = 30;
  constants.l1_latency = 40;
  constants.l2_latency = 200;
  constants.dram_latency = 500;
  constants.operands_latency = 5;
  constants.barrier_latency = 15;
  constants.l1_bytes_a_cycle = 128;
  constants.unified_kib = 96;
  constants.most_l1_kib = 64;
  constants.shared_carveouts_kib = {32, 64};
  constants.l1_sets = 4;
  constants.misses_in_flight = 1000;
  constants.l2_bytes_a_cycle = constants.l2_port_bytes_a_cycle = 1e6;
  constants.request_bytes_a_cycle = 1e6;
  constants.dram_bytes_a_cycle = 1e6;
  constants.l0_code_bytes = 16384;
  constants.l1_code_bytes = 131072;
  constants.l1_code_latency = 20;
  constants.l2_code_latency = 200;
  constants.l1_code_bytes_a_cycle = constants.l2_code_bytes_a_cycle = 1e6;
  constants.prefetched_lines = 1;
  constants.launch_cycles = 100;
  constants.block_cycles = 10;
  constants.boost_mhz = 1000;
  return constants;
}

}  // namespace spjit::testing_support
