#include "plan/proxy_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>

#include "spjit/error.hpp"

namespace spjit {
namespace {

std::size_t at(std::int64_t value) { return static_cast<std::size_t>(value); }

void check(const KernelPlan& plan, const ProxyOptions& options) {
  if (plan.k_blocks != 1) {
    throw InvalidArgument(
        fmt::format("a proxy of a plan with {} blocks of columns; expected 1", plan.k_blocks));
  }
  if (options.active_blocks < 1 || options.clusters_a_block < 1 || !(options.iterations >= 1)) {
    throw InvalidArgument(fmt::format(
        "a proxy for {} active blocks, {} clusters a block and {} iterations; expected 1 or more",
        options.active_blocks, options.clusters_a_block, options.iterations));
  }
}

std::vector<TileCost> tile_costs(const KernelPlan& plan) {
  std::vector<TileCost> costs;
  for (std::int64_t tile = 0; tile < plan.grouping.tiles(); ++tile) {
    const PlanSegment segment = plan.segment(tile, 0);
    costs.push_back(
        {segment.column_end - segment.column_begin,
         plan.entry_ptrs[at(segment.column_end)] - plan.entry_ptrs[at(segment.column_begin)]});
  }
  return costs;
}

/// Columns a tile keeps: 300 / density (the paper's 300 / (1 - sparsity)).
std::int64_t most_columns(const KernelPlan& plan, const ProxyOptions& options) {
  const double elements = static_cast<double>(plan.rows) * static_cast<double>(plan.cols);
  if (!options.reduce_iterations || plan.nnz() == 0) return std::max<std::int64_t>(plan.cols, 1);
  const double columns = options.iterations * elements / static_cast<double>(plan.nnz());
  return static_cast<std::int64_t>(
      std::clamp(columns, 1.0, static_cast<double>(std::max<std::int64_t>(plan.cols, 1))));
}

/// Numbers of entries a column, changed so that they add up to `entries`: the fullest lose what is
/// too much, the emptiest get what is missing. Each stays in 1 .. rows.
void level(std::vector<std::int64_t>& counts, std::int64_t entries, std::int64_t rows) {
  const auto sum_with = [&](auto&& change) {
    std::int64_t sum = 0;
    for (const std::int64_t count : counts) sum += change(count);
    return sum;
  };
  std::int64_t sum = sum_with([](std::int64_t count) { return count; });
  if (sum > entries) {
    std::int64_t cap = rows;
    const auto capped = [&](std::int64_t count) { return std::min(count, cap); };
    while (cap > 1 && sum_with(capped) > entries) --cap;
    sum = sum_with(capped);
    for (std::int64_t& count : counts) {
      const bool more = count > cap && sum < entries;
      count = capped(count) + (more ? 1 : 0);
      sum += more ? 1 : 0;
    }
    return;
  }
  std::int64_t floor = 1;
  const auto raised = [&](std::int64_t count) { return std::max(count, floor); };
  while (floor < rows && sum_with(raised) < entries) ++floor;
  // The floor itself may be too high by a part: then not all of the emptiest reach it.
  if (sum_with(raised) > entries) --floor;
  sum = sum_with(raised);
  for (std::int64_t& count : counts) {
    const bool more = count <= floor && floor < rows && sum < entries;
    count = raised(count) + (more ? 1 : 0);
    sum += more ? 1 : 0;
  }
}

/// Rows of one column: those it has, as many as there shall be, then others from `first` on.
std::vector<std::int32_t> pick_rows(std::span<const std::int32_t> has, std::int64_t count,
                                    std::int64_t rows, std::int64_t first) {
  const auto kept = std::min(std::ssize(has), count);
  std::vector<std::int32_t> picked(has.begin(), has.begin() + kept);
  for (std::int64_t i = 0; i < rows && std::ssize(picked) < count; ++i) {
    const auto row = static_cast<std::int32_t>((first + i) % rows);
    if (std::ranges::find(picked, row) == picked.end()) picked.push_back(row);
  }
  std::ranges::sort(picked);
  return picked;
}

/// Adds tile after tile to a plan.
class ProxyBuilder {
 public:
  ProxyBuilder(const KernelPlan& plan, std::int64_t most_columns)
      : plan_(plan), most_columns_(most_columns) {
    made_.cols = plan.cols;
    made_.grouping.m1 = plan.grouping.m1;
    made_.k_block = plan.k_block;
    made_.k_blocks = 1;
  }

