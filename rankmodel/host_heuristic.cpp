#include "rankmodel/host_heuristic.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace spjit {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

double density_of(const HostProblem& problem) {
  return static_cast<double>(problem.nnz) /
         std::max(1.0, static_cast<double>(problem.rows) * static_cast<double>(problem.cols));
}

/// Vectors a panel row. One vector and the tallest tile need the least code and the fewest loads of
/// B. More of them share the load of a weight, which pays where a weight needs a load of its own
/// anyway (AVX2; unless few panels share what it costs to fetch much code), where the doubled code
/// is still small, and where rows are too few to fill the registers; then the widest that pads n
/// least.
std::int64_t panel_vectors(const HostProblem& problem, const HostLimits& limits) {
  if (problem.panel_columns) {
    return std::max<std::int64_t>(*problem.panel_columns / limits.lanes, 1);
  }
  constexpr std::int64_t k_most = 8;
  constexpr std::int64_t k_small_nnz = 7500;  // about 150 KB of code at two vectors
  constexpr std::int64_t k_enough_vectors = 8;
  const std::int64_t rows = std::max<std::int64_t>(problem.rows, 1);
  const std::int64_t vectors = ceil_div(problem.n, limits.lanes);
  constexpr std::int64_t k_much_nnz = 20'000;  // AVX2: 320 KB of code at two vectors
  const bool pairs = limits.isa == HostIsa::avx2
                         ? problem.nnz <= k_much_nnz || vectors > k_enough_vectors
                         : limits.isa == HostIsa::avx512 && limits.fmas_per_cycle == 2 &&
                               problem.nnz <= k_small_nnz && vectors >= k_enough_vectors;
  const std::int64_t by_registers =
      std::max<std::int64_t>((limits.registers - 1) / (rows + 1), pairs ? 2 : 1);
  std::int64_t best = 1;
  for (std::int64_t nv = 2; nv <= std::min({by_registers, vectors, k_most}); ++nv) {
    if (ceil_div(vectors, nv) * nv <= ceil_div(vectors, best) * best) best = nv;
  }
  return best;
}

/// Same number of tiles, rows spread evenly.
std::int64_t tile_rows(std::int64_t nv, const HostProblem& problem, const HostLimits& limits) {
  const std::int64_t most = std::max<std::int64_t>((limits.registers - 1 - nv) / nv, 1);
  const std::int64_t tiles = std::max<std::int64_t>(ceil_div(problem.rows, most), 1);
  return std::max<std::int64_t>(ceil_div(problem.rows, tiles), 1);
}

/// Panels that go through a tile's code per visit, where code cannot stream at the FMAs' rate.
std::int64_t panels_a_visit(const HostProblem& problem, const HostLimits& limits,
                            std::int64_t width) {
  if (limits.fmas_per_cycle == 1) return 1;
  constexpr std::int64_t k_most = 16;
  const std::int64_t panels = ceil_div(problem.n, width);
  const std::int64_t share = ceil_div(panels, std::max<std::int64_t>(problem.threads, 1));
  return std::clamp<std::int64_t>(share, 1, k_most);
}

/// Columns a block, 0 for all: a panel group's B should stay in half of L2 while the tiles pass,
/// but a block must hold enough entries to pay for carrying accumulators over to the next.
std::int64_t block_columns(const HostProblem& problem, const HostLimits& limits,
                           std::int64_t group_columns, double density) {
  const std::int64_t group_bytes = problem.cols * std::min(group_columns, problem.n) * 4;
  if (group_bytes < limits.l2_bytes / 2) return 0;
  constexpr double k_entries_a_row = 32;
  constexpr std::int64_t k_least = 512;
  std::int64_t block = k_least;
  while (static_cast<double>(block) * density < k_entries_a_row && block < problem.cols) block *= 2;
  return block + block / 2 < problem.cols ? block : 0;
}

/// Panels a visit, as many of them as keep their block of B in half of L2.
std::int64_t fitting_group(const HostTile& tile, const HostProblem& problem,
                           const HostLimits& limits) {
  const std::int64_t rows = tile.k_block > 0 ? tile.k_block : problem.cols;
  const std::int64_t panel_bytes = std::max<std::int64_t>(rows * tile.nv * limits.lanes * 4, 1);
  return std::clamp<std::int64_t>(limits.l2_bytes / 2 / panel_bytes, 1, tile.panel_group);
}

/// Packing costs a copy of B. It pays where rows of B lie so far apart that a block of them is out
/// of reach of the first-level TLB (96 pages of 4 KiB on Zen 5, 72 on Zen 4: about 400 KB), and
/// where enough rows of A read the copy: at two rows of B a page (n = 512) always, at eight (n =
/// 128) only for 64 entries a column and more.
bool packs(const HostProblem& problem, const HostLimits& limits, const HostTile& tile) {
  if (problem.panel_columns ||
      !can_read_in_place(tile, limits.lanes, problem.n, problem.ldb, problem.cols)) {
    return true;
  }
  constexpr std::int64_t k_reach_bytes = std::int64_t{400} << 10;
  constexpr std::int64_t k_enough_rows = 256;
  constexpr std::int64_t k_far_bytes = 1024;
  constexpr std::int64_t k_enough_entries = 64;
  const std::int64_t rows = tile.k_block > 0 ? tile.k_block : problem.cols;
  return rows * problem.ldb * 4 > k_reach_bytes && problem.rows >= k_enough_rows &&
         (problem.ldb * 4 >= k_far_bytes || problem.nnz >= k_enough_entries * problem.cols);
}

}  // namespace

HostTile host_tile_by_rules(const HostProblem& problem, const HostLimits& limits) {
  HostTile tile;
  tile.nv = panel_vectors(problem, limits);
  tile.m1 = tile_rows(tile.nv, problem, limits);
  const std::int64_t width = tile.nv * limits.lanes;
  tile.form = tile.nv == 1 ? WeightForm::broadcast : WeightForm::register_;
  tile.panel_group = panels_a_visit(problem, limits, width);

  tile.k_block = block_columns(problem, limits, tile.panel_group * width, density_of(problem));
  tile.panel_group = fitting_group(tile, problem, limits);
  tile.pack_b = packs(problem, limits, tile);
  tile.stream_c = should_stream_c(limits, problem.rows, problem.n);

  const std::int64_t code_bytes = problem.nnz * 8 * tile.nv;
  const std::int64_t tiles = ceil_div(std::max<std::int64_t>(problem.rows, 1), tile.m1);
  if (tile.panel_group == 1 && code_bytes > limits.l2_bytes / 2) {
    tile.row_group = std::clamp<std::int64_t>(tiles * (limits.l2_bytes / 2) / code_bytes, 1, tiles);
  }
  return tile;
}

HostChoice choose_host_tile(const HostProblem& problem, const HostLimits& limits) {
  return {host_tile_by_rules(problem, limits),
          fmt::format("heuristic: {} rows, k = {}, density {:.3f}, n = {}, {} FMAs a cycle",
                      problem.rows, problem.cols, density_of(problem), problem.n,
                      limits.fmas_per_cycle)};
}

}  // namespace spjit
