#include "kernels/host/unrolled/host_features.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/arithmetic.hpp"

namespace spjit {
namespace {

constexpr std::array k_features = {
    Feature{"rows", "log2 rows", "non-empty rows of A"},
    Feature{"cols", "log2 rows of B", "k"},
    Feature{"n", "log2 columns", "columns of B and C"},
    Feature{"density", "log2", "nnz / (non-empty rows x k)"},
    Feature{"row_nnz_cv", "1", "coefficient of variation of nnz over all rows"},
    Feature{"threads", "1", "threads a run uses"},
    Feature{"m1", "rows", "rows of a tile"},
    Feature{"nv", "vectors", "vectors a row of a panel"},
    Feature{"lanes", "floats", "of a vector register"},
    Feature{"form", "0, 1, 2", "weights broadcast from memory, from registers, balanced"},
    Feature{"accumulators", "1", "m1 x nv / vector registers"},
    Feature{"row_tiles", "log2", "row tiles"},
    Feature{"panels", "log2", "column tiles"},
    Feature{"blocks", "log2", "row tiles x column tiles"},
    Feature{"column_padding", "1", "padded columns / n"},
    Feature{"utilisation", "1", "mean over busiest thread's work"},
    Feature{"nnc_sum", "log2", "non-empty columns of the row tiles, summed"},
    Feature{"nnc_share", "1", "mean non-empty columns of a row tile / k"},
    Feature{"fmas_per_load", "1", "nnz / nnc_sum: FMAs that one loaded row of B serves"},
    Feature{"loads_per_fma", "1", "vector loads of B and of weights / vector FMAs"},
    Feature{"k_block", "log2 columns", "columns of a block of k"},
    Feature{"k_blocks", "1", "blocks of k"},
    Feature{"pack_b", "0, 1", "whether B is copied into panels"},
    Feature{"panel_group", "log2 panels", "panels that share a visit to a tile's code"},
    Feature{"row_group", "1", "row tiles of a group / all of them"},
    Feature{"visits", "log2", "visits to a tile's code"},
    Feature{"stream_c", "0, 1", "whether stores of C bypass the caches"},
    Feature{"code_over_l1i", "log2", "bytes of a row tile's code / L1I"},
    Feature{"code_over_l2", "log2", "bytes of code and weights / L2"},
    Feature{"code_per_fma", "log2 bytes", "bytes of code visited / vector FMAs"},
    Feature{"b_over_l1d", "log2", "bytes of a panel group's block of B / L1D"},
    Feature{"b_over_l2", "log2", "the same / L2"},
    Feature{"operands_over_l2", "log2", "bytes of all of B and C / L2"},
    Feature{"row_of_b", "log2 bytes", "bytes between rows of B in place"},
    Feature{"row_alignment", "log2 bytes",
            "largest power of two, at most 64 KiB, that divides the bytes between rows of B"},
    Feature{"spread_over_l2", "log2",
            "rows of a block x row_alignment, or bytes of a panel group's if those are more / L2"},
    Feature{"column_entries", "log2", "nnz / k: entries that read a row of B"},
    Feature{"prior_arithmetic", "ns", "estimate_host_cost() of FMAs and loads a thousand products"},
    Feature{"prior_code", "ns", "of fetching code, a thousand products"},
    Feature{"prior_memory", "ns", "of moving B and C, a thousand products"},
    Feature{"prior", "ns", "of all, a thousand products"},
    Feature{"m1_by_rules", "log2", "m1 / that of the rules of instant mode"},
    Feature{"nv_by_rules", "log2", "nv / that of the rules"},
    Feature{"k_block_by_rules", "log2", "columns of a block / those of the rules"},
    Feature{"panel_group_by_rules", "log2", "panels of a group / those of the rules"},
    Feature{"pack_b_by_rules", "0, 1", "whether B is copied just where the rules say so"},
    Feature{"rules", "0, 1", "whether it is the tile of the rules"},
};

float log2_of(double value) { return static_cast<float>(std::log2(std::max(value, 1e-6))); }
float ratio(double value, double of) { return static_cast<float>(value / std::max(of, 1e-6)); }
/// Counts that several features share.
struct Counts {
  double rows, cols, nnz, n;
  double nnc;      ///< summed over row tiles
  double tiles;    ///< row tiles
  double panels;   ///< column tiles
  double k_block;  ///< columns
  double k_blocks;
  double group;   ///< panels of a group
  double visits;  ///< to a tile's code
  double vector_fmas;
};

Counts count(const TileCandidate& candidate, const Workload& work) {
  const HostTile& tile = candidate.tile;
  const std::int64_t cols = std::max<std::int64_t>(work.cols, 1);
  const std::int64_t panels = std::max<std::int64_t>(candidate.panels, 1);
  const std::int64_t k_block = tile.k_block > 0 ? std::min(tile.k_block, cols) : cols;
  const std::int64_t group = std::clamp<std::int64_t>(tile.panel_group, 1, panels);
  Counts counts{};
  counts.rows = as_double(work.rows);
  counts.cols = as_double(cols);
  counts.nnz = as_double(work.nnz);
  counts.n = as_double(work.n);
  counts.nnc = as_double(candidate.grouping.nnc_sum);
  counts.tiles = as_double(std::max<std::int64_t>(candidate.grouping.tiles, 1));
  counts.panels = as_double(panels);
  counts.k_block = as_double(k_block);
  counts.k_blocks = as_double(ceil_div(cols, k_block));
  counts.group = as_double(group);
  counts.visits = tile.row_group > 0 ? 1 : as_double(ceil_div(panels, group));
  counts.vector_fmas = std::max(1.0, counts.nnz * counts.panels * as_double(tile.nv));
  return counts;
}

/// Appends to a row.
class Row {
 public:
  Row() { values_.reserve(k_features.size()); }
  void add(double value) { values_.push_back(static_cast<float>(value)); }
  void add_log2(double value) { values_.push_back(log2_of(value)); }
  void add_ratio(double value, double of) { values_.push_back(ratio(value, of)); }
  void add_log2_ratio(double value, double of) { add_log2(value / std::max(of, 1.0)); }
  [[nodiscard]] std::vector<float> take() { return std::move(values_); }

