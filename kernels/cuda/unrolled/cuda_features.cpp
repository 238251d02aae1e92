#include "kernels/cuda/unrolled/cuda_features.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/arithmetic.hpp"
#include "kernels/cuda/unrolled/cuda_prior.hpp"

namespace spjit {
namespace {

constexpr std::array k_cuda_features = {
    // Table 1 of LO-SpMM.
    Feature{"row_tiles", "1", "row tiles of non-empty rows"},
    Feature{"column_tiles", "1", "ceil(n / N1)"},
    Feature{"blocks", "log2", "blocks of a launch"},
    Feature{"sparsity", "1", "1 - nnz / (m k)"},
    Feature{"nnc_sum", "log2", "non-empty columns of the row tiles, summed"},
    Feature{"tile_nnz_max", "log2", "largest nnz of a row tile"},
    Feature{"m1", "rows", "rows of a tile"},
    Feature{"n1", "columns", "columns of a tile = its threads"},
    Feature{"cols", "log2 rows of B", "k"},
    // Ours.
    Feature{"tiles_a_block", "row tiles", "row tiles of a block"},
    Feature{"nnc_mean", "1", "mean non-empty columns of a row tile / k"},
    Feature{"nnc_max", "1", "largest / mean non-empty columns of a row tile"},
    Feature{"tile_nnz_cv", "1", "coefficient of variation of nnz over row tiles"},
    Feature{"fmas_per_load", "1", "nnz / nnc_sum"},
    Feature{"column_padding", "1", "padded columns / n"},
    Feature{"registers", "1", "predicted registers a thread"},
    Feature{"register_cap", "1", "most registers a thread may have"},
    Feature{"active_blocks", "1", "blocks that an SM holds at once"},
    Feature{"occupancy", "1", "active warps / warps that an SM can hold"},
    Feature{"waves", "1", "blocks / (SMs x active blocks)"},
    Feature{"last_wave", "1", "share of the last wave that is idle"},
    Feature{"code_bytes", "log2 bytes", "machine code"},
    Feature{"code_per_fma", "log2 bytes", "machine code x column tiles / (nnz x n)"},
    Feature{"b_over_l2", "log2", "bytes of all of B and C / L2"},
    Feature{"rows", "log2", "non-empty rows of A"},
    Feature{"nnz", "log2", "nonzeros of A"},
    Feature{"n", "log2 columns", "columns of B and C"},
    Feature{"row_nnz_cv", "1", "coefficient of variation of nnz over all rows"},
    Feature{"threads", "log2", "threads of a block"},
    Feature{"cap_of_grid", "0, 1", "whether the grid decides the register cap"},
    Feature{"spare_registers", "1", "register cap - predicted registers"},
    Feature{"blocks_an_sm", "1", "ceil(blocks / SMs)"},
    Feature{"uneven_sms", "1", "blocks an SM / (blocks / SMs)"},
    Feature{"resident_blocks", "1", "blocks that an SM holds at once of those the grid brings"},
    Feature{"resident_warps", "1", "the same in warps"},
    Feature{"prior_issue", "log2 cycles", "issue of estimate_cuda_cost(), a product and SM"},
    Feature{"prior_memory", "log2 cycles", "memory of it, a product and SM"},
    Feature{"prior_fetch", "log2 cycles", "fetch of it, a product and SM"},
    Feature{"prior_dram", "log2 cycles", "DRAM of it, a product and SM"},
    Feature{"prior_latency", "log2 cycles", "latency of it, a product and SM"},
    Feature{"prior", "log2 cycles", "estimate_cuda_cycles() / (nnz x n / SMs)"},
    Feature{"prior_over_best", "log2", "estimate_cuda_cycles() / the least of all candidates"},
};

float bounded_log2(double value) {
  return static_cast<float>(std::log2(std::clamp(value, 1e-9, 1e30)));
}
float share_of(double value, double of) { return static_cast<float>(value / std::max(of, 1e-9)); }

void add_paper(std::vector<float>& row, const CudaCandidate& candidate) {
  const Workload& work = candidate.work;
  const double cells = std::max(1.0, as_double(work.m) * as_double(work.cols));
  row.push_back(static_cast<float>(candidate.row_tiles));
  row.push_back(static_cast<float>(candidate.column_tiles));
  row.push_back(bounded_log2(as_double(candidate.blocks)));
  row.push_back(static_cast<float>(1 - as_double(work.nnz) / cells));
  row.push_back(bounded_log2(as_double(candidate.grouping.nnc_sum)));
  row.push_back(bounded_log2(as_double(candidate.grouping.tile_nnz_max)));
  row.push_back(static_cast<float>(candidate.tile.m1));
  row.push_back(static_cast<float>(candidate.tile.n1));
  row.push_back(bounded_log2(as_double(work.cols)));
}

void add_grouping(std::vector<float>& row, const CudaCandidate& candidate) {
  const GroupingStatistics& grouping = candidate.grouping;
  row.push_back(static_cast<float>(candidate.tile.tiles_a_block));
  row.push_back(share_of(grouping.nnc_mean, as_double(candidate.work.cols)));
  row.push_back(share_of(as_double(grouping.nnc_max), std::max(grouping.nnc_mean, 1.0)));
  row.push_back(static_cast<float>(grouping.tile_nnz_cv));
  row.push_back(static_cast<float>(grouping.fmas_per_load));
  row.push_back(static_cast<float>(candidate.column_padding));
}

void add_occupancy(std::vector<float>& row, const CudaCandidate& candidate,
                   const CudaDeviceInfo& limits) {
  const auto warps = as_double(candidate.occupancy.active_warps);
  row.push_back(static_cast<float>(candidate.registers.total()));
  row.push_back(static_cast<float>(candidate.register_cap));
  row.push_back(static_cast<float>(candidate.occupancy.active_blocks));
  row.push_back(share_of(warps * as_double(limits.warp_size),
                         as_double(std::max<std::int64_t>(limits.threads_per_sm, 1))));
  row.push_back(static_cast<float>(candidate.waves));
  row.push_back(static_cast<float>(std::ceil(candidate.waves) - candidate.waves));
}

void add_bytes(std::vector<float>& row, const CudaCandidate& candidate,
               const CudaDeviceInfo& limits) {
  const Workload& work = candidate.work;
  const double products = std::max(1.0, as_double(work.nnz) * as_double(work.n));
  const double code = as_double(candidate.code_bytes);
  const double operands = (floats_of_b(candidate) + floats_of_c(candidate)) * 4;
  row.push_back(bounded_log2(code));
  row.push_back(bounded_log2(code * as_double(candidate.column_tiles) / products));
  row.push_back(bounded_log2(operands / as_double(std::max<std::int64_t>(limits.l2_bytes, 1))));
}

void add_matrix(std::vector<float>& row, const CudaCandidate& candidate) {
  const Workload& work = candidate.work;
  row.push_back(bounded_log2(as_double(work.rows)));
  row.push_back(bounded_log2(as_double(work.nnz)));
  row.push_back(bounded_log2(as_double(work.n)));
  row.push_back(static_cast<float>(work.row_nnz_cv));
}

void add_launch(std::vector<float>& row, const CudaCandidate& candidate,
                const CudaDeviceInfo& limits) {
  const double blocks = as_double(candidate.blocks);
  const double an_sm = std::ceil(blocks / as_double(limits.sms));
  const double resident = std::min(an_sm, as_double(candidate.occupancy.active_blocks));
  const auto threads = as_double(candidate.tile.threads());
  row.push_back(bounded_log2(threads));
  row.push_back(candidate.tile.cap == CudaCap::grid ? 1.0F : 0.0F);
  row.push_back(static_cast<float>(candidate.register_cap - candidate.registers.total()));
  row.push_back(static_cast<float>(an_sm));
  row.push_back(share_of(an_sm * as_double(limits.sms), std::max(blocks, 1.0)));
  row.push_back(static_cast<float>(resident));
  row.push_back(static_cast<float>(resident * std::ceil(threads / as_double(limits.warp_size))));
}

/// Of a candidate that no block of can be active the terms are 0, and the cycles as many as fit.
void add_prior(std::vector<float>& row, const CudaCandidate& candidate,
               const CudaDeviceInfo& limits, double least_cycles) {
  const double products =
      std::max(1.0, as_double(candidate.work.nnz) * as_double(candidate.work.n));
  const double cycles = estimate_cuda_cycles(candidate, limits);
  const bool runs = cycles > 0 && std::isfinite(cycles);
  const CudaCost cost = runs ? estimate_cuda_cost(candidate, limits) : CudaCost{};
  const double per_product = as_double(limits.sms) / products;
  row.push_back(bounded_log2(cost.issue * per_product));
  row.push_back(bounded_log2(cost.memory * per_product));
  row.push_back(bounded_log2(cost.fetch * per_product));
  row.push_back(bounded_log2(cost.dram * per_product));
  row.push_back(bounded_log2(cost.latency * per_product));
  row.push_back(bounded_log2(cycles * as_double(limits.sms) / products));
  row.push_back(bounded_log2(least_cycles > 0 ? cycles / least_cycles : 1));
}

}  // namespace

const FeatureSchema& cuda_feature_schema() {
  static constexpr FeatureSchema k_schema{"cuda", 6, k_cuda_features};
  return k_schema;
}

std::vector<float> cuda_feature_rows(std::span<const CudaCandidate> candidates,
                                     const CudaDeviceInfo& limits) {
  double least_cycles = std::numeric_limits<double>::infinity();
  for (const CudaCandidate& candidate : candidates) {
    least_cycles = std::min(least_cycles, estimate_cuda_cycles(candidate, limits));
  }
  if (!std::isfinite(least_cycles)) least_cycles = 0;
  std::vector<float> rows;
  rows.reserve(candidates.size() * k_cuda_features.size());
  for (const CudaCandidate& candidate : candidates) {
    add_paper(rows, candidate);
    add_grouping(rows, candidate);
    add_occupancy(rows, candidate, limits);
    add_bytes(rows, candidate, limits);
    add_matrix(rows, candidate);
    add_launch(rows, candidate, limits);
    add_prior(rows, candidate, limits, least_cycles);
  }
  return rows;
}

}  // namespace spjit
