#pragma once

/// @file
/// The ranking of host tiles by a formula, for as long as there is no model of measurements.

#include "kernels/host/unrolled/tile_space.hpp"
#include "plan/workload.hpp"
#include "runtime/host/host_device_info.hpp"

namespace spjit {

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
[[nodiscard]] HostCost estimate_host_cost(const TileCandidate& candidate, const Workload& work,
                                          const HostDeviceInfo& limits);

/// All of it.
[[nodiscard]] double estimate_host_us(const TileCandidate& candidate, const Workload& work,
                                      const HostDeviceInfo& limits);

}  // namespace spjit
