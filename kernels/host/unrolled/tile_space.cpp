#include "kernels/host/unrolled/tile_space.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/arithmetic.hpp"
#include "kernels/host/unrolled/host_heuristic.hpp"
#include "kernels/tuning/space_json.hpp"
#include "matrix/cancellable.hpp"
#include "matrix/rows_of_b.hpp"
#include "plan/problem.hpp"

namespace spjit {
namespace {

/// Tile heights worth trying at a panel width of nv vectors: the tallest that fits the registers,
/// or all rows if they are fewer.
std::int64_t tallest(std::int64_t nv, const HostDeviceInfo& limits, std::int64_t rows) {
  const std::int64_t most = (limits.registers - 1 - nv) / nv;
  return std::min(most, std::max<std::int64_t>(rows, 1));
}

/// The height that spreads rows evenly over as many tiles as those of `most` rows: 64 rows at 28
/// are 3 tiles of 22, not 28 + 28 + 8.
std::int64_t even_height(std::int64_t most, std::int64_t rows) {
  const std::int64_t tiles = std::max<std::int64_t>(ceil_div(rows, most), 1);
  return std::max<std::int64_t>(ceil_div(rows, tiles), 1);
}

/// Widths, heights and forms; everything else at its default.
std::vector<HostTile> shapes(const HostDeviceInfo& limits, std::int64_t rows,
                             const std::optional<std::int64_t>& panel_columns) {
  std::vector<HostTile> result;
  for (const std::int64_t nv : {1, 2, 3, 4, 6, 8}) {
    if (panel_columns && *panel_columns != nv * limits.lanes) continue;
    const std::int64_t most = tallest(nv, limits, rows);
    if (most < 1) continue;
    HostTile tile;
    tile.nv = nv;
    tile.m1 = even_height(most, rows);
    tile.form = nv == 1 ? WeightForm::broadcast : WeightForm::register_;
    result.push_back(tile);
    if (rows > most) {
      // The next taller one, to show where the register file ends.
      HostTile taller = tile;
      taller.m1 = most + 1;
      result.push_back(taller);
    }
    if (nv > 1 && limits.isa == HostIsa::avx512) {
      tile.form = WeightForm::balanced;
      result.push_back(tile);
    }
  }
  return result;
}

/// A block costs code and a call in each row tile, entries or not: of a wide matrix most would be
/// empty.
std::vector<std::int64_t> block_choices(const Problem& problem, std::int64_t tiles) {
  constexpr std::int64_t k_few_segments = 4096;
  std::vector<std::int64_t> result = {0};
  for (const std::int64_t block : {256, 512}) {
    const double segments = as_double(ceil_div(problem.a->cols, block)) * as_double(tiles);
    const bool few = segments <= as_double(8 * problem.a->nnz() + k_few_segments);
    if (block < problem.a->cols && few) result.push_back(block);
  }
  return result;
}

std::vector<std::int64_t> group_choices(std::int64_t panels) {
  std::vector<std::int64_t> result;
  for (const std::int64_t group : {1, 4, 8, 16, 32}) {
    if (group <= panels || group == 1) result.push_back(group);
  }
  if (panels > 1 && panels < 32 && std::ranges::find(result, panels) == result.end()) {
    result.push_back(panels);
  }
  return result;
}

/// Row groups only where the code outgrows L2: then a group's code stays there for all panels.
std::vector<std::int64_t> row_group_choices(const HostTile& tile, std::int64_t code_bytes,
                                            std::int64_t tiles, const HostDeviceInfo& limits) {
  std::vector<std::int64_t> result = {0};
  if (tile.panel_group == 1 && code_bytes > limits.l2_bytes / 2 && tiles > 1) {
    const std::int64_t share = limits.l2_bytes / 2;
    result.push_back(std::clamp<std::int64_t>(tiles * share / code_bytes, 1, tiles));
  }
  return result;
}

/// The loop orders of a shape: blocks of k, panel groups, row groups, B packed or in place.
std::vector<HostTile> loop_orders(const TileCandidate& shape, const Problem& problem,
                                  const HostDeviceInfo& limits) {
  HostTile tile = shape.tile;
  const bool copies_b = spjit::copies_b(problem);
  const bool in_place = !problem.panel_columns && !copies_b &&
                        can_read_in_place(tile, limits.lanes, problem.n.value, problem.ldb());
  const bool may_pack =
      problem.panel_columns || !is_mostly_unread(problem.a->cols, problem.a->nnz());
  std::vector<HostTile> result;
  for (const std::int64_t block : block_choices(problem, shape.grouping.tiles)) {
    for (const std::int64_t panel_group : group_choices(shape.panels)) {
      tile.k_block = block;
      tile.panel_group = panel_group;
      for (const std::int64_t row_group :
           row_group_choices(tile, shape.code_bytes, shape.grouping.tiles, limits)) {
        tile.row_group = row_group;
        tile.pack_b = true;
        if (may_pack) result.push_back(tile);
        tile.pack_b = false;
        if (in_place) result.push_back(tile);
      }
    }
  }
  return result;
}

/// What does not depend on how rows are grouped.
TileCandidate describe_columns(const HostTile& tile, const Problem& problem,
                               const HostDeviceInfo& limits) {
  TileCandidate candidate;
  candidate.tile = tile;
  const std::int64_t width = tile.nv * limits.lanes;
  candidate.panels = ceil_div(problem.n.value, width);
  candidate.column_padding = static_cast<double>(candidate.panels * width - problem.n.value) /
                             static_cast<double>(problem.n.value);
  candidate.registers = registers_needed(tile);
  return candidate;
}

double thread_utilisation(const HostTile& tile, std::int64_t panels, std::int64_t threads,
                          const GroupingStatistics& grouping) {
  if (threads <= 1) return 1;
  const std::int64_t groups = ceil_div(panels, std::min(tile.panel_group, panels));
  const double by_panels =
      static_cast<double>(groups) / static_cast<double>(ceil_div(groups, threads) * threads);
  // Cut between tiles, the busiest thread has up to one largest tile more than its share.
  const double mean = static_cast<double>(grouping.tiles) / static_cast<double>(threads);
  const double by_tiles = mean / std::max(std::ceil(mean), 1.0);
  return std::max(by_panels, by_tiles);
}

std::optional<DroppedCandidate> broken_rule(const TileCandidate& candidate, const Problem& problem,
                                            const CompileOptions& options,
                                            const HostDeviceInfo& limits) {
  if (candidate.registers > limits.registers) {
    return DroppedCandidate{TileRule::registers,
                            fmt::format("needs {} vector registers, {} has {}", candidate.registers,
                                        to_string(limits.isa), limits.registers)};
  }
  if (candidate.code_bytes > options.policy.code_budget_bytes) {
    return DroppedCandidate{TileRule::code_budget,
                            fmt::format("about {} bytes of code, the budget is {}",
                                        candidate.code_bytes, options.policy.code_budget_bytes)};
  }
  if (candidate.utilisation < k_min_utilisation) {
    return DroppedCandidate{
        TileRule::utilisation,
        fmt::format("{} panels and {} tiles keep {} threads {:.2f} busy, "
                    "expected {:.2f}",
                    candidate.panels, candidate.grouping.tiles, options.resources.threads,
                    candidate.utilisation, k_min_utilisation)};
  }
  if (candidate.column_padding > k_max_padding) {
    return DroppedCandidate{TileRule::balance,
                            fmt::format("{} panels of {} columns pad n = {} by {:.2f}, at most "
                                        "{:.2f}",
                                        candidate.panels, candidate.tile.nv * limits.lanes,
                                        problem.n.value, candidate.column_padding, k_max_padding)};
  }
  return std::nullopt;
}

/// Lets candidates back in that only broke `rule`; true if any was.
bool relax(TileSpace& space, TileRule rule) {
  bool any = false;
  for (TileCandidate& candidate : space.candidates) {
    if (candidate.dropped && candidate.dropped->rule == rule) {
      candidate.dropped.reset();
      any = true;
    }
  }
  if (any) space.relaxed.push_back(rule);
  return any;
}

}  // namespace

std::string_view to_string(TileRule rule) {
  switch (rule) {
    case TileRule::registers:
      return "registers";
    case TileRule::code_budget:
      return "code_budget";
    case TileRule::utilisation:
      return "utilisation";
    case TileRule::balance:
      return "balance";
  }
  return "?";
}

std::int64_t estimate_code_bytes(const HostTile& tile, HostIsa isa, std::int64_t nnz,
                                 std::int64_t nnc_sum, std::int64_t segments) {
  const bool zmm = isa == HostIsa::avx512;
  // Bytes: register FMA 6 (EVEX) or 5 (VEX); with a memory operand one or two more.
  const std::int64_t fma = zmm ? 6 : 5;
  const std::int64_t memory = zmm ? 7 : 8;
  const bool embedded = zmm && tile.form != WeightForm::register_;
  const std::int64_t entry = embedded && tile.nv == 1 ? memory : memory + tile.nv * fma;
  constexpr std::int64_t k_frame_bytes = 28;  // a row's zeroing, address and two stores
  return nnz * entry + nnc_sum * tile.nv * memory +
         segments * (64 + tile.m1 * (10 + tile.nv * k_frame_bytes));
}

TileCandidate examine_host_tile(const Problem& problem, const HostTile& tile,
                                const CompileOptions& options, const HostDeviceInfo& limits,
                                const GroupingStatistics& grouping) {
  TileCandidate candidate = describe_columns(tile, problem, limits);
  candidate.grouping = grouping;
  const std::int64_t blocks =
      tile.k_block > 0 ? std::max<std::int64_t>(ceil_div(problem.a->cols, tile.k_block), 1) : 1;
  candidate.code_bytes =
      estimate_code_bytes(tile, limits.isa, problem.a->nnz(), candidate.grouping.nnc_sum,
                          candidate.grouping.tiles * blocks);
  candidate.utilisation =
      thread_utilisation(tile, candidate.panels, options.resources.threads, candidate.grouping);
  candidate.dropped = broken_rule(candidate, problem, options, limits);
  return candidate;
}

TileSpace enumerate_host_tiles(const Problem& problem, const CompileOptions& options,
                               const HostDeviceInfo& limits, const DescribeGrouping& describe,
                               const Cancellation& cancel) {
  TileSpace space;
  const Workload work = workload_of(problem, options.resources.threads, cancel);
  for (HostTile shape : shapes(limits, non_empty_rows(*problem.a, cancel), problem.panel_columns)) {
    shape.stream_c = !work.finishes_c &&
                     should_stream_c(limits, problem.a->rows, problem.a->cols, problem.n.value);
    shape.read_ahead = !options.policy.hot;
    if (registers_needed(shape) > limits.registers) {
      // Not worth grouping the rows for, which takes longest here.
      TileCandidate unfit = describe_columns(shape, problem, limits);
      unfit.dropped = broken_rule(unfit, problem, options, limits);
      space.candidates.push_back(std::move(unfit));
      continue;
    }
    const TileCandidate first =
        examine_host_tile(problem, shape, options, limits, describe(shape.m1));
    for (HostTile tile : loop_orders(first, problem, limits)) {
      tile.join_bytes = joined_code_bytes(work, limits, tile);
      TileCandidate candidate = first;
      candidate.tile = tile;
      candidate.utilisation =
          thread_utilisation(tile, first.panels, options.resources.threads, first.grouping);
      candidate.dropped = broken_rule(candidate, problem, options, limits);
      space.candidates.push_back(std::move(candidate));
    }
  }
  for (const TileRule rule : {TileRule::balance, TileRule::utilisation}) {
    if (!space.survivors().empty()) break;
    relax(space, rule);
  }
  return space;
}

using nlohmann::json;

json to_json(const HostTile& tile) {
  return {{"name", to_string(tile)},
          {"m1", tile.m1},
          {"nv", tile.nv},
          {"k_block", tile.k_block},
          {"panel_group", tile.panel_group},
          {"row_group", tile.row_group},
          {"pack_b", tile.pack_b},
          {"memory_rows", tile.memory_rows},
          {"stream_c", tile.stream_c},
          {"read_ahead", tile.read_ahead},
          {"join_bytes", tile.join_bytes}};
}

json to_json(const TileSpace& space) {
  return space_json(space, [](const TileCandidate& candidate) -> json {
    return {{"tile", to_json(candidate.tile)},
            {"registers", candidate.registers},
            {"panels", candidate.panels},
            {"code_bytes", candidate.code_bytes},
            {"utilisation", candidate.utilisation},
            {"column_padding", candidate.column_padding},
            {"fmas_per_load", candidate.grouping.fmas_per_load}};
  });
}

}  // namespace spjit
