#include "kernels/cuda/unrolled/cuda_tile_space.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "base/arithmetic.hpp"
#include "kernels/cuda/unrolled/cuda_prior.hpp"
#include "kernels/cuda/unrolled/cuda_units.hpp"

namespace spjit {
namespace {

constexpr std::int64_t k_heights[] = {2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128};
constexpr std::int64_t k_widths[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024};

std::vector<std::int64_t> heights(const Workload& work, const SearchPolicy& policy) {
  if (const auto m1 = integer_of(policy, k_m1_option)) return {*m1};
  const std::int64_t rows = std::max<std::int64_t>(work.rows, 1);
  std::vector<std::int64_t> result;
  for (const std::int64_t m1 : k_heights) {
    if (m1 < rows) result.push_back(m1);
  }
  if (rows <= std::ranges::max(k_heights)) result.push_back(rows);
  return result;
}

std::vector<std::int64_t> widths(const Workload& work, const SearchPolicy& policy) {
  if (const auto n1 = integer_of(policy, k_n1_option)) return {*n1};
  std::vector<std::int64_t> result;
  for (const std::int64_t n1 : k_widths) {
    if (ceil_div(work.n, n1) <= k_cuda_max_grid_y) result.push_back(n1);
  }
  return result;
}

/// Row tiles a block, of so many of a launch.
std::vector<std::int64_t> tiles_a_block(const CudaLayer& layer, CudaTile tile,
                                        std::int64_t row_tiles) {
  std::vector<std::int64_t> result = {1};
  for (tile.tiles_a_block = 2; tile.tiles_a_block <= k_cuda_max_tiles_a_block;
       tile.tiles_a_block *= 2) {
    const bool fits =
        tile.threads() <= k_cuda_max_threads && shared_bytes_of(layer, tile) <= k_cuda_shared_bytes;
    if (fits && tile.n1 % k_cuda_warp == 0 && tile.tiles_a_block <= row_tiles) {
      result.push_back(tile.tiles_a_block);
    }
  }
  return result;
}

Occupancy occupancy_of(const CudaDeviceInfo& limits, const CudaCandidate& candidate) {
  BlockResources block;
  block.threads = candidate.tile.threads();
  block.registers_per_thread = candidate.registers.total();
  block.dynamic_shared_bytes = shared_bytes_of(candidate.layer, candidate.tile);
  return occupancy(limits, block);
}

/// Of the empty rows and the row tiles, together with what the emitters make of them.
CodeTotals code_totals(const CudaCandidate& candidate, const RowGrouping& grouping) {
  CodeTotals totals;
  totals.nonzeros = candidate.work.nnz;
  totals.nnc_sum = candidate.grouping.nnc_sum;
  totals.rows = candidate.work.m;
  totals.functions = count_functions(grouping.tiles(), grouping.empty_rows.count());
  if (candidate.layer.has_tokens_of_b()) {
    totals.stages = totals.functions * ceil_div(candidate.work.cols, k_usual_stage_features);
  }
  return totals;
}

/// Everything that depends on the tile's m1 but not on its n1.
CudaCandidate describe_rows(const Problem& problem, const Workload& work, const CudaTile& tile,
                            const RowGrouping& grouping, const GroupingStatistics& statistics) {
  CudaCandidate candidate;
  candidate.tile = tile;
  candidate.work = work;
  candidate.layer = {problem.epilogue, problem.b.layout, problem.c.layout, problem.runtime_values,
                     problem.convolution};
  candidate.ldb = problem.ldb();
  candidate.ldc = problem.ldc();
  candidate.grouping = statistics;
  candidate.row_tiles = grouping.tiles();
  candidate.code_bytes =
      estimate_code_bytes(code_totals(candidate, grouping), tile.runtime_sizes, candidate.layer);
  return candidate;
}

std::int64_t functions_of(const RowGrouping& grouping) {
  return count_functions(grouping.tiles(), grouping.empty_rows.count());
}

/// Adds what depends on the cap alone.
void set_cap(CudaCandidate& candidate, CudaCap cap, const CudaDeviceInfo& limits) {
  candidate.tile.cap = cap;
  const std::int64_t active = candidate.occupancy.active_blocks;
  const std::int64_t brought = ceil_div(candidate.blocks, limits.sms);
  const std::int64_t blocks = cap == CudaCap::grid ? std::min(active, brought) : active;
  candidate.min_blocks = std::max<std::int64_t>(blocks, 1);
  candidate.register_cap = register_cap(limits, candidate.tile.threads(), candidate.min_blocks);
}

/// Adds what depends on n1 and on the cap.
void describe_block(CudaCandidate& candidate, const CudaTile& tile, const CudaDeviceInfo& limits,
                    const RowGrouping& grouping) {
  const Workload& work = candidate.work;
  candidate.tile = tile;
  const CudaGrid grid = cuda_grid(functions_of(grouping), tile, work.n);
  candidate.column_tiles = grid.y;
  candidate.blocks = grid.x * grid.y;
  candidate.column_padding =
      static_cast<double>(candidate.column_tiles * tile.n1 - work.n) / static_cast<double>(work.n);
  candidate.registers = predict_registers(grouping, tile, candidate.layer);
  candidate.occupancy = occupancy_of(limits, candidate);
  set_cap(candidate, tile.cap, limits);
  const std::int64_t active = candidate.occupancy.active_blocks;
  candidate.waves = active == 0 ? 0
                                : static_cast<double>(candidate.blocks) /
                                      static_cast<double>(limits.sms * active);
}

using Dropped = std::optional<DroppedCudaCandidate>;

Dropped registers_rule(const CudaCandidate& candidate, const CudaDeviceInfo& limits) {
  const std::int64_t registers = candidate.registers.total();
  if (registers > limits.registers_per_thread) {
    return DroppedCudaCandidate{CudaRule::registers,
                                fmt::format("predicts {} registers a thread, the device has {}",
                                            registers, limits.registers_per_thread)};
  }
  // As a launch is checked: in units of registers, and of warps in each sub-partition.
  const std::int64_t unit = limits.register_allocation_unit / limits.warp_size;
  const std::int64_t allocated = ceil_div(registers, unit) * unit;
  const std::int64_t row = limits.warp_size * limits.sub_partitions;
  const std::int64_t threads = ceil_div(candidate.tile.threads(), row) * row;
  if (allocated * threads > limits.registers_per_block) {
    return DroppedCudaCandidate{
        CudaRule::registers,
        fmt::format("{} registers x {} threads = {}, a block has {}", allocated, threads,
                    allocated * threads, limits.registers_per_block)};
  }
  return std::nullopt;
}

Dropped code_rule(const CudaCandidate& candidate, const SearchPolicy& policy) {
  if (candidate.code_bytes <= policy.code_budget_bytes) return std::nullopt;
  return DroppedCudaCandidate{CudaRule::code_budget,
                              fmt::format("about {} bytes of code, the budget is {}",
                                          candidate.code_bytes, policy.code_budget_bytes)};
}

Dropped occupancy_rule(const CudaCandidate& candidate, const CudaDeviceInfo& limits) {
  if (candidate.tile.n1 % limits.warp_size != 0) {
    return DroppedCudaCandidate{
        CudaRule::occupancy,
        fmt::format("{} threads, no multiple of a warp's {}", candidate.tile.n1, limits.warp_size)};
  }
  if (candidate.tile.threads() > limits.threads_per_block) {
    return DroppedCudaCandidate{CudaRule::occupancy,
                                fmt::format("{} threads, a block has {} at most",
                                            candidate.tile.threads(), limits.threads_per_block)};
  }
  if (2 * candidate.blocks >= limits.sms) return std::nullopt;
  return DroppedCudaCandidate{
      CudaRule::occupancy,
      fmt::format("{} blocks ({} x {}), {} wanted (half of {} SMs)", candidate.blocks,
                  candidate.blocks / candidate.column_tiles, candidate.column_tiles,
                  ceil_div(limits.sms, 2), limits.sms)};
}

}  // namespace

Dropped unbalanced(const CudaCandidate& candidate) {
  if (candidate.grouping.tile_nnz_cv > k_cuda_max_nnz_variation) {
    return DroppedCudaCandidate{
        CudaRule::balance, fmt::format("row tiles' nonzeros vary by {:.2f}, at most {:.2f}",
                                       candidate.grouping.tile_nnz_cv, k_cuda_max_nnz_variation)};
  }
  if (candidate.column_padding > k_cuda_max_padding) {
    return DroppedCudaCandidate{
        CudaRule::balance, fmt::format("columns padded by {:.1f} %, at most {:.0f} %",
                                       100 * candidate.column_padding, 100 * k_cuda_max_padding)};
  }
  return std::nullopt;
}

namespace {

/// Where an SM has one block at most, the longest of all blocks is the time.
Dropped balance_rule(const CudaCandidate& candidate, const CudaDeviceInfo& limits) {
  return candidate.blocks > limits.sms ? std::nullopt : unbalanced(candidate);
}

/// The first rule broken, of those that are not relaxed.
Dropped broken_rule(const CudaCandidate& candidate, const SearchPolicy& policy,
                    const CudaDeviceInfo& limits, const std::vector<CudaRule>& relaxed) {
  const auto enforced = [&](CudaRule rule) {
    return std::ranges::find(relaxed, rule) == relaxed.end();
  };
  Dropped dropped = registers_rule(candidate, limits);
  if (!dropped) dropped = code_rule(candidate, policy);
  if (!dropped && enforced(CudaRule::occupancy)) dropped = occupancy_rule(candidate, limits);
  if (!dropped && enforced(CudaRule::balance)) dropped = balance_rule(candidate, limits);
  return dropped;
}

/// Checks every candidate again without some rules; false, and nothing changed, if that lets
/// nothing in.
bool relax(CudaTileSpace& space, const SearchPolicy& policy, const CudaDeviceInfo& limits,
           std::vector<CudaRule> rules) {
  CudaTileSpace relaxed = space;
  for (CudaCandidate& candidate : relaxed.candidates) {
    candidate.dropped = broken_rule(candidate, policy, limits, rules);
  }
  if (relaxed.survivors().empty()) return false;
  relaxed.relaxed = std::move(rules);
  space = std::move(relaxed);
  return true;
}

/// The tiles of one M1.
class TilesOfHeight {
 public:
  TilesOfHeight(const Problem& problem, const SearchPolicy& policy, const CudaDeviceInfo& limits,
                const Workload& work, RowGroupings& groupings)
      : problem_(problem), policy_(policy), limits_(limits), work_(work), groupings_(groupings) {}

