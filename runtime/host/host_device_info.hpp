#pragma once

/// @file
/// The host as plain data, which is what the tile rules and the heuristic look at, and its
/// instruction sets.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/host_cpu.hpp"
#include "base/refusal.hpp"
#include "spjit/target.hpp"

namespace spjit {

/// The host. Tests fill it by hand; `host_device_info()` fills it from the machine.
struct HostDeviceInfo {
  HostIsa isa = HostIsa::generic;
  std::string name;             ///< for records: "AMD EPYC 9354", of a named card "AMD Zen 4"
  std::string card = {};        ///< "zen4"; empty: caches are those that this machine says it has
  std::int64_t lanes = 4;       ///< floats a vector register
  std::int64_t registers = 16;  ///< vector registers
  std::int64_t l1i_bytes = 32 << 10;
  std::int64_t l1d_bytes = 32 << 10;
  std::int64_t l2_bytes = 1 << 20;
  std::int64_t l3_bytes = 0;
  /// Whether L3 is a mesh over dozens of cores. One core reads 28 GB/s of it there, not 60 to 110.
  /// Never of AVX2: what is fastest there is so with such an L3, too (docs/results/host.md).
  bool l3_is_far = false;
  std::int64_t cpus = 1;
  /// Vector FMAs started a cycle. 1: code streams as fast as it is used, so panels go outermost and
  /// B stays in L1. 2: instruction fetch from L2 (measured 16 bytes a cycle on Zen 5) is too slow
  /// for it, so several panels share one visit to a tile's code.
  std::int64_t fmas_per_cycle = 2;
};

/// The largest power of two, at most 64 KiB, that divides the bytes between rows of B (`ldb` floats
/// apart). The same columns of rows so aligned share that much fewer sets of the caches: from 4 KiB
/// on one set of L1, at 64 KiB one of L2. Below 64 bytes rows straddle cache lines.
[[nodiscard]] constexpr std::int64_t row_alignment_bytes(std::int64_t ldb) {
  constexpr std::int64_t k_sets_bytes = std::int64_t{64} << 10;  // 1024 sets of a line: L2
  const std::int64_t bytes = (ldb > 0 ? ldb : 1) * 4;
  const std::int64_t divisor = bytes & -bytes;
  return divisor < k_sets_bytes ? divisor : k_sets_bytes;
}

/// Whether C `[rows x n]` should bypass the caches: it is a quarter of L3, or half as large and
/// with B `[cols x n]` does not stay in half of L3 anyway. Storing past them saves reading its
/// lines first, and lines of B from being displaced (docs/results/host.md).
[[nodiscard]] constexpr bool should_stream_c(const HostDeviceInfo& limits, std::int64_t rows,
                                             std::int64_t cols, std::int64_t n) {
  // In double: the products may exceed 64 bits.
  const double row_bytes = static_cast<double>(n) * 4;
  const double c_bytes = static_cast<double>(rows) * row_bytes;
  const double b_and_c_bytes = static_cast<double>(rows + cols) * row_bytes;
  const auto l3_bytes = static_cast<double>(limits.l3_bytes);
  return limits.isa != HostIsa::generic && limits.l3_bytes > 0 &&
         (c_bytes >= l3_bytes / 4 || (c_bytes > l3_bytes / 8 && b_and_c_bytes > l3_bytes / 2));
}

/// This machine, for kernels of the given instruction set: its card of the table, so that what one
/// CPU of a kind compiles the next one finds. It is the caches that the CPU says it has where the
/// table has no such CPU, and the card `any` where the CPU lacks the instruction set.
[[nodiscard]] HostDeviceInfo host_device_info(HostIsa isa);
/// Kernels' view of the given CPU.
[[nodiscard]] HostDeviceInfo host_device_info(HostIsa isa, const HostCpu& cpu);
/// Kernels' view of the CPU that a host target names.
[[nodiscard]] HostDeviceInfo host_device_info(const Target& target);

/// Floats a vector register holds.
[[nodiscard]] constexpr std::int64_t lanes_of(HostIsa isa) {
  return isa == HostIsa::avx512 ? 16 : isa == HostIsa::avx2 ? 8 : 4;
}
/// Vector registers of the instruction set.
[[nodiscard]] constexpr std::int64_t registers_of(HostIsa isa) {
  return isa == HostIsa::avx512 ? 32 : 16;
}

/// Whether code for `isa` runs on `cpu`; `generic` does on every x86-64.
[[nodiscard]] bool has_isa(const HostCpu& cpu, HostIsa isa) noexcept;

/// "AVX-512" for avx512: what a CPU needs to run such code.
[[nodiscard]] std::string_view needed_for(HostIsa isa) noexcept;

/// Throws NotSupported, in one line that says what to do, if it does not.
void require_isa(const HostCpu& cpu, HostIsa isa);

/// Why kernels of a host target are not timed on `cpu`: it lacks the instruction set, or is not the
/// card that choices are made for.
[[nodiscard]] Refusal why_not_timed_on(const HostCpu& cpu, const Target& target);

}  // namespace spjit
