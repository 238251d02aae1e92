#include "kernels/unrolled_cuda/cuda_prior.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <tuple>

#include "base/arithmetic.hpp"
#include "kernels/unrolled_cuda/cuda_patches.hpp"
#include "kernels/unrolled_cuda/value_stream.hpp"

namespace spjit {
namespace {

/// Each sub-partition has one warp scheduler, which issues one instruction a cycle (CUDA C++
/// Programming Guide, "Compute Capabilities").
constexpr double k_issued_a_cycle = 1;
/// Bytes a cycle an SM gets from L2: a guess, not measured on a device.
constexpr double k_l2_bytes_a_cycle = 64;
/// An SM's share of DRAM in bytes a cycle: a guess, not measured on a device.
constexpr double k_dram_bytes_a_cycle = 16;
/// Code an SM keeps: a guess, not measured on a device.
constexpr double k_instruction_cache_bytes = 128 << 10;
/// Bytes of code a cycle from L2, and from DRAM: guesses, not measured on a device.
constexpr double k_l2_fetch_bytes_a_cycle = 32;
constexpr double k_dram_fetch_bytes_a_cycle = 8;
/// Loads of warps in flight on an SM that hide L2's latency: a guess, not measured on a device.
constexpr double k_loads_in_flight = 64;
/// Loads that a warp has in flight, which ptxas decides: a guess, not measured on a device.
constexpr double k_loads_of_a_warp = 9;

constexpr double k_float_bytes = 4;

/// Cycles an SM needs to issue so many instructions for every thread of a block.
double issue_cycles(const CudaCandidate& candidate, const CudaDeviceInfo& limits,
                    double instructions) {
  const double warps = std::ceil(as_double(candidate.tile.n1) / as_double(limits.warp_size));
  return warps * instructions / (as_double(limits.sub_partitions) * k_issued_a_cycle);
}

/// Accesses to rows of B and C that are as many bytes from L2: elements of an image that several
/// taps read come from L2 once, which is a guess, not measured on a device.
double accesses_beyond_l1(const CudaCandidate& candidate, double loads, double stores) {
  const Workload& work = candidate.work;
  if (!candidate.layer.convolution) return loads + stores;
  const double rows_of_patches = as_double(work.cols) * as_double(work.n);
  return loads * std::min(1.0, floats_of_b(candidate) / std::max(rows_of_patches, 1.0)) + stores;
}

/// `accesses` to rows of B and C beyond L1, and `values` of A that all threads share.
double memory_cycles(const CudaCandidate& candidate, const CudaDeviceInfo& limits, double accesses,
                     double values) {
  const double bytes = (accesses * as_double(candidate.tile.n1) + values) * k_float_bytes;
  const double touched = (floats_of_b(candidate) + floats_of_c(candidate)) * k_float_bytes;
  const double beyond_l2 = std::max(0.0, 1 - as_double(limits.l2_bytes) / std::max(touched, 1.0));
  return std::max(bytes / k_l2_bytes_a_cycle, beyond_l2 * bytes / k_dram_bytes_a_cycle);
}

double fetch_cycles(const CudaCandidate& candidate, const CudaDeviceInfo& limits,
                    double functions) {
  const double code = as_double(candidate.code_bytes);
  if (code <= k_instruction_cache_bytes) return 0;
  const bool in_l2 = candidate.code_bytes <= limits.l2_bytes;
  return code / functions / (in_l2 ? k_l2_fetch_bytes_a_cycle : k_dram_fetch_bytes_a_cycle);
}

/// An order that does not change with the text that people read.
std::string tie_breaker(const CudaTile& tile) {
  return fmt::format("{}x{} u{}", tile.m1, tile.n1, tile.unit_nonzeros);
}

}  // namespace

double estimate_cuda_cycles(const CudaCandidate& candidate, const CudaDeviceInfo& limits) {
  if (candidate.occupancy.active_blocks < 1 || candidate.column_tiles < 1) {
    return std::numeric_limits<double>::infinity();
  }
  if (candidate.blocks == 0) return 0;
  const Workload& work = candidate.work;
  const double functions = as_double(candidate.blocks) / as_double(candidate.column_tiles);
  const double rows_loaded = as_double(candidate.grouping.nnc_sum) / functions;
  const double rows_stored = as_double(work.m) / functions;
  const double masks = as_double(mask_instructions(candidate.layer, candidate.grouping.nnc_sum,
                                                   candidate.blocks / candidate.column_tiles)) /
                       functions;
  const double fmas = as_double(work.nnz) / functions;
  const double values = candidate.layer.runtime_values ? fmas : 0;
  const double instructions = fmas + values / k_values_a_load + rows_loaded + rows_stored + masks;
  const double accesses = accesses_beyond_l1(candidate, rows_loaded, rows_stored);
  const double block = std::max({issue_cycles(candidate, limits, instructions),
                                 memory_cycles(candidate, limits, accesses, values),
                                 fetch_cycles(candidate, limits, functions)});
  const double blocks_an_sm = std::ceil(as_double(candidate.blocks) / as_double(limits.sms));
  const double largest = as_double(candidate.grouping.tile_nnz_max);
  const double extra = issue_cycles(candidate, limits, std::max(0.0, largest - fmas));

  const double resident =
      std::min(blocks_an_sm, as_double(candidate.occupancy.active_blocks)) *
      as_double(candidate.occupancy.active_warps / candidate.occupancy.active_blocks);
  const double hidden = std::min(1.0, resident * k_loads_of_a_warp / k_loads_in_flight);
  return (blocks_an_sm * block + extra) / hidden;
}

std::vector<CudaCandidate> rank_by_prior(std::vector<CudaCandidate> survivors,
                                         const CudaDeviceInfo& limits) {
  for (CudaCandidate& candidate : survivors) {
    candidate.score = -estimate_cuda_cycles(candidate, limits);
  }
  std::ranges::sort(survivors, [](const CudaCandidate& left, const CudaCandidate& right) {
    return std::tuple(-left.score, left.registers.total(), tie_breaker(left.tile)) <
           std::tuple(-right.score, right.registers.total(), tie_breaker(right.tile));
  });
  return survivors;
}

}  // namespace spjit
