#include "kernels/host/unrolled/host_prior.hpp"

#include <algorithm>

#include "base/arithmetic.hpp"

namespace spjit {
namespace {

// Nanoseconds each, by non-negative least squares of relative errors over 9,000 tiles of 28 DLMC
// matrices with n = 32, 128 and 512, timed on one core of a Zen 5 EPYC by an exhaustive search
// (docs/results/search.md). Costs that the fit made 0 (stores of C, zeroed rows) are left out.
constexpr double k_fma_ns = 0.089;        // a vector FMA
constexpr double k_load_ns = 0.058;       // a load of a vector of B or of a weight
constexpr double k_fetch_ns = 0.00044;    // a byte of code, the first time in a visit
constexpr double k_refetch_ns = 0.0023;   // a byte of a tile's code beyond L1I, each further panel
constexpr double k_far_ns = 0.024;        // a byte of code beyond L2, each visit
constexpr double k_pack_ns = 0.03;        // a byte of B copied
constexpr double k_l2_line_ns = 0.00175;  // a byte of B from L2
constexpr double k_l3_line_ns = 0.0043;   // a byte of B from beyond L2
constexpr double k_strided_ns = 0.37;     // a row of B in place, beyond the TLB's reach
constexpr double k_partial_ns = 0.01;     // a byte of accumulators kept between blocks of k
constexpr double k_call_ns = 14;          // a call of a tile's code

constexpr double k_cache_line_bytes = 64;
/// B in place is within reach of the first-level TLB up to here (docs/results/host.md).
constexpr double k_tlb_reach_bytes = 400 << 10;

/// Share of something that does not fit.
double beyond(double bytes, double cache_bytes) {
  return bytes > cache_bytes ? 1 - cache_bytes / bytes : 0;
}

/// What the estimate multiplies with costs.
struct Shape {
  double panels = 0;
  double visits = 0;   ///< of a tile's code
  double k_block = 0;  ///< columns
  double k_blocks = 0;
  double nv = 0;
  double nnz = 0;
  double nnc = 0;
};

Shape shape_of(const TileCandidate& candidate, const Workload& work) {
  const HostTile& tile = candidate.tile;
  const std::int64_t cols = std::max<std::int64_t>(work.cols, 1);
  const std::int64_t k_block = tile.k_block > 0 ? std::min(tile.k_block, cols) : cols;
  const std::int64_t group =
      std::clamp<std::int64_t>(tile.panel_group, 1, std::max<std::int64_t>(candidate.panels, 1));
  Shape shape;
  shape.panels = as_double(candidate.panels);
  // A row group's code stays where it is for all panels.
  shape.visits = tile.row_group > 0 ? 1 : as_double(ceil_div(candidate.panels, group));
  shape.k_block = as_double(k_block);
  shape.k_blocks = as_double(ceil_div(cols, k_block));
  shape.nv = as_double(tile.nv);
  shape.nnz = as_double(work.nnz);
  shape.nnc = as_double(candidate.grouping.nnc_sum);
  return shape;
}

double arithmetic_ns(const HostTile& tile, const Shape& shape) {
  const double b_loads = shape.nnc * shape.nv;
  double weights = shape.nnz;  // a broadcast each, once a panel
  if (tile.form == WeightForm::balanced) weights *= std::max(1.0, shape.nv / 2);
  return shape.panels * (k_fma_ns * shape.nnz * shape.nv + k_load_ns * (weights + b_loads));
}

double code_ns(const TileCandidate& candidate, const Shape& shape, const HostDeviceInfo& limits) {
  const double code = as_double(candidate.code_bytes);
  const double segments = std::max(as_double(candidate.grouping.tiles) * shape.k_blocks, 1.0);
  const double again =
      code / segments > as_double(limits.l1i_bytes) ? shape.panels - shape.visits : 0;
  // Weights and B need some of L2 too.
  constexpr double k_share = 0.7;
  const double far = code * beyond(code + 4 * shape.nnz, k_share * as_double(limits.l2_bytes));
  return shape.visits * (k_fetch_ns * code + k_far_ns * far) + k_refetch_ns * again * code +
         k_call_ns * shape.panels * segments;
}

double memory_ns(const TileCandidate& candidate, const Shape& shape, const Workload& work,
                 const HostDeviceInfo& limits) {
  const HostTile& tile = candidate.tile;
  const double width_bytes = shape.nv * as_double(limits.lanes) * 4;
  const double b_bytes = as_double(work.cols) * as_double(work.n) * 4;
  const double lines = shape.panels * shape.nnc * shape.nv * k_cache_line_bytes;
  const double footprint = shape.k_block * width_bytes * as_double(tile.panel_group);
  constexpr double k_l1_share = 0.7;
  constexpr double k_l2_share = 0.6;
  double ns = tile.pack_b ? k_pack_ns * b_bytes : 0;
  if (footprint > k_l1_share * as_double(limits.l1d_bytes)) ns += k_l2_line_ns * lines;
  ns += k_l3_line_ns * lines * beyond(footprint, k_l2_share * as_double(limits.l2_bytes));
  if (!tile.pack_b && shape.k_block * as_double(work.n) * 4 > k_tlb_reach_bytes) {
    ns += k_strided_ns * shape.panels * shape.nnc;
  }
  return ns + k_partial_ns * shape.panels * as_double(work.rows) * width_bytes * 2 *
                  (shape.k_blocks - 1);
}

}  // namespace

HostCost estimate_host_cost(const TileCandidate& candidate, const Workload& work,
                            const HostDeviceInfo& limits) {
  const Shape shape = shape_of(candidate, work);
  return {arithmetic_ns(candidate.tile, shape) / 1e3, code_ns(candidate, shape, limits) / 1e3,
          memory_ns(candidate, shape, work, limits) / 1e3};
}

double estimate_host_us(const TileCandidate& candidate, const Workload& work,
                        const HostDeviceInfo& limits) {
  return estimate_host_cost(candidate, work, limits).total_us();
}

}  // namespace spjit
