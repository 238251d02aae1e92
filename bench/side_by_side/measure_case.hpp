#pragma once

/// @file
/// One matrix, n and number of threads: every library is prepared, checked, then timed beside the
/// others, warm and cold.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/cache_flush.hpp"
#include "base/timing.hpp"
#include "bench/host/buffers.hpp"
#include "bench/side_by_side/peer.hpp"
#include "spjit/matrix.hpp"
#include "spjit/target.hpp"
#include "tests/support/float64_check.hpp"

namespace spjit::side_by_side {

inline constexpr const char* k_not_timed = "checked and right, not timed: only checks were wanted";

struct MeasureOptions {
  double budget_ms = 1000;          ///< of warm timing, all libraries of a case together
  double warm_up_ms = 5;            ///< of each library
  double min_batch_us = 200;        ///< a sample is at least this long
  int cold_runs = 3;                ///< of each library; 0: none
  bool check_only = false;          ///< times nothing: k_not_timed is why each one is not timed
  std::optional<HostIsa> isa = {};  ///< what the CPU's peak is measured with; empty: it is not
  TimingClock clock = steady_timing_clock();
};

/// One library's results with a case.
struct PeerTiming {
  std::string library;
  TimingResult warm;              ///< no samples if `failed`
  std::optional<double> cold_us;  ///< median of the cold runs
  double prepare_ms = 0;          ///< 0 where there is nothing to speak of
  std::string prepare_kind;
  std::string detail;
  std::string failed;  ///< why it is not timed; empty: it is
};

struct CaseResult {
  std::string set;
  std::string matrix;
  std::string layer;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t nnz = 0;
  std::int64_t n = 0;
  int threads = 1;
  double peak_gflops = 0;  ///< FMA peak of the CPUs used, measured beside the case
  bool checked = false;    ///< every library that computes the case is within the rounding bound
  std::vector<PeerTiming> timings;

  [[nodiscard]] double sparsity() const noexcept;
  /// 2 nnz n / median. [GFLOP/s]
  [[nodiscard]] double gflops(const PeerTiming& timing) const noexcept;
  /// Some library computes it.
  [[nodiscard]] bool any_timed() const;
  /// Every library was found right, though none was timed (MeasureOptions::check_only).
  [[nodiscard]] bool all_right() const;
  /// Bytes that have to move at least: B and C once, A's values, 32-bit columns and row offsets
  /// once.
  [[nodiscard]] double traffic_bytes() const noexcept;
};

/// A matrix and n with B, C, A's zeros and the float64 product, shared by all cases of it.
class Operands {
 public:
  Operands(CsrMatrix matrix, std::int64_t n);

  [[nodiscard]] Problem problem(int threads);
  /// Writes NaN everywhere: what a library does not write shows.
  void spoil_c();
  /// "" if C is the product within `rounding` times the rounding bound of fp32, else where it is
  /// not.
  [[nodiscard]] std::string check_c(double rounding = 1) const;

  [[nodiscard]] const CsrMatrix& matrix() const noexcept { return matrix_; }
  [[nodiscard]] std::int64_t n() const noexcept { return n_; }

 private:
  CsrMatrix matrix_;
  std::int64_t n_;
  std::vector<float> dense_;
  bench::AlignedFloats b_;
  bench::AlignedFloats c_;
  Float64Product expected_;
};

/// A clock without the time that runs spend outside of their library (Runnable::overhead).
[[nodiscard]] TimingClock without_overhead(TimingClock clock,
                                           std::vector<const Runnable*> runnables);

/// Missing peers are left out. The names of set, matrix and layer are the caller's.
[[nodiscard]] CaseResult measure_case(const std::vector<std::unique_ptr<Peer>>& peers,
                                      Operands& operands, int threads,
                                      const MeasureOptions& options, CacheFlush& caches);

}  // namespace spjit::side_by_side
