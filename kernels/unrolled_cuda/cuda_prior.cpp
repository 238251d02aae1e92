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
/// Loads that a warp has in flight with the predicted registers: a guess, not measured on a device.
constexpr double k_loads_of_a_warp = 9;
/// And of each register that the cap allows besides, since ptxas then issues loads earlier; of no
/// more registers than were simulated. Fits
/// simulated cycles (GPGPU-Sim 4.2, sm_75): 512 x 512 at 90 %, n = 512, tile 64x64
/// took 30.8k, 20.6k and 15.5k with caps of 80, 128 and 168.
constexpr double k_loads_a_register = 0.1;
constexpr std::int64_t k_most_spare_registers = 90;

/// Of the loads that row tiles of a block have in common, those that L1 serves: tiles drift apart.
/// So many give a tile of 16 rows of 512 x 512 at 90 %, which is bound by L2, 18 % fewer cycles
/// with two tiles a block and 31 % fewer with four; simulated (GPGPU-Sim 4.2, sm_75) were 18 to 30
/// %.
constexpr double k_common_loads_in_l1 = 0.45;
/// Simulated too: a block of fewer columns fetches code more often (90 %, fetch
/// limited: 29.8k, 23.6k and 20.9k cycles at N1 = 32, 64 and 128). The formula has no cycles for
/// it, so ties go by it.
constexpr std::int64_t k_wide_tile = 128;

constexpr double k_float_bytes = 4;

/// Cycles an SM needs to issue so many instructions for a thread of each tile of a block.
double issue_cycles(const CudaCandidate& candidate, const CudaDeviceInfo& limits,
                    double instructions) {
  const double warps = std::ceil(as_double(candidate.tile.n1) / as_double(limits.warp_size));
  return warps * instructions / (as_double(limits.sub_partitions) * k_issued_a_cycle);
}

/// The share of loads of a block that comes from L2: its tiles have columns in common, as many as
/// if each had drawn its own.
double loads_beyond_l1(const CudaCandidate& candidate) {
  const auto tiles = as_double(candidate.tile.tiles_a_block);
  const auto cols = as_double(candidate.work.cols);
  const double all = tiles * candidate.grouping.nnc_mean;
  if (tiles == 1 || all <= 0) return 1;
  const double missed = std::pow(1 - std::min(1.0, candidate.grouping.nnc_mean / cols), tiles);
  const double common = std::max(0.0, 1 - cols * (1 - missed) / all);
  return 1 - k_common_loads_in_l1 * common;
}

