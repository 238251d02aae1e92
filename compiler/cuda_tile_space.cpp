#include "compiler/cuda_tile_space.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/cuda_units.hpp"

namespace spjit {
namespace {

constexpr std::int64_t k_heights[] = {2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128};
constexpr std::int64_t k_widths[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024};

std::int64_t non_empty_rows(const CsrMatrix& matrix) {
  std::int64_t count = 0;
  for (std::size_t row = 0; row + 1 < matrix.row_ptrs.size(); ++row) {
    count += matrix.row_ptrs[row] != matrix.row_ptrs[row + 1] ? 1 : 0;
  }
  return count;
}

std::vector<std::int64_t> heights(const CsrMatrix& matrix, const CudaProblem& problem) {
  if (problem.m1) return {*problem.m1};
  const std::int64_t rows = std::max<std::int64_t>(non_empty_rows(matrix), 1);
  std::vector<std::int64_t> result;
  for (const std::int64_t m1 : k_heights) {
    if (m1 < rows) result.push_back(m1);
  }
  if (rows <= std::end(k_heights)[-1]) result.push_back(rows);
  return result;
}

std::vector<std::int64_t> widths(const CudaProblem& problem) {
  if (problem.n1) return {*problem.n1};
  return {std::begin(k_widths), std::end(k_widths)};
}

/// What a candidate shares with all others of its M1.
CudaCandidate begin_candidate(const CsrMatrix& matrix, const CudaTile& tile,
                              const RowGrouping& grouping) {
  CudaCandidate candidate;
  candidate.tile = tile;
  candidate.grouping = compute_statistics(matrix, grouping);
  const CodeTotals totals = code_totals(grouping, candidate.grouping.nnc_sum, matrix.nnz());
  candidate.blocks_x = totals.functions;
  candidate.code_bytes = estimate_code_bytes(totals, tile.runtime_sizes);
  return candidate;
}

std::int64_t fullest_tile(const RowGrouping& grouping) {
  std::int64_t rows = 0;
  for (std::size_t i = 0; i + 1 < grouping.tile_ptrs.size(); ++i) {
    rows = std::max<std::int64_t>(rows, grouping.tile_ptrs[i + 1] - grouping.tile_ptrs[i]);
  }
  return rows;
}

BlockResources block_of(const CudaCandidate& candidate) {
  return {.threads = candidate.tile.n1,
          .registers_per_thread = candidate.registers.total(),
          .static_shared_bytes = 0,
          .dynamic_shared_bytes = 0};
}

std::optional<DroppedCudaCandidate> check_registers(const CudaCandidate& candidate,
                                                    const CudaLimits& limits) {
  const std::int64_t registers = candidate.registers.total();
  if (registers > limits.registers_per_thread) {
    return DroppedCudaCandidate{CudaRule::registers,
                                fmt::format("{} registers a thread, the device has {}", registers,
                                            limits.registers_per_thread)};
  }
  const std::int64_t unit = limits.register_allocation_unit;
  const std::int64_t warp = (registers * limits.warp_size + unit - 1) / unit * unit;
  const std::int64_t warps = (candidate.tile.n1 + limits.warp_size - 1) / limits.warp_size;
  if (warp * warps > limits.registers_per_block || candidate.occupancy.active_blocks < 1) {
    return DroppedCudaCandidate{
        CudaRule::registers,
        fmt::format("{} registers x {} threads are {} in units of {}, a block has {}", registers,
                    candidate.tile.n1, warp * warps, unit, limits.registers_per_block)};
  }
  return std::nullopt;
}

std::optional<DroppedCudaCandidate> check_occupancy(const CudaCandidate& candidate,
                                                    const CudaLimits& limits) {
  if (candidate.tile.n1 % limits.warp_size != 0) {
    return DroppedCudaCandidate{CudaRule::occupancy,
                                fmt::format("{} threads are not a multiple of the warp of {}",
                                            candidate.tile.n1, limits.warp_size)};
  }
  if (2 * candidate.blocks() < limits.sms) {
    return DroppedCudaCandidate{
        CudaRule::occupancy,
        fmt::format("{} x {} = {} blocks, fewer than half of {} SMs", candidate.blocks_x,
                    candidate.column_tiles, candidate.blocks(), limits.sms)};
  }
  return std::nullopt;
}

std::optional<DroppedCudaCandidate> check_balance(const CudaCandidate& candidate) {
  if (candidate.grouping.tile_nnz_cv > k_max_cuda_tile_nnz_cv) {
    return DroppedCudaCandidate{
        CudaRule::balance,
        fmt::format("nonzeros of row tiles vary by {:.3f}, at most {}",
                    candidate.grouping.tile_nnz_cv, k_max_cuda_tile_nnz_cv)};
  }
  if (candidate.column_padding > k_max_cuda_padding) {
    return DroppedCudaCandidate{
        CudaRule::balance,
        fmt::format("columns padded by {:.1f} %, at most {:.0f} %", 100 * candidate.column_padding,
                    100 * k_max_cuda_padding)};
  }
  return std::nullopt;
}

bool is_relaxed(const std::vector<CudaRule>& relaxed, CudaRule rule) {
  return std::ranges::find(relaxed, rule) != relaxed.end();
}

/// The first rule broken, of those still in force.
std::optional<DroppedCudaCandidate> broken_rule(const CudaCandidate& candidate,
                                                const CudaProblem& problem,
                                                const CudaLimits& limits,
                                                const std::vector<CudaRule>& relaxed) {
  if (auto dropped = check_registers(candidate, limits)) return dropped;
  if (candidate.code_bytes > problem.code_budget_bytes) {
    return DroppedCudaCandidate{CudaRule::code_budget,
                                fmt::format("about {} bytes of code, the budget is {}",
                                            candidate.code_bytes, problem.code_budget_bytes)};
  }
  if (!is_relaxed(relaxed, CudaRule::occupancy)) {
    if (auto dropped = check_occupancy(candidate, limits)) return dropped;
  }
  return is_relaxed(relaxed, CudaRule::balance) ? std::nullopt : check_balance(candidate);
}

/// Sets what depends on N1 and the prefetch distance.
void finish_candidate(CudaCandidate& candidate, const CudaProblem& problem,
                      const CudaLimits& limits, std::int64_t rows) {
  const CudaTile& tile = candidate.tile;
  candidate.column_tiles = (problem.n + tile.n1 - 1) / tile.n1;
  candidate.column_padding =
      static_cast<double>(candidate.column_tiles * tile.n1 - problem.n) /
      static_cast<double>(problem.n);
  candidate.registers = predict_registers(rows, candidate.grouping.nnc_max, tile);
  candidate.occupancy = occupancy(limits, block_of(candidate));
  candidate.min_blocks = std::max<std::int64_t>(candidate.occupancy.active_blocks, 1);
  candidate.dropped = broken_rule(candidate, problem, limits, {});
}

/// The longest distance that costs nothing.
void choose_distance(CudaCandidate& candidate, const CudaProblem& problem,
                     const CudaLimits& limits, std::int64_t rows) {
  if (problem.prefetch_distance) {
    candidate.tile.prefetch_distance = *problem.prefetch_distance;
    finish_candidate(candidate, problem, limits, rows);
    return;
  }
  candidate.tile.prefetch_distance = std::end(k_prefetch_distances)[-1];
  finish_candidate(candidate, problem, limits, rows);
  const std::int64_t most_blocks = candidate.occupancy.active_blocks;
  for (const std::int64_t distance : k_prefetch_distances) {
    candidate.tile.prefetch_distance = distance;
    finish_candidate(candidate, problem, limits, rows);
    if (candidate.occupancy.active_blocks >= most_blocks &&
        candidate.registers.total() <= limits.registers_per_thread) {
      return;
    }
  }
}

}  // namespace

CudaCandidate examine_cuda_tile(const CsrMatrix& matrix, const CudaTile& tile,
                                const CudaProblem& problem, const CudaLimits& limits,
                                const RowGrouping& grouping) {
  CudaCandidate candidate = begin_candidate(matrix, tile, grouping);
  finish_candidate(candidate, problem, limits, fullest_tile(grouping));
  return candidate;
}

CudaTileSpace enumerate_cuda_tiles(const CsrMatrix& matrix, const CudaProblem& problem,
                                   const CudaLimits& limits, const GroupRows& group) {
  CudaTileSpace space;
  for (const std::int64_t m1 : heights(matrix, problem)) {
    const RowGrouping& grouping = group(m1);
    const std::int64_t rows = fullest_tile(grouping);
    CudaTile tile;
    tile.m1 = m1;
    tile.unit_nonzeros = problem.unit_nonzeros;
    tile.runtime_sizes = problem.runtime_sizes;
    const CudaCandidate first = begin_candidate(matrix, tile, grouping);
    for (const std::int64_t n1 : widths(problem)) {
      if ((problem.n + n1 - 1) / n1 > k_max_cuda_grid_y) continue;
      CudaCandidate candidate = first;
      candidate.tile.n1 = n1;
      choose_distance(candidate, problem, limits, rows);
      space.candidates.push_back(std::move(candidate));
    }
  }
  for (const CudaRule rule : {CudaRule::balance, CudaRule::occupancy}) {
    if (!space.survivors().empty()) break;
    space.relaxed.push_back(rule);
    for (CudaCandidate& candidate : space.candidates) {
      candidate.dropped = broken_rule(candidate, problem, limits, space.relaxed);
    }
  }
  return space;
}

}  // namespace spjit
