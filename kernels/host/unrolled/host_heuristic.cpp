#include "kernels/host/unrolled/host_heuristic.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/arithmetic.hpp"
#include "kernels/host/object/csr_view.hpp"

namespace spjit {
namespace {

constexpr std::int64_t k_code_bytes = 8;  // a nonzero and vector
/// Rows this far apart, or a multiple of it, share few sets of the caches.
constexpr std::int64_t k_sharing_bytes = 1024;

std::int64_t ldb_of(const Workload& problem) { return problem.ldb > 0 ? problem.ldb : problem.n; }

double density_of(const Workload& problem) {
  return static_cast<double>(problem.nnz) /
         std::max(1.0, static_cast<double>(problem.rows) * static_cast<double>(problem.cols));
}

/// Whether the same columns of `rows` rows of B do not fit the sets of L2 that they share.
bool rows_collide(const Workload& problem, const HostDeviceInfo& limits, std::int64_t rows) {
  return rows * row_alignment_bytes(ldb_of(problem)) > limits.l2_bytes / 2;
}

/// Whether B is best read in place, one panel after another, outermost: its rows are pages apart,
/// so that every visit of several panels waits for lines of B, and the next panel's lines come
/// along while all row tiles go through this one's.
bool panels_outermost(const Workload& problem, const HostDeviceInfo& limits) {
  constexpr std::int64_t k_far_bytes = std::int64_t{12} << 10;
  constexpr std::int64_t k_enough_columns = 128;
  constexpr double k_enough_entries = 5;
  return limits.isa == HostIsa::avx512 && !problem.panel_columns &&
         ldb_of(problem) * 4 >= k_far_bytes && problem.cols >= k_enough_columns &&
         entries_a_column(problem.nnz, problem.cols) >= k_enough_entries &&
         problem.nnz * k_code_bytes <= limits.l2_bytes / 2 &&
         !rows_collide(problem, limits, problem.cols);
}

/// Vectors a panel row. One vector and the tallest tile need the least code and the fewest loads of
/// B. More of them share the load of a weight, which pays where a weight needs a load of its own
/// anyway (AVX2; unless few panels share what it costs to fetch much code), where the doubled code
/// is still small, and where rows are too few to fill the registers; then the widest that pads n
/// least, where code is small up to a 32nd.
std::int64_t panel_vectors(const Workload& problem, const HostDeviceInfo& limits) {
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
                               problem.nnz <= k_small_nnz && vectors >= k_enough_vectors &&
                               !panels_outermost(problem, limits);
  constexpr std::int64_t k_padded_nnz = 6000;
  const std::int64_t padding = problem.nnz <= k_padded_nnz ? vectors / 32 : 0;
  const std::int64_t by_registers =
      std::max<std::int64_t>((limits.registers - 1) / (rows + 1), pairs ? 2 : 1);
  std::int64_t best = 1;
  for (std::int64_t nv = 2; nv <= std::min({by_registers, vectors, k_most}); ++nv) {
    if (ceil_div(vectors, nv) * nv <= ceil_div(vectors, best) * best + padding) best = nv;
  }
  return best;
}

/// Same number of tiles, rows spread evenly.
std::int64_t tile_rows(std::int64_t nv, const Workload& problem, const HostDeviceInfo& limits) {
  const std::int64_t most = std::max<std::int64_t>((limits.registers - 1 - nv) / nv, 1);
  const std::int64_t tiles = std::max<std::int64_t>(ceil_div(problem.rows, most), 1);
  return std::max<std::int64_t>(ceil_div(problem.rows, tiles), 1);
}

/// Panels that go through a tile's code per visit, where code cannot stream at the FMAs' rate.
/// Threads share row tiles where these are many, for then each fetches its own part of the code;
/// else panels.
std::int64_t panels_a_visit(const Workload& problem, const HostDeviceInfo& limits,
                            const HostTile& tile) {
  if (limits.fmas_per_cycle == 1 || panels_outermost(problem, limits)) return 1;
  constexpr std::int64_t k_most = 16;
  constexpr std::int64_t k_many_tiles = 8;  // a thread
  const std::int64_t threads = std::max<std::int64_t>(problem.threads, 1);
  const std::int64_t panels = ceil_div(problem.n, tile.nv * limits.lanes);
  const bool shares_rows = ceil_div(problem.rows, tile.m1) >= k_many_tiles * threads;
  return std::clamp<std::int64_t>(shares_rows ? panels : ceil_div(panels, threads), 1, k_most);
}

/// Columns a block, 0 for all: a panel group's B should stay in half of L2 while the tiles pass,
/// but a block must hold enough entries to pay for carrying accumulators over to the next. Fewer
/// are enough where B is packed block by block, which has been in L2 by then.
std::int64_t block_columns(const Workload& problem, const HostDeviceInfo& limits,
                           std::int64_t group_columns, bool copies) {
  const std::int64_t group_bytes = problem.cols * std::min(group_columns, problem.n) * 4;
  if (group_bytes < limits.l2_bytes / 2) return 0;
  constexpr double k_entries_a_row = 32;
  constexpr double k_packed_entries_a_row = 16;
  constexpr std::int64_t k_least = 512;
  const bool has_many = problem.cols >= 4 * k_least;
  const double enough = copies && has_many ? k_packed_entries_a_row : k_entries_a_row;
  const double density = density_of(problem);
  std::int64_t block = k_least;
  while (static_cast<double>(block) * density < enough && block < problem.cols) block *= 2;
  return block + block / 2 < problem.cols ? block : 0;
}

/// Panels a visit, as many of them as keep their block of B in half of L2.
std::int64_t fitting_group(const HostTile& tile, const Workload& problem,
                           const HostDeviceInfo& limits) {
  const std::int64_t rows = tile.k_block > 0 ? tile.k_block : problem.cols;
  const std::int64_t panel_bytes = std::max<std::int64_t>(rows * tile.nv * limits.lanes * 4, 1);
  return std::clamp<std::int64_t>(limits.l2_bytes / 2 / panel_bytes, 1, tile.panel_group);
}

/// The tile with the blocks of k that suit B packed or in place, and as many panels as fit.
HostTile in_blocks(HostTile tile, const Workload& problem, const HostDeviceInfo& limits,
                   bool packs) {
  const std::int64_t width = tile.nv * limits.lanes;
  const bool copies = packs && !problem.panel_columns;
  tile.k_block = block_columns(problem, limits, tile.panel_group * width, copies);
  tile.panel_group = fitting_group(tile, problem, limits);
  tile.pack_b = packs;
  return tile;
}

/// Whether rows of B are read often enough to pay for a copy that lies close together: the farther
/// apart they are, the sooner, if their distance makes them share few sets of the caches.
bool packs_for_reach(const Workload& problem, const HostTile& tile) {
  constexpr std::int64_t k_reach_bytes = std::int64_t{400} << 10;  // of the first-level TLB
  struct Enough {
    std::int64_t row_bytes;
    std::int64_t rows;  ///< of A
    double entries;     ///< a column of A
  };
  constexpr Enough k_enough[] = {{4096, 64, 6}, {2048, 256, 8}, {1024, 256, 16}, {0, 256, 64}};
  constexpr double k_always_enough = 64;
  const std::int64_t row_bytes = ldb_of(problem) * 4;
  const double entries = entries_a_column(problem.nnz, problem.cols);
  const auto* enough = std::ranges::find_if(
      k_enough, [&](const Enough& least) { return row_bytes >= least.row_bytes; });
  const std::int64_t block_rows = tile.k_block > 0 ? tile.k_block : problem.cols;
  return block_rows * row_bytes > k_reach_bytes && problem.rows >= enough->rows &&
         entries >= enough->entries &&
         (row_alignment_bytes(ldb_of(problem)) >= k_sharing_bytes || entries >= k_always_enough);
}

/// Whether so many rows of B are read that share so few sets of L2 that in place they come from L3
/// again and again.
bool packs_for_sets(const Workload& problem, const HostDeviceInfo& limits) {
  constexpr double k_least_entries = 5;
  constexpr double k_least_share = 2;  // of L2 that rows take with the sets that they leave unused
  constexpr double k_enough = 11;      // entries x share
  const std::int64_t rows = problem.used_cols > 0 ? problem.used_cols : problem.cols;
  const std::int64_t alignment = row_alignment_bytes(ldb_of(problem));
  const double entries = entries_a_column(problem.nnz, problem.cols);
  const double share = as_double(rows) * as_double(alignment) / as_double(limits.l2_bytes);
  return alignment >= k_sharing_bytes && share >= k_least_share && entries >= k_least_entries &&
         entries * share >= k_enough;
}

/// Whether loads of B in place straddle cache lines, and are many enough to pay for a copy.
bool packs_for_lines(const Workload& problem) {
  constexpr std::int64_t k_line_bytes = 64;
  constexpr std::int64_t k_few_columns = 64;
  constexpr std::int64_t k_many_columns = 256;
  const double entries = entries_a_column(problem.nnz, problem.cols);
  return row_alignment_bytes(ldb_of(problem)) < k_line_bytes &&
         ((problem.n >= k_few_columns && entries >= 64) ||
          (problem.n >= k_many_columns && entries >= 32));
}

/// Packing costs a copy of B. The thresholds are from the samples in rankmodel/data
/// (docs/results/host.md).
bool packs(const Workload& problem, const HostDeviceInfo& limits, const HostTile& tile) {
  if (problem.panel_columns || problem.copies_b ||
      !can_read_in_place(tile, limits.lanes, problem.n, ldb_of(problem))) {
    return true;
  }
  return !panels_outermost(problem, limits) &&
         (packs_for_reach(problem, tile) || packs_for_sets(problem, limits) ||
          packs_for_lines(problem));
}

}  // namespace

// Most of L1i where a tile's code is short. Not where rows of C of several tiles are too many for
// the sets of L1 or the pages of the TLB that they share, or are streamed past the caches, nor
// where row tiles are counted: in groups of them, or by threads that share them.
std::int64_t joined_code_bytes(const Workload& problem, const HostDeviceInfo& limits,
                               const HostTile& tile) {
  constexpr std::int64_t k_short = 25;  // entries x vectors of a tile, a lane
  constexpr std::int64_t k_short_of_panels = 45;
  constexpr std::int64_t k_page_bytes = 4096;
  const std::int64_t rows = std::max<std::int64_t>(problem.rows, 1);
  const std::int64_t entries = problem.nnz * tile.nv / ceil_div(rows, tile.m1) / limits.lanes;
  const std::int64_t ldc = problem.ldc > 0 ? problem.ldc : problem.n;
  const bool pays = problem.panel_columns ? entries <= k_short_of_panels
                                          : entries <= k_short && ldc * 4 < k_page_bytes &&
                                                row_alignment_bytes(ldc) < k_sharing_bytes;
  const bool joins = pays && !tile.stream_c && tile.row_group == 0 &&
                     limits.isa != HostIsa::generic && problem.threads <= 1;
  return joins ? limits.l1i_bytes / 8 * 7 : 0;
}

HostTile host_tile_by_rules(const Workload& problem, const HostDeviceInfo& limits) {
  HostTile tile;
  tile.nv = panel_vectors(problem, limits);
  tile.m1 = tile_rows(tile.nv, problem, limits);
  tile.form = tile.nv == 1 ? WeightForm::broadcast : WeightForm::register_;
  tile.panel_group = panels_a_visit(problem, limits, tile);
  const HostTile in_place = in_blocks(tile, problem, limits, false);
  tile = packs(problem, limits, in_place) ? in_blocks(tile, problem, limits, true) : in_place;
  tile.stream_c =
      !problem.finishes_c && should_stream_c(limits, problem.rows, problem.cols, problem.n);

  const std::int64_t code_bytes = problem.nnz * k_code_bytes * tile.nv;
  const std::int64_t tiles = ceil_div(std::max<std::int64_t>(problem.rows, 1), tile.m1);
  const bool has_panels = problem.n > tile.nv * limits.lanes;
  if (tile.panel_group == 1 && has_panels && code_bytes > limits.l2_bytes / 2) {
    tile.row_group = std::clamp<std::int64_t>(tiles * (limits.l2_bytes / 2) / code_bytes, 1, tiles);
  }
  tile.join_bytes = joined_code_bytes(problem, limits, tile);
  return tile;
}

HostChoice choose_host_tile(const Workload& problem, const HostDeviceInfo& limits) {
  return {host_tile_by_rules(problem, limits),
          fmt::format("heuristic: {} rows, k = {}, density {:.3f}, n = {}, {} FMAs a cycle",
                      problem.rows, problem.cols, density_of(problem), problem.n,
                      limits.fmas_per_cycle)};
}

}  // namespace spjit
