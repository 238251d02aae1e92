#include "kernels/cuda/unrolled/cuda_prior.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <tuple>

#include "base/arithmetic.hpp"
#include "clock/clock_constants.hpp"
#include "kernels/cuda/code/sizes.hpp"
#include "kernels/cuda/unrolled/cuda_patches.hpp"
#include "kernels/cuda/unrolled/value_stream.hpp"

namespace spjit {
namespace {

/// Of each register that the cap allows beyond the predicted ones, the loads that a warp has in
/// flight besides, since ptxas then issues loads earlier. Fits simulated cycles (GPGPU-Sim 4.2,
/// sm_75): 512 x 512 at 90 %, n = 512, tile 64x64 took 30.8k, 20.6k and 15.5k with caps of 80, 128
/// and 168, of which the first has two registers to spare.
constexpr double k_loads_a_register = 0.083;
constexpr std::int64_t k_most_spare_registers = 90;

/// Of the loads that row tiles of a block have in common, those that L1 serves: tiles drift apart.
/// So many give a tile of 16 rows of 512 x 512 at 90 %, which is bound by L2, 18 % fewer cycles
/// with two tiles a block and 31 % fewer with four; simulated (GPGPU-Sim 4.2, sm_75) were 18 to 30
/// %.
constexpr double k_common_loads_in_l1 = 0.45;
/// Blocks of fewer columns fetch the same code more often: ties go by it.
constexpr std::int64_t k_wide_tile = 128;

const ClockConstants& constants_of(const CudaDeviceInfo& limits) {
  return nearest_clock_constants(limits.arch);
}

/// What threads of one column do, one of each tile of a block.
struct BlockWork {
  double fmas = 0;
  double loads = 0;   ///< of rows of B
  double stores = 0;  ///< of rows of C
  double masks = 0;   ///< instructions for predicates of a convolution's loads
  double values = 0;  ///< of A that are loaded
  double code = 0;    ///< bytes

