#pragma once

/// @file
/// A matrix and tiles whose costs can be counted by hand.

#include <cstdint>

#include "kernels/host/unrolled/host_prior.hpp"
#include "kernels/host/unrolled/tile_space.hpp"
#include "runtime/host/host_device_info.hpp"

namespace spjit::testing_support {

[[nodiscard]] inline HostDeviceInfo limits() {
  HostDeviceInfo limits;
  limits.isa = HostIsa::avx512;
  limits.lanes = 16;
  limits.registers = 32;
  return limits;
}

/// 280 x 512 at 90 %, n = 128.
inline constexpr Workload k_work = {280, 512, 14'336, 128};

/// Ten tiles of 28 rows, one vector wide, with small code.
[[nodiscard]] inline TileCandidate candidate_of(std::int64_t nnc_sum = 4800) {
  TileCandidate candidate;
  candidate.tile.m1 = 28;
  candidate.panels = 8;
  candidate.code_bytes = 150'000;
  candidate.grouping.tiles = 10;
  candidate.grouping.nnc_sum = nnc_sum;
  return candidate;
}

}  // namespace spjit::testing_support