  void add(const TileCluster& cluster, const std::vector<TileCost>& costs) {
    const std::int64_t model = *std::ranges::max_element(
        cluster.tiles, {}, [&](std::int64_t tile) { return costs[at(tile)].loads; });
    const PlanSegment segment = plan_.segment(model, 0);
    const std::int64_t rows = std::ssize(plan_.tile_rows(model));
    const std::int64_t has = segment.column_end - segment.column_begin;
    const auto loads = static_cast<std::int64_t>(std::llround(cluster.loads));
    const std::int64_t columns = std::min({loads, most_columns_, has});

    std::vector<std::int64_t> chosen;  // of the model's columns, evenly spread
    std::vector<std::int64_t> counts;
    for (std::int64_t i = 0; i < columns; ++i) {
      const std::int64_t column = segment.column_begin + i * has / columns;
      chosen.push_back(column);
      counts.push_back(plan_.entry_ptrs[at(column) + 1] - plan_.entry_ptrs[at(column)]);
    }
    const double share = columns < loads ? static_cast<double>(columns) / cluster.loads : 1;
    const auto entries = static_cast<std::int64_t>(std::llround(cluster.fmas * share));
    level(counts, std::clamp(entries, columns, columns * rows), rows);
    add_rows(rows);
    for (std::size_t i = 0; i < chosen.size(); ++i) add_column(chosen[i], counts[i], rows);
    made_.segment_ptrs.push_back(std::ssize(made_.columns));
  }

  [[nodiscard]] KernelPlan take() && { return std::move(made_); }

 private:
  void add_rows(std::int64_t rows) {
    for (std::int64_t row = 0; row < rows; ++row) {
      made_.grouping.rows.push_back(static_cast<std::int32_t>(made_.rows++));
    }
    made_.grouping.tile_ptrs.push_back(made_.rows);
  }

  void add_column(std::int64_t column, std::int64_t count, std::int64_t rows) {
    const std::span<const std::int32_t> has(
        plan_.entry_rows.data() + plan_.entry_ptrs[at(column)],
        at(plan_.entry_ptrs[at(column) + 1] - plan_.entry_ptrs[at(column)]));
    made_.columns.push_back(plan_.columns[at(column)]);
    for (const std::int32_t row : pick_rows(has, count, rows, column)) {
      made_.entry_rows.push_back(row);
      made_.entry_values.push_back(next_value());
    }
    made_.entry_ptrs.push_back(std::ssize(made_.entry_rows));
  }

  /// 1, then the floats after it.
  float next_value() const {
    constexpr std::uint32_t k_one = 0x3F800000;
    constexpr std::uint32_t k_mantissas = std::uint32_t{1} << 23;
    const auto number = static_cast<std::uint32_t>(made_.entry_values.size() % k_mantissas);
    return std::bit_cast<float>(k_one + number);
  }

  const KernelPlan& plan_;
  std::int64_t most_columns_;
  KernelPlan made_;
};

}  // namespace

std::vector<std::int32_t> ProxyPlan::clusters_of_tiles() const {
  std::size_t tiles = 0;
  for (const TileCluster& cluster : clusters) tiles += cluster.tiles.size();
  std::vector<std::int32_t> result(tiles);
  for (std::size_t cluster = 0; cluster < clusters.size(); ++cluster) {
    for (const std::int64_t tile : clusters[cluster].tiles) {
      result[at(tile)] = static_cast<std::int32_t>(cluster);
    }
  }
  return result;
}

ProxyPlan build_proxy(const KernelPlan& plan, const ProxyOptions& options) {
  check(plan, options);
  const std::vector<TileCost> costs = tile_costs(plan);
  const std::int64_t tiles = std::max<std::int64_t>(plan.grouping.tiles(), 1);
  const std::int64_t wanted = options.active_blocks * options.clusters_a_block;
  ProxyPlan proxy;
  proxy.most_columns = most_columns(plan, options);
  if (options.reduce_blocks) {
    proxy.clusters = cluster_tiles(costs, std::min(wanted, tiles));
  } else {
    for (std::int64_t tile = 0; tile < plan.grouping.tiles(); ++tile) {
      const TileCost& cost = costs[at(tile)];
      proxy.clusters.push_back(
          {{tile}, static_cast<double>(cost.loads), static_cast<double>(cost.fmas)});
    }
  }
  ProxyBuilder builder(plan, proxy.most_columns);
  for (const TileCluster& cluster : proxy.clusters) builder.add(cluster, costs);
  proxy.plan = std::move(builder).take();
  return proxy;
}

}  // namespace spjit