  /// Of all widths and tiles a block.
  [[nodiscard]] std::vector<CudaCandidate> all(const CudaTile& tile) const {
    const ReorderAlgorithm asked = groupings_.algorithm();
    if (asked != ReorderAlgorithm::automatic) return join(by_place(tile, asked));
    std::vector<Candidates> balanced = by_place(tile, ReorderAlgorithm::balanced);
    std::vector<Candidates> similar = by_place(tile, ReorderAlgorithm::similarity);
    for (std::size_t i = 0; i < balanced.size(); ++i) {
      if (is_as_good(similar[i], balanced[i])) balanced[i] = std::move(similar[i]);
    }
    return join(std::move(balanced));
  }

 private:
  using Candidates = std::vector<CudaCandidate>;

  static Candidates join(std::vector<Candidates> parts) {
    Candidates joined;
    for (Candidates& part : parts) std::ranges::move(part, std::back_inserter(joined));
    return joined;
  }

  /// For each width and number of tiles a block its candidates, one a cap. The same places for
  /// every grouping.
  [[nodiscard]] std::vector<Candidates> by_place(CudaTile tile, ReorderAlgorithm reorder) const {
    tile.reorder = reorder;
    const RowGrouping& grouping = groupings_.at(tile.m1, reorder);
    CudaCandidate candidate =
        describe_rows(problem_, work_, tile, grouping, groupings_.statistics(tile.m1, reorder));
    const std::int64_t functions =
        count_functions(ceil_div(work_.rows, tile.m1), work_.m - work_.rows);
    std::vector<Candidates> result;
    for (const std::int64_t n1 : widths(work_, policy_)) {
      tile.n1 = n1;
      for (const std::int64_t tiles : tiles_a_block(candidate.layer, tile, functions)) {
        tile.tiles_a_block = tiles;
        result.push_back(by_cap(candidate, tile, grouping));
      }
    }
    return result;
  }

