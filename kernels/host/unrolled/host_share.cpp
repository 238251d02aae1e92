#include "kernels/host/unrolled/host_share.hpp"

#include <algorithm>
#include <string_view>

#include "base/arithmetic.hpp"

namespace spjit {
namespace {

constexpr std::int64_t k_cache_line_floats = 16;
constexpr std::string_view k_workspace = "floats of workspace";

std::int64_t partial_floats(const HostProgram& program, std::int64_t n) {
  if (program.k_blocks == 1) return 0;
  return checked_multiply(
      checked_multiply(row_group_tiles(program), panel_group_size(program, n), k_workspace),
      partial_tile_floats(program), k_workspace);
}

std::int64_t thread_partial_floats(const HostProgram& program, std::int64_t n) {
  return round_up(partial_floats(program, n), k_cache_line_floats);
}

/// Panels of packed B a thread keeps at once: all its own when later row groups read them again,
/// else one group.
std::int64_t kept_panels(const HostProgram& program, const HostSplit& split) {
  const std::int64_t panels = program.b_layout(split.n).panels();
  if (!split.by_panels) return panels;
  const std::int64_t group = panel_group_size(program, split.n);
  const std::int64_t groups = ceil_div(panels, group);
  const std::int64_t own_groups = ceil_div(groups, split.threads);
  const bool once = row_group_tiles(program) >= program.tiles;
  return (once ? std::min<std::int64_t>(own_groups, 1) : own_groups) * group;
}

/// Whether each block of k is packed just before its rows are used, so that it is read where
/// packing left it, in L2: of B nothing else is kept, since no other thread or row group reads it.
bool packs_by_block(const HostProgram& program, const HostSplit& split) {
  return packs_b(program) && program.k_blocks > 1 && split.by_panels &&
         row_group_tiles(program) >= program.tiles;
}

/// What B is packed to: panels of all its rows, or of one block of them.
PanelLayout packed_layout(const HostProgram& program, const HostSplit& split, std::int64_t rows) {
  PanelLayout layout = program.b_layout(split.n);
  layout.rows = packs_by_block(program, split) ? std::min(program.k_block, rows) : rows;
  return layout;
}

/// For a B of so many rows.
std::int64_t pack_floats(const HostProgram& program, const HostSplit& split, std::int64_t rows) {
  if (!packs_b(program)) return 0;
  const std::int64_t floats = checked_multiply(
      kept_panels(program, split), packed_layout(program, split, rows).stride(), k_workspace);
  return round_up(floats, k_cache_line_floats);
}

/// Cuts [0, tiles) into parts of about equal weight; part i is [cut(i), cut(i + 1)).
std::int64_t tile_cut(const HostProgram& program, std::int64_t part, std::int64_t parts) {
  if (part == 0) return 0;
  if (part == parts) return program.tiles;
  const std::int64_t goal = program.tile_weight_ends.back() * part / parts;
  const auto& ends = program.tile_weight_ends;
  return std::upper_bound(ends.begin(), ends.end(), goal) - ends.begin();
}

/// Of workspace for a B of so many rows.
std::int64_t floats_for(const HostProgram& program, const HostSplit& split, std::int64_t rows) {
  const std::int64_t packs = split.by_panels ? split.threads : 1;
  return checked_add(
      checked_multiply(packs, pack_floats(program, split, rows), k_workspace),
      checked_multiply(split.threads, thread_partial_floats(program, split.n), k_workspace),
      k_workspace);
}

}  // namespace

std::int64_t row_group_tiles(const HostProgram& program) {
  return program.row_group > 0 ? std::min(program.row_group, program.tiles) : program.tiles;
}

std::int64_t panel_group_size(const HostProgram& program, std::int64_t n) {
  const std::int64_t panels = std::max<std::int64_t>(program.b_layout(n).panels(), 1);
  const std::int64_t most = std::clamp<std::int64_t>(program.panel_group, 1, panels);
  // Alike, so that threads have as much to do: of 49 panels not 16 three times and 1.
  return ceil_div(panels, ceil_div(panels, most));
}

std::int64_t partial_tile_floats(const HostProgram& program) {
  return program.m1 * program.panel_width();
}

HostSplit choose_split(const HostProgram& program, std::int64_t n, std::int64_t threads) {
  HostSplit split{n, std::max<std::int64_t>(threads, 1), true};
  if (split.threads == 1) return split;
  const std::int64_t groups = ceil_div(program.b_layout(n).panels(), panel_group_size(program, n));
  // The busiest thread's share against the mean; the split by tiles is even but packs together.
  const double imbalance = static_cast<double>(ceil_div(groups, split.threads) * split.threads) /
                           static_cast<double>(std::max<std::int64_t>(groups, 1));
  constexpr double k_tolerated_imbalance = 1.1;
  split.by_panels = imbalance <= k_tolerated_imbalance || program.tiles < split.threads;
  return split;
}

std::int64_t workspace_floats(const HostProgram& program, const HostSplit& split) {
  return floats_for(program, split, program.cols);
}

std::int64_t touched_floats(const HostProgram& program, const HostSplit& split) {
  return floats_for(program, split, program.rows_of_b.count());
}

Share share_of(const HostProgram& program, const HostSplit& split, std::int64_t part,
               float* workspace) {
  const std::int64_t panels = program.b_layout(split.n).panels();
  Share share;
  share.panel_end = panels;
  share.tile_end = program.tiles;
  if (!split.by_panels) {
    share.tile_begin = tile_cut(program, part, split.threads);
    share.tile_end = tile_cut(program, part + 1, split.threads);
  } else if (split.threads > 1) {
    const std::int64_t group = panel_group_size(program, split.n);
    const std::int64_t groups = ceil_div(panels, group);
    share.panel_begin = groups * part / split.threads * group;
    share.panel_end = std::min(groups * (part + 1) / split.threads * group, panels);
  }
  std::int64_t packs_floats = 0;
  // Divisions take as long as a tenth of the shortest runs, which read B in place.
  if (packs_b(program)) {
    const std::int64_t pack_size = pack_floats(program, split, program.cols);
    packs_floats = (split.by_panels ? split.threads : 1) * pack_size;
    share.packed = split.by_panels ? workspace + part * pack_size : workspace;
    share.packed_layout = packed_layout(program, split, program.cols);
    share.packed_panel = share.panel_begin;
    share.packed_panels = std::max<std::int64_t>(kept_panels(program, split), 1);
    share.packing = !split.by_panels                 ? Packing::none
                    : packs_by_block(program, split) ? Packing::by_block
                                                     : Packing::panels;
  }
  share.partial = workspace + packs_floats + part * thread_partial_floats(program, split.n);
  return share;
}

}  // namespace spjit