/// Accesses to rows of B and C that are as many bytes from L2: elements of an image that several
/// taps read come from L2 once, which is a guess, not measured on a device.
double accesses_beyond_l1(const CudaCandidate& candidate, double loads, double stores) {
  loads *= loads_beyond_l1(candidate);
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

/// Cycles to fetch code of so many bytes, which is a part of all of it.
double fetch_cycles(const CudaCandidate& candidate, const CudaDeviceInfo& limits, double bytes) {
  if (as_double(candidate.code_bytes) <= k_instruction_cache_bytes) return 0;
  const bool in_l2 = candidate.code_bytes <= limits.l2_bytes;
  return bytes / (in_l2 ? k_l2_fetch_bytes_a_cycle : k_dram_fetch_bytes_a_cycle);
}

/// What threads of one column do, one of each tile of a block.
struct BlockWork {
  double fmas = 0;
  double loads = 0;   ///< of rows of B
  double stores = 0;  ///< of rows of C
  double masks = 0;   ///< instructions for predicates of a convolution's loads
  double code = 0;    ///< bytes
};

BlockWork mean_block(const CudaCandidate& candidate) {
  const std::int64_t blocks = candidate.blocks / candidate.column_tiles;
  const std::int64_t functions = blocks * candidate.tile.tiles_a_block;
  const auto each = [&](std::int64_t of_all) { return as_double(of_all) / as_double(blocks); };
  BlockWork work;
  work.fmas = each(candidate.work.nnz);
  work.loads = each(candidate.grouping.nnc_sum);
  work.stores = each(candidate.work.m);
  work.masks = each(mask_instructions(candidate.layer, candidate.grouping.nnc_sum, functions));
  work.code = each(candidate.code_bytes);
  return work;
}

/// Of the row tile with most nonzeros, as if it had most columns too, and mean ones: all grows
/// alike.
BlockWork largest_block(const CudaCandidate& candidate, const BlockWork& mean) {
  const double others = 1 - 1 / as_double(candidate.tile.tiles_a_block);
  const auto with = [&](double of_mean, std::int64_t largest) {
    return std::max(of_mean, others * of_mean + as_double(largest));
  };
  BlockWork work = mean;
  work.fmas = with(mean.fmas, candidate.grouping.tile_nnz_max);
  work.loads = with(mean.loads, candidate.grouping.nnc_max);
  const double growth = (work.fmas + work.loads) / std::max(mean.fmas + mean.loads, 1.0);
  work.masks *= growth;
  work.code *= growth;
  return work;
}

/// Issue, memory and fetch of a block.
CudaCost block_cost(const CudaCandidate& candidate, const CudaDeviceInfo& limits,
                    const BlockWork& work) {
  const double values = candidate.layer.runtime_values ? work.fmas : 0;
  const double instructions =
      work.fmas + values / k_values_a_load + work.loads + work.stores + work.masks;
  const double accesses = accesses_beyond_l1(candidate, work.loads, work.stores);
  CudaCost cost;
  cost.issue = issue_cycles(candidate, limits, instructions);
  cost.memory = memory_cycles(candidate, limits, accesses, values);
  cost.fetch = fetch_cycles(candidate, limits, work.code);
  return cost;
}

double block_cycles(const CudaCost& cost) {
  return std::max({cost.issue, cost.memory, cost.fetch});
}

/// The share of the latency of loads that is hidden by others in flight, at most 1.
double hidden_latency(const CudaCandidate& candidate, double blocks_an_sm) {
  const Occupancy& occupancy = candidate.occupancy;
  const double blocks = std::min(blocks_an_sm, as_double(occupancy.active_blocks));
  const double warps = blocks * as_double(occupancy.active_warps / occupancy.active_blocks);
  const std::int64_t spare = std::clamp<std::int64_t>(
      candidate.register_cap - candidate.registers.total(), 0, k_most_spare_registers);
  const double loads = k_loads_of_a_warp + k_loads_a_register * as_double(spare);
  return std::min(1.0, warps * loads / k_loads_in_flight);
}

/// An order that does not change with the text that people read.
std::string tie_breaker(const CudaTile& tile) {
  return fmt::format("{}x{} u{}", tile.m1, tile.n1, tile.unit_nonzeros);
}

}  // namespace

double CudaCost::cycles() const noexcept {
  return (blocks_an_sm * block_cycles(*this) + largest) / hidden;
}

CudaCost estimate_cuda_cost(const CudaCandidate& candidate, const CudaDeviceInfo& limits) {
  const BlockWork mean = mean_block(candidate);
  CudaCost cost = block_cost(candidate, limits, mean);
  const double largest =
      block_cycles(block_cost(candidate, limits, largest_block(candidate, mean)));
  cost.largest = std::max(0.0, largest - block_cycles(cost));
  cost.blocks_an_sm = std::ceil(as_double(candidate.blocks) / as_double(limits.sms));
  cost.hidden = hidden_latency(candidate, cost.blocks_an_sm);
  return cost;
}

double estimate_cuda_cycles(const CudaCandidate& candidate, const CudaDeviceInfo& limits) {
  if (candidate.occupancy.active_blocks < 1 || candidate.column_tiles < 1) {
    return std::numeric_limits<double>::infinity();
  }
  if (candidate.blocks == 0) return 0;
  return estimate_cuda_cost(candidate, limits).cycles();
}

std::vector<CudaCandidate> rank_by_prior(std::vector<CudaCandidate> survivors,
                                         const CudaDeviceInfo& limits) {
  for (CudaCandidate& candidate : survivors) {
    candidate.score = -estimate_cuda_cycles(candidate, limits);
  }
  std::ranges::sort(survivors, [](const CudaCandidate& left, const CudaCandidate& right) {
    const auto key = [](const CudaCandidate& candidate) {
      const CudaTile& tile = candidate.tile;
      return std::tuple(-candidate.score, tile.n1 < k_wide_tile, candidate.registers.total(),
                        candidate.register_cap, tile.tiles_a_block, tie_breaker(tile));
    };
    return key(left) < key(right);
  });
  return survivors;
}

}  // namespace spjit