  /// `candidate` has what does not depend on the place.
  [[nodiscard]] Candidates by_cap(CudaCandidate candidate, CudaTile tile,
                                  const RowGrouping& grouping) const {
    tile.cap = CudaCap::device;
    describe_block(candidate, tile, limits_, grouping);
    candidate.dropped = broken_rule(candidate, policy_, limits_, {});
    Candidates candidates = {candidate};
    set_cap(candidate, CudaCap::grid, limits_);
    if (candidate.register_cap > candidates.front().register_cap) candidates.push_back(candidate);
    return candidates;
  }

  [[nodiscard]] double least_cycles(const Candidates& candidates) const {
    double least = std::numeric_limits<double>::infinity();
    for (const CudaCandidate& candidate : candidates) {
      least = std::min(least, estimate_cuda_cycles(candidate, limits_));
    }
    return least;
  }

  /// No rule looks at the cap.
  [[nodiscard]] bool is_as_good(const Candidates& similar, const Candidates& balanced) const {
    if (similar.front().dropped) return false;
    return balanced.front().dropped || least_cycles(similar) <= least_cycles(balanced);
  }

  const Problem& problem_;
  const SearchPolicy& policy_;
  const CudaDeviceInfo& limits_;
  const Workload& work_;
  RowGroupings& groupings_;
};

}  // namespace

std::optional<DroppedCudaCandidate> broken_cuda_rule(const CudaCandidate& candidate,
                                                     const SearchPolicy& policy,
                                                     const CudaDeviceInfo& limits) {
  return broken_rule(candidate, policy, limits, {});
}

CudaCandidate examine_cuda_tile(const Problem& problem, const CudaTile& tile,
                                const SearchPolicy& policy, const CudaDeviceInfo& limits,
                                const RowGrouping& grouping) {
  check_cuda_tile(tile, problem.n.value);
  CudaCandidate candidate = describe_rows(problem, workload_of(problem, 1), tile, grouping,
                                          compute_statistics(*problem.a, grouping));
  describe_block(candidate, tile, limits, grouping);
  candidate.dropped = broken_rule(candidate, policy, limits, {});
  return candidate;
}

CudaTileSpace enumerate_cuda_tiles(const Problem& problem, const SearchPolicy& policy,
                                   const CudaDeviceInfo& limits, RowGroupings& groupings,
                                   const Cancellation& cancel) {
  CudaTile tile;
  tile.m1 = integer_of(policy, k_m1_option).value_or(1);
  tile.n1 = integer_of(policy, k_n1_option).value_or(k_cuda_max_threads);
  tile.unit_nonzeros = *integer_of(policy, k_unit_option);
  tile.runtime_sizes = problem.n.runtime;
  check_cuda_tile(tile, problem.n.value);
  const Workload work = workload_of(problem, 1, cancel);
  const TilesOfHeight tiles(problem, policy, limits, work, groupings);
  CudaTileSpace space;
  for (const std::int64_t m1 : heights(work, policy)) {
    tile.m1 = m1;
    std::ranges::move(tiles.all(tile), std::back_inserter(space.candidates));
  }
  // In the order the header states; the first that lets a candidate in is it.
  if (space.survivors().empty()) {
    relax(space, policy, limits, {CudaRule::balance}) ||
        relax(space, policy, limits, {CudaRule::occupancy}) ||
        relax(space, policy, limits, {CudaRule::balance, CudaRule::occupancy});
  }
  return space;
}

}  // namespace spjit
