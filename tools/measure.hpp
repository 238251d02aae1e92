#pragma once

/// @file
/// A kernel's time beside that of what a user would run instead of it.

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "base/float_buffer.hpp"
#include "base/timing.hpp"
#include "spjit/kernel.hpp"
#include "spjit/problem.hpp"
#include "spjit/target.hpp"
#include "terminal.hpp"

namespace spjit::cli {

/// Operands of C `[m x n]` = A `[m x k]` * B `[k x n]`, row-major and contiguous.
struct Operands {
  /// n = `columns`; B filled with pattern_value() of a fixed seed, C with NaN: what a kernel does
  /// not write shows.
  Operands(std::int64_t m, std::int64_t k, std::int64_t columns);

  /// What the two take.
  [[nodiscard]] static double bytes(std::int64_t m, std::int64_t k, std::int64_t n) {
    return 4.0 * (static_cast<double>(m) + static_cast<double>(k)) * static_cast<double>(n);
  }

  std::int64_t n;
  FloatBuffer b;
  FloatBuffer c;
};

/// Operands larger than this are not allocated: measuring and checking are left out, aloud.
inline constexpr double k_most_operand_bytes = 8e9;

/// A peer's time, or why there is none.
struct PeerTiming {
  std::optional<TimingResult> timing;
  std::string skipped;
};

/// The three on the same operands and as many threads, their samples interleaved. A kernel for a
/// GPU is timed alone, launches between two events.
struct Measurement {
  TimingResult kernel;
  PeerTiming dense;  ///< OpenBLAS sgemm on A with its zeros
  PeerTiming csr;    ///< a CSR loop that reads A from memory
};

/// Why kernels of a target cannot be timed on this machine, in one line; empty: they can.
[[nodiscard]] std::string why_not_timed(const Target& target);

/// Fp32 FMA rate that one core reaches with the vectors of `isa`. [GFLOP/s]
[[nodiscard]] double measure_peak_gflops(HostIsa isa);

/// Peers of A with more dense multiply-adds (m k n) than this are left out, aloud: a second a run.
inline constexpr double k_most_dense_products = 5e10;
/// And those whose dense A is larger. [bytes]
inline constexpr double k_most_dense_bytes = 2e9;

struct MeasureOptions {
  double budget_ms = 200;
  /// On the host, what passes through the caches before each run; 0: runs follow one another.
  std::int64_t between_bytes = std::numeric_limits<std::int64_t>::max();
};

/// The line below a table of times that says how they were taken.
[[nodiscard]] std::string how_measured(bool hot);

/// Times the kernel of a problem with the threads it was compiled for, and its peers with as many,
/// for about the budget (longer where few runs take that long). Throws NotSupported for a GPU that
/// is not there, DeviceError.
[[nodiscard]] Measurement measure(const Kernel& kernel, const Problem& problem,
                                  const MeasureOptions& options);

/// 2 nnz n / time. [GFLOP/s]
[[nodiscard]] double gflops(const KernelInfo& info, const TimingResult& timing);

/// Of the peak of the cores that its threads can use; `peak_gflops` is one core's. None on a GPU.
[[nodiscard]] std::optional<double> share_of_peak(const KernelInfo& info,
                                                  const TimingResult& timing, double peak_gflops);

/// The peer's time over the kernel's; nothing if the peer was skipped.
[[nodiscard]] std::optional<double> speedup(const PeerTiming& peer, const TimingResult& kernel);

[[nodiscard]] Json describe(const TimingResult& timing);
[[nodiscard]] Json describe(const PeerTiming& timing);
/// {"kernel": {times, "gflops", "share_of_peak"}, "dense", "csr", "speedup_over_dense", ...}.
[[nodiscard]] Json describe(const Measurement& measurement, const KernelInfo& info,
                            double peak_gflops);

}  // namespace spjit::cli
