#pragma once

/// @file
/// The ranking of host tiles by a formula, for as long as there is no model of measurements.

#include <cstdint>
#include <vector>

#include "base/cancel.hpp"
#include "kernels/unrolled_host/tile_candidate.hpp"
#include "runtime/host/host_device_info.hpp"
#include "spjit/matrix.hpp"

namespace spjit {

/// The ranking's name in output.
inline constexpr const char* k_host_prior_name = "prior";

/// What a tile is estimated for.
struct HostWork {
  std::int64_t rows = 0;  ///< non-empty rows of A
  std::int64_t cols = 0;  ///< k
  std::int64_t nnz = 0;
  std::int64_t n = 1;
  std::int64_t threads = 1;
  double row_nnz_cv = 0;  ///< coefficient of variation of nnz over rows
};

/// Of a valid matrix, n columns of B and a run on so many threads. Throws what `cancel` throws soon
/// after it is reached.
[[nodiscard]] HostWork host_work(const CsrMatrix& matrix, std::int64_t n, std::int64_t threads,
                                 const Cancellation& cancel = {});

/// Estimated microseconds of a run on one thread, by what they are spent on.
struct HostCost {
  double arithmetic_us = 0;  ///< FMAs, loads of B and weights
  double code_us = 0;        ///< fetching instructions, calls
  double memory_us = 0;      ///< moving B and C

  [[nodiscard]] double total_us() const noexcept { return arithmetic_us + code_us + memory_us; }
};

/// The sum of what a kernel does, each times a cost that was fitted to measurements (the source has
/// both). On another machine than that of the fit only the order means something, and the first of
/// it not much: it is for choosing what to time.
[[nodiscard]] HostCost estimate_host_cost(const TileCandidate& candidate, const HostWork& work,
                                          const HostDeviceInfo& limits);

/// All of it.
[[nodiscard]] double estimate_host_us(const TileCandidate& candidate, const HostWork& work,
                                      const HostDeviceInfo& limits);

}  // namespace spjit
