#include "rankmodel/host_heuristic.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace spjit {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Panels wider than one vector only help while rows are too few to fill the registers; then the
/// widest that pads n least.
std::int64_t panel_vectors(const HostProblem& problem, const HostLimits& limits) {
  if (problem.panel_columns) {
    return std::max<std::int64_t>(*problem.panel_columns / limits.lanes, 1);
  }
  constexpr std::int64_t k_most = 8;
  const std::int64_t rows = std::max<std::int64_t>(problem.rows, 1);
  const std::int64_t by_registers = (limits.registers - 1) / (rows + 1);
  const std::int64_t vectors = ceil_div(problem.n, limits.lanes);
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

}  // namespace

HostChoice choose_host_tile(const HostProblem& problem, const HostLimits& limits) {
  HostTile tile;
  tile.nv = panel_vectors(problem, limits);
  tile.m1 = tile_rows(tile.nv, problem, limits);
  const std::int64_t width = tile.nv * limits.lanes;
  const double density =
      static_cast<double>(problem.nnz) /
      std::max(1.0, static_cast<double>(problem.rows) * static_cast<double>(problem.cols));
  tile.form = tile.nv == 1 ? WeightForm::broadcast : WeightForm::register_;
  tile.panel_group = panels_a_visit(problem, limits, width);

  constexpr std::int64_t k_unblocked_cols = 768;
  constexpr std::int64_t k_block_columns = 512;
  if (problem.cols > k_unblocked_cols) tile.k_block = k_block_columns;

  // Packing costs a copy of B and saves conflict misses between rows a power of two apart.
  constexpr std::int64_t k_small_b_bytes = 400 * 1024;
  const bool small_b = problem.cols * problem.n * 4 <= k_small_b_bytes;
  const bool dense = density > 0.25 && problem.cols <= k_unblocked_cols;
  tile.pack_b = problem.panel_columns.has_value() || !(small_b || dense) ||
                !can_read_in_place(tile, limits.lanes, problem.n, problem.ldb, problem.cols) ||
                problem.n % width != 0;

  const std::int64_t code_bytes = problem.nnz * 8 * tile.nv;
  const std::int64_t tiles = ceil_div(std::max<std::int64_t>(problem.rows, 1), tile.m1);
  if (tile.panel_group == 1 && code_bytes > limits.l2_bytes / 2) {
    tile.row_group = std::clamp<std::int64_t>(tiles * (limits.l2_bytes / 2) / code_bytes, 1, tiles);
  }
  return {tile, fmt::format("heuristic: {} rows, k = {}, density {:.3f}, n = {}, {} FMAs a cycle",
                            problem.rows, problem.cols, density, problem.n, limits.fmas_per_cycle)};
}

}  // namespace spjit