  /// Cycles that a partition issues for a warp of each tile.
  [[nodiscard]] double issue(const ClockConstants& device) const {
    return fmas * device.fp32_interval + values / k_values_a_load + loads + stores + masks;
  }
};

double blocks_an_sm(const CudaCandidate& candidate, const CudaDeviceInfo& limits) {
  return std::ceil(as_double(candidate.blocks) / as_double(limits.sms));
}

/// Blocks that an SM has at once.
double resident_blocks(const CudaCandidate& candidate, const CudaDeviceInfo& limits) {
  return std::min(blocks_an_sm(candidate, limits), as_double(candidate.occupancy.active_blocks));
}

/// Cycles in which an SM issues a block's instructions.
double issue_cycles(const CudaCandidate& candidate, const CudaDeviceInfo& limits,
                    const BlockWork& work) {
  const double warps = std::ceil(as_double(candidate.tile.n1) / as_double(limits.warp_size));
  return warps * work.issue(constants_of(limits)) / as_double(limits.sub_partitions);
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

/// Of a block: rows of B and C beyond L1, and values of A, which all threads share.
double memory_cycles(const CudaCandidate& candidate, const CudaDeviceInfo& limits,
                     const BlockWork& work) {
  const double accesses = accesses_beyond_l1(candidate, work.loads, work.stores);
  const double bytes =
      (accesses * as_double(candidate.tile.n1) + work.values) * as_double(k_float_bytes);
  return bytes / constants_of(limits).l2_bytes_a_cycle;
}

/// Bytes of B and C.
double touched_bytes(const CudaCandidate& candidate) {
  return (floats_of_b(candidate) + floats_of_c(candidate)) * as_double(k_float_bytes);
}

/// The share of B and C that DRAM serves in a launch after another one: none of what half of L2
/// holds, all of what is twice as much. L2 is two halves, of which each keeps what its SMs read
/// (NVIDIA A100 Tensor Core GPU Architecture whitepaper).
double share_of_dram(const CudaCandidate& candidate, const CudaDeviceInfo& limits) {
  const double half = std::max(as_double(limits.l2_bytes) / 2, 1.0);
  return std::clamp(touched_bytes(candidate) / half - 1, 0.0, 1.0);
}

/// Until an SM's share of B and C has come from DRAM and gone there, each once.
double dram_cycles(const CudaCandidate& candidate, const CudaDeviceInfo& limits) {
  return share_of_dram(candidate, limits) * touched_bytes(candidate) / as_double(limits.sms) /
         constants_of(limits).dram_bytes_a_cycle;
}

/// To fetch the code of a block, which no other block of the SM has: from the level that holds all.
double fetch_cycles(const CudaCandidate& candidate, const CudaDeviceInfo& limits,
                    const BlockWork& work) {
  const ClockConstants& device = constants_of(limits);
  if (as_double(candidate.code_bytes) <= device.l1_code_bytes) {
    return work.code / device.l1_code_bytes_a_cycle;
  }
  const bool is_in_l2 = candidate.code_bytes <= limits.l2_bytes;
  return work.code / (is_in_l2 ? device.l2_code_bytes_a_cycle
                               : std::min(device.l2_code_bytes_a_cycle, device.dram_bytes_a_cycle));
}

BlockWork mean_block(const CudaCandidate& candidate) {
  const std::int64_t blocks = candidate.blocks / candidate.column_tiles;
  const std::int64_t functions = blocks * candidate.tile.tiles_a_block;
  const auto each = [&](std::int64_t of_all) { return as_double(of_all) / as_double(blocks); };
  BlockWork work;
  work.fmas = each(candidate.work.nnz);
  work.loads = each(candidate.grouping.nnc_sum);
  work.stores = each(candidate.work.m);
  work.masks = each(mask_instructions(candidate.layer, candidate.grouping.nnc_sum, functions));
  work.values = candidate.layer.runtime_values ? work.fmas : 0;
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
  work.values *= growth;
  work.code *= growth;
  return work;
}

/// From the first instruction of a row tile to its last one, as long as no other warp is in the
/// way: it waits for as many loads at once as it has registers for.
double tile_latency(const CudaCandidate& candidate, const CudaDeviceInfo& limits,
                    const BlockWork& largest) {
  const ClockConstants& device = constants_of(limits);
  const std::int64_t spare = std::clamp<std::int64_t>(
      candidate.register_cap - candidate.registers.total(), 0, k_most_spare_registers);
  const double flight = std::max(1.0, as_double(candidate.registers.b_in_flight)) +
                        k_loads_a_register * as_double(spare);
  const double tiles = as_double(candidate.tile.tiles_a_block);
  const double loads = std::max(as_double(candidate.grouping.nnc_max), largest.loads / tiles);
  const double latency =
      std::lerp(device.l2_latency, device.dram_latency, share_of_dram(candidate, limits));
  return std::max(largest.issue(device) / tiles, latency * (1 + loads / flight));
}

/// An order that does not change with the text that people read.
std::string tie_breaker(const CudaTile& tile) {
  return fmt::format("{}x{} u{}", tile.m1, tile.n1, tile.unit_nonzeros);
}

}  // namespace

double CudaCost::cycles() const noexcept {
  return std::hypot(std::hypot(issue, memory, dram), fetch, latency);
}

CudaCost estimate_cuda_cost(const CudaCandidate& candidate, const CudaDeviceInfo& limits) {
  const BlockWork mean = mean_block(candidate);
  const BlockWork largest = largest_block(candidate, mean);
  CudaCost cost;
  const double blocks = blocks_an_sm(candidate, limits);
  const auto busiest = [&](const auto& cycles_of) {
    const double of_mean = cycles_of(candidate, limits, mean);
    const double of_largest = cycles_of(candidate, limits, largest);
    return blocks * of_mean + std::max(0.0, of_largest - of_mean);
  };
  cost.issue = busiest(issue_cycles);
  cost.memory = busiest(memory_cycles);
  cost.fetch = busiest(fetch_cycles);
  cost.dram = dram_cycles(candidate, limits);
  cost.latency = std::ceil(blocks / resident_blocks(candidate, limits)) *
                 tile_latency(candidate, limits, largest);
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