 private:
  std::vector<float> values_;
};

void add_matrix(Row& row, const Counts& counts, const Workload& work) {
  row.add_log2(counts.rows);
  row.add_log2(counts.cols);
  row.add_log2(counts.n);
  row.add_log2_ratio(counts.nnz, counts.rows * counts.cols);
  row.add(work.row_nnz_cv);
  row.add(as_double(work.threads));
}

void add_shape(Row& row, const TileCandidate& candidate, const Counts& counts,
               const HostDeviceInfo& limits) {
  const HostTile& tile = candidate.tile;
  row.add(as_double(tile.m1));
  row.add(as_double(tile.nv));
  row.add(as_double(limits.lanes));
  row.add(static_cast<double>(tile.form));
  row.add_ratio(as_double(tile.m1 * tile.nv), as_double(limits.registers));
  row.add_log2(counts.tiles);
  row.add_log2(counts.panels);
  row.add_log2(counts.tiles * counts.panels);
  row.add(candidate.column_padding);
  row.add(candidate.utilisation);
  row.add_log2(counts.nnc);
  row.add_ratio(counts.nnc, counts.tiles * counts.cols);
  row.add_ratio(counts.nnz, std::max(counts.nnc, 1.0));
  const double nv = as_double(tile.nv);
  const double weights = tile.form == WeightForm::register_  ? counts.nnz
                         : tile.form == WeightForm::balanced ? counts.nnz * std::max(1.0, nv / 2)
                                                             : counts.nnz * nv;
  row.add_ratio(weights + counts.nnc * nv, std::max(counts.nnz * nv, 1.0));
}

void add_loop_order(Row& row, const TileCandidate& candidate, const Counts& counts) {
  const HostTile& tile = candidate.tile;
  row.add_log2(counts.k_block);
  row.add(counts.k_blocks);
  row.add(tile.pack_b ? 1 : 0);
  row.add_log2(counts.group);
  row.add(tile.row_group > 0 ? std::min(1.0, as_double(tile.row_group) / counts.tiles) : 1);
  row.add_log2(counts.visits);
  row.add(tile.stream_c ? 1 : 0);
}

void add_footprints(Row& row, const TileCandidate& candidate, const Counts& counts,
                    const HostDeviceInfo& limits) {
  const double code = as_double(candidate.code_bytes);
  const double l2 = as_double(limits.l2_bytes);
  const double panel_bytes = as_double(candidate.tile.nv * limits.lanes) * 4;
  const double group_bytes = counts.k_block * panel_bytes * counts.group;
  row.add_log2_ratio(code / (counts.tiles * counts.k_blocks), as_double(limits.l1i_bytes));
  row.add_log2_ratio(code + 4 * counts.nnz, l2);
  row.add_log2(counts.visits * code / counts.vector_fmas);
  row.add_log2_ratio(group_bytes, as_double(limits.l1d_bytes));
  row.add_log2_ratio(group_bytes, l2);
  row.add_log2_ratio((counts.rows + counts.cols) * counts.n * 4, l2);
  row.add(candidate.tile.pack_b ? 0 : log2_of(counts.n * 4));
  const double alignment = as_double(row_alignment_bytes(static_cast<std::int64_t>(counts.n)));
  row.add_log2(alignment);
  row.add_log2_ratio(std::max(group_bytes, candidate.tile.pack_b ? 0 : counts.k_block * alignment),
                     l2);
  row.add_log2(counts.nnz / counts.cols);
}

void add_prior(Row& row, const TileCandidate& candidate, const Workload& work,
               const HostDeviceInfo& limits) {
  const HostCost cost = estimate_host_cost(candidate, work, limits);
  const double thousands = std::max(1.0, as_double(work.nnz) * as_double(work.n)) / 1e3;
  row.add(cost.arithmetic_us * 1e3 / thousands);
  row.add(cost.code_us * 1e3 / thousands);
  row.add(cost.memory_us * 1e3 / thousands);
  row.add(cost.total_us() * 1e3 / thousands);
}

/// Where the tile differs from what instant mode takes: rules that were made for the CPU are a good
/// place to start from, and what they get wrong is easier to learn than all they know.
void add_rules(Row& row, const TileCandidate& candidate, const Counts& counts, const Workload& work,
               const HostDeviceInfo& limits) {
  const HostTile& tile = candidate.tile;
  const HostTile rules = host_tile_by_rules(contiguous(work), limits);
  const double block =
      rules.k_block > 0 ? std::min(as_double(rules.k_block), counts.cols) : counts.cols;
  const double panels = std::ceil(counts.n / as_double(rules.nv * limits.lanes));
  row.add_log2(as_double(tile.m1) / as_double(rules.m1));
  row.add_log2(as_double(tile.nv) / as_double(rules.nv));
  row.add_log2(counts.k_block / block);
  row.add_log2(counts.group / std::clamp(as_double(rules.panel_group), 1.0, std::max(panels, 1.0)));
  row.add(tile.pack_b == rules.pack_b ? 1 : 0);
  row.add(tile == rules ? 1 : 0);
}

}  // namespace

Workload contiguous(Workload work) {
  work.ldb = work.n;
  work.panel_columns.reset();
  return work;
}

const FeatureSchema& host_feature_schema() {
  static constexpr FeatureSchema k_schema{"host", 3, k_features};
  return k_schema;
}

std::vector<float> host_feature_row(const TileCandidate& candidate, const Workload& work,
                                    const HostDeviceInfo& limits) {
  const Counts counts = count(candidate, work);
  Row row;
  add_matrix(row, counts, work);
  add_shape(row, candidate, counts, limits);
  add_loop_order(row, candidate, counts);
  add_footprints(row, candidate, counts, limits);
  add_prior(row, candidate, work, limits);
  add_rules(row, candidate, counts, work, limits);
  return row.take();
}

}  // namespace spjit
