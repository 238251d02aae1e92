#pragma once

/// @file
/// A kernel's time beside that of what a user would run instead of it.

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "base/refusal.hpp"
#include "base/timing.hpp"
#include "compiler/layer_reference.hpp"
#include "spjit/kernel.hpp"
#include "spjit/problem.hpp"
#include "spjit/target.hpp"
#include "tools/options/problem_options.hpp"
#include "tools/report/terminal.hpp"

namespace spjit::cli {

/// Operands larger than this are not allocated: measuring and checking are left out, aloud.
inline constexpr double k_most_operand_bytes = 8e9;

/// A peer's time, or why there is none.
struct PeerTiming {
  std::optional<TimingResult> timing;
  std::string skipped;
};

/// The three on operands of the same size and as many threads, their samples interleaved. The
/// kernel does all of its layer, peers the product alone, row-major. A kernel for a GPU is timed
/// alone, launches between two events.
struct Measurement {
  TimingResult kernel;
  PeerTiming dense;  ///< OpenBLAS on A with its zeros, in its fastest way
  PeerTiming csr;    ///< a CSR loop that reads A from memory
  std::int64_t batch = 1;
  std::optional<CheckResult> check = {};  ///< of a last run, if one was asked for
};

/// Whether kernels of a target can be timed on this machine.
[[nodiscard]] Refusal why_not_timed(const Target& target);

/// Fp32 FMA rate that one core reaches with the vectors of `isa`. [GFLOP/s]
[[nodiscard]] double measure_peak_gflops(const Target& target);

/// Peers of A with more dense multiply-adds (m k n) than this are left out, aloud: a second a run.
inline constexpr double k_most_dense_products = 5e10;
/// Peers with a larger dense A are left out, too. [bytes]
inline constexpr double k_most_dense_bytes = 2e9;

struct MeasureOptions {
  double budget_ms = 200;
  /// On the host, what passes through the caches before each run; 0: runs follow one another.
  std::int64_t between_bytes = std::numeric_limits<std::int64_t>::max();
  OperandFiles operands = {};
  std::int64_t batch = 1;  ///< products a run; 1 on a GPU
  bool check = false;      ///< whether a run after the timing is compared with float64
};

/// The line below a table of times that says how they were taken.
[[nodiscard]] std::string how_measured(bool hot);

/// Times the kernel of a problem with the threads it was compiled for, and its peers with as many,
/// for about the budget (longer where few runs take that long). Throws NotSupported for a GPU that
/// is not there, DeviceError, VerificationFailed.
[[nodiscard]] Measurement measure(const Kernel& kernel, const Problem& problem,
                                  const MeasureOptions& options);

/// The product that was timed: a kernel's A with n columns, so often.
struct Work {
  const KernelInfo& info;
  std::int64_t batch = 1;
};

/// 2 nnz n batch / time. [GFLOP/s]
[[nodiscard]] double gflops(const Work& work, const TimingResult& timing);

/// Share of the peak of the cores that its threads can use; `peak_gflops` is one core's. None on a
/// GPU.
[[nodiscard]] std::optional<double> share_of_peak(const Work& work, const TimingResult& timing,
                                                  double peak_gflops);

/// Why peers have no time, each reason once. None of a GPU's kernel, which is timed alone.
[[nodiscard]] std::vector<std::string> skipped_peers(const Measurement& measurement);

/// The peer's time over the kernel's; nothing if the peer was skipped.
[[nodiscard]] std::optional<double> speedup(const PeerTiming& peer, const TimingResult& kernel);

[[nodiscard]] Json describe(const TimingResult& timing);
[[nodiscard]] Json describe(const PeerTiming& timing);
/// {"rows_checked", "columns_checked", "max_abs_error", "max_error_over_bound"}.
[[nodiscard]] Json describe(const CheckResult& check);
/// {"kernel": {times, "gflops", "share_of_peak"}, "dense", "csr", "speedup_over_dense", ...}.
[[nodiscard]] Json describe(const Measurement& measurement, const KernelInfo& info,
                            double peak_gflops);

}  // namespace spjit::cli
