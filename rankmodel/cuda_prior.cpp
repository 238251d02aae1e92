#include "rankmodel/cuda_prior.hpp"

#include <algorithm>
#include <tuple>

namespace spjit {
namespace {

/// Warps whose FMAs an SM starts a cycle: fp32 lanes / 32 (CUDA C++ Programming Guide, "Throughput
/// of Native Arithmetic Instructions": 64 results a cycle on 7.5 and 8.0, 128 on 8.6 and later).
double fmas_per_cycle(std::int64_t arch) { return arch <= 80 ? 2 : 4; }

/// Warp schedulers of an SM, each starting an instruction a cycle (same guide, "Hardware
/// Multithreading").
constexpr double k_issues_per_cycle = 4;
/// Guess: bytes an SM gets from L2 a cycle.
constexpr double k_l2_bytes_per_cycle = 64;
/// Guess: bytes of code an SM gets a cycle once a tile's code is larger than its instruction
/// caches, which unrolled code always is.
constexpr double k_fetch_bytes_per_cycle = 32;
/// Guess: cycles from a load to its value, out of L2.
constexpr double k_l2_latency = 250;
constexpr double k_instruction_bytes = 16;
/// Guess: cycles to start a block and drain it.
constexpr double k_block_cycles = 1000;

/// Whole divisions, and what is left.
struct Groups {
  std::int64_t whole = 0;
  std::int64_t rest = 0;
};

Groups divide(std::int64_t blocks, std::int64_t at_once) {
  return {blocks / at_once, blocks % at_once};
}

/// Cycles that one block keeps the busiest part of its SM busy.
double busy_cycles(const CudaCandidate& candidate, const CudaLimits& limits, double fmas,
                   double instructions) {
  const double loads = candidate.grouping.nnc_mean;
  const auto stores = static_cast<double>(candidate.registers.accumulators);
  const auto warps =
      static_cast<double>((candidate.tile.n1 + limits.warp_size - 1) / limits.warp_size);
  const double issue =
      warps * std::max(fmas / fmas_per_cycle(limits.arch), instructions / k_issues_per_cycle);
  const double bytes = warps * (loads + stores) * 4 * static_cast<double>(limits.warp_size);
  const double code = instructions * k_instruction_bytes;
  return std::max({issue, bytes / k_l2_bytes_per_cycle, code / k_fetch_bytes_per_cycle});
}

}  // namespace

double prior_cycles(const CudaCandidate& candidate, const CudaLimits& limits) {
  const double loads = candidate.grouping.nnc_mean;
  const double fmas = candidate.grouping.fmas_per_load * loads;
  const double accesses = loads + static_cast<double>(candidate.registers.accumulators);
  const double instructions = fmas + accesses * (candidate.tile.runtime_sizes ? 2 : 1);
  const double busy = busy_cycles(candidate, limits, fmas, instructions);
  const auto in_flight = static_cast<double>(candidate.tile.prefetch_distance + 1);
  const double wait = instructions + loads * k_l2_latency / in_flight + k_block_cycles;

  const Groups groups = divide(candidate.blocks(), limits.sms * candidate.min_blocks);
  const double whole = std::max(static_cast<double>(candidate.min_blocks) * busy, wait);
  // The blocks of the last group share an SM with fewer others, and its fullest tile is waited for.
  const auto sharing = static_cast<double>((groups.rest + limits.sms - 1) / limits.sms);
  const double last = groups.rest > 0 ? std::max(sharing * busy, wait) : 0;
  return static_cast<double>(groups.whole) * whole + (1 + candidate.grouping.tile_nnz_cv) * last;
}

std::vector<CudaCandidate> rank_by_prior(std::vector<CudaCandidate> candidates,
                                         const CudaLimits& limits) {
  for (CudaCandidate& candidate : candidates) {
    candidate.score = -prior_cycles(candidate, limits);
  }
  std::ranges::stable_sort(candidates, [](const CudaCandidate& a, const CudaCandidate& b) {
    const auto key = [](const CudaCandidate& candidate) {
      return std::tuple(-candidate.score, candidate.registers.total(), candidate.tile.m1,
                        candidate.tile.n1);
    };
    return key(a) < key(b);
  });
  return candidates;
}

}  // namespace spjit
