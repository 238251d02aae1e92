#include "kernels/host/unrolled/host_proxy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "base/arithmetic.hpp"
#include "kernels/host/unrolled/host_emitter.hpp"
#include "plan/proxy_plan.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

ProxyPlan small_plan(const KernelPlan& plan, const HostReductions& reductions,
                     const HostProxyLimits& limits) {
  ProxyOptions options;
  options.clusters_a_block = proxy_clusters(plan, limits);
  options.iterations = limits.iterations;
  options.reduce_blocks = reductions.tiles;
  options.reduce_iterations = reductions.iterations;
  ProxyPlan proxy = build_proxy(plan, options);
  // C has the size of the kernel's: its zeroed rows and the distance between rows count.
  proxy.plan.rows = plan.rows;
  proxy.plan.grouping.empty_rows = plan.grouping.empty_rows;
  return proxy;
}

/// Where something that starts at each of `offsets` and lasts to the next ends.
std::int64_t end_of(const std::vector<std::int64_t>& offsets, std::size_t i, std::size_t size) {
  return i + 1 < offsets.size() ? offsets[i + 1] : static_cast<std::int64_t>(size);
}

}  // namespace

bool share_code(const HostTile& left, const HostTile& right) {
  HostTile ordered = left;
  ordered.panel_group = right.panel_group;
  ordered.row_group = right.row_group;
  ordered.read_ahead = right.read_ahead;
  return ordered == right;
}

std::int64_t window_columns(const HostTile& tile, std::int64_t panel_columns, const Workload& work,
                            const HostProxyLimits& limits) {
  if (tile.row_group > 0 || work.nnz == 0) return 0;
  const std::int64_t group =
      std::min(tile.panel_group, ceil_div(work.n, panel_columns)) * panel_columns;
  const std::int64_t wanted = ceil_div(ceil_div(limits.window_fmas, work.nnz), group) * group;
  const std::int64_t columns = std::max(wanted, group * work.threads);
  // Less than two windows would leave out most of what is behind the first.
  return 2 * columns <= work.n ? columns : 0;
}

std::int64_t proxy_clusters(const KernelPlan& plan, const HostProxyLimits& limits) {
  const std::int64_t tiles = std::max<std::int64_t>(plan.grouping.tiles(), 1);
  const double loads = static_cast<double>(plan.columns.size()) / static_cast<double>(tiles);
  const double for_b = limits.b_rows * static_cast<double>(plan.cols) / std::max(loads, 1.0);
  const auto wanted = static_cast<std::int64_t>(std::ceil(for_b));
  return std::min(std::max(limits.clusters, wanted), tiles);
}

HostArtifact copy_tiles(const HostArtifact& artifact,
                        const std::vector<std::int32_t>& copied_tiles) {
  const HostProgramRecord from = read_program(artifact.image());
  HostProgramRecord to = from;
  to.tile_ends.resize(copied_tiles.size());
  std::iota(to.tile_ends.begin(), to.tile_ends.end(), 1);
  to.header.nnz = 0;
  to.segment_offsets.clear();
  to.weight_offsets.clear();
  to.tile_nnz_ends.clear();
  HostArtifact result;
  for (const std::int64_t tile : copied_tiles) {
    for (std::int64_t block = 0; block < from.k_blocks; ++block) {
      const std::size_t segment = to_size(tile * from.k_blocks + block);
      result.text.resize(to_size(round_up(std::ssize(result.text), k_function_alignment)));
      to.segment_offsets.push_back(std::ssize(result.text));
      to.weight_offsets.push_back(std::ssize(result.weights));
      result.text.insert(
          result.text.end(), artifact.text.begin() + from.segment_offsets[segment],
          artifact.text.begin() + end_of(from.segment_offsets, segment, artifact.text.size()));
      const std::int64_t floats = end_of(from.weight_offsets, segment, artifact.weights.size());
      result.weights.insert(result.weights.end(),
                            artifact.weights.begin() + from.weight_offsets[segment],
                            artifact.weights.begin() + floats);
    }
    const std::int64_t before = tile > 0 ? from.tile_nnz_ends[to_size(tile - 1)] : 0;
    to.header.nnz += from.tile_nnz_ends[to_size(tile)] - before;
    to.tile_nnz_ends.push_back(to.header.nnz);
  }
  result.program = write_program(to);
  return result;
}

HostArtifact make_host_proxy(const KernelPlan& plan, const HostTile& tile, const Problem& problem,
                             HostIsa isa, const HostProxyOptions& options) {
  const std::int64_t k_block =
      tile.k_block > 0 ? tile.k_block : std::max<std::int64_t>(plan.cols, 1);
  const std::int64_t tiles = plan.grouping.tiles();
  const bool fewer = options.reductions.tiles && tiles > proxy_clusters(plan, options.limits);
  // Joined tiles share functions: none of them can be copied by itself.
  if (tile.join_bytes > 0 || (!fewer && !options.reductions.iterations)) {
    return make_unrolled_artifact(with_k_block(plan, k_block, options.cancel), tile, problem, isa,
                                  options.cancel);
  }
  ProxyPlan proxy = small_plan(plan, options.reductions, options.limits);
  Problem own = problem;
  own.runtime_values = false;  // a proxy has values of its own
  const HostArtifact small = make_unrolled_artifact(
      with_k_block(std::move(proxy.plan), k_block, options.cancel), tile, own, isa, options.cancel);
  return copy_tiles(small, proxy.clusters_of_tiles());
}

HostArtifact with_loop_order(const HostArtifact& artifact, const HostTile& tile) {
  HostProgramRecord record = read_program(artifact.image());
  if (!share_code(record.tile, tile)) {
    throw InvalidArgument(fmt::format("the code of tile {} cannot run in the order of {}",
                                      to_string(record.tile), to_string(tile)));
  }
  record.tile = tile;
  HostArtifact result = artifact;
  result.program = write_program(record);
  return result;
}

}  // namespace spjit
