#include "kernels/cuda/unrolled/cuda_proxy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "base/timing.hpp"
#include "kernels/cuda/unrolled/cuda_emitter.hpp"
#include "kernels/cuda/unrolled/ptx_emitter.hpp"
#include "runtime/cuda/cubin_info.hpp"
#include "runtime/cuda/occupancy.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

/// What the text of a proxy depends on, tokens apart.
CudaTile shared_part(CudaTile tile) {
  tile.n1 = 0;
  tile.tiles_a_block = 1;
  return tile;
}

void check_members(const KernelPlan& plan, std::span<const CudaCandidate> members) {
  if (members.empty()) throw InvalidArgument("a proxy of no candidates; expected at least one");
  const CudaCandidate& first = members.front();
  for (const CudaCandidate& member : members) {
    if (shared_part(member.tile) != shared_part(first.tile) || member.work.n != first.work.n) {
      throw InvalidArgument(fmt::format(
          "one proxy for the tiles {} (n = {}) and {} (n = {}); expected tiles that differ in n1 "
          "and tiles a block only, see share_proxy()",
          to_string(first.tile), first.work.n, to_string(member.tile), member.work.n));
    }
    if (member.row_tiles != plan.grouping.tiles() || member.tile.m1 != plan.grouping.m1) {
      throw InvalidArgument(fmt::format(
          "a proxy of {} row tiles at m1 {} of a plan with {} at m1 {}; expected the candidate's "
          "plan",
          member.row_tiles, member.tile.m1, plan.grouping.tiles(), plan.grouping.m1));
    }
  }
  if (plan.nnz() == 0) {
    throw InvalidArgument("a proxy of a plan without nonzeros; every tile costs the same there");
  }
}

/// Most blocks an SM can be asked to hold without less than `cap` registers a thread being left: so
/// launch bounds, which NVRTC puts before the cap, say the same as it.
std::int64_t min_blocks_for(const CudaDeviceInfo& limits, std::int64_t threads, std::int64_t cap) {
  std::int64_t blocks = 1;
  while (blocks < limits.blocks_per_sm && register_cap(limits, threads, blocks + 1) >= cap) {
    ++blocks;
  }
  return blocks;
}

CudaKernelSpec spec_of(std::span<const CudaCandidate> members) {
  CudaKernelSpec spec;
  spec.tile = members.front().tile;
  spec.layer = members.front().layer;
  spec.runtime_threads = !spec.layer.has_tokens();
  if (spec.runtime_threads) {
    spec.tile.tiles_a_block = 1;
    for (const CudaCandidate& member : members) {
      spec.tile.n1 = std::max(spec.tile.n1, member.tile.threads());
    }
  }
  const Workload& work = members.front().work;
  spec.n = work.n;
  spec.ldb = members.front().ldb > 0 ? members.front().ldb : spec.n;
  spec.ldc = members.front().ldc > 0 ? members.front().ldc : spec.n;
  return spec;
}

void build(const CudaProxy& proxy, CudaSource source, const CudaToolchain& toolchain,
           CudaBuildOptions options, CompiledCudaProxy& made) {
  options.max_registers = proxy.register_cap;
  std::string cubin = build_cubin(emit_cuda_proxy(proxy, source, options.arch), toolchain, options);
  const CubinInfo info = read_cubin_info(std::as_bytes(std::span(cubin)));
  const CubinKernel* kernel = info.find_kernel(k_cuda_kernel_name);
  if (kernel == nullptr) {
    throw CompileFailed(fmt::format("the compiled proxy has no kernel {}", k_cuda_kernel_name));
  }
  made.cubin = std::move(cubin);
  made.registers = kernel->registers;
  made.spilled_bytes = kernel->stack_bytes;
}

}  // namespace

bool share_proxy(const CudaCandidate& left, const CudaCandidate& right) {
  if (shared_part(left.tile) != shared_part(right.tile)) return false;
  if (left.tile.cap == CudaCap::grid && left.register_cap != right.register_cap) return false;
  if (!left.layer.has_tokens()) return true;
  return left.tile.n1 == right.tile.n1 && left.tile.tiles_a_block == right.tile.tiles_a_block;
}

std::int64_t active_blocks_of(const CudaCandidate& candidate, const CudaDeviceInfo& limits) {
  const std::int64_t blocks_an_sm = (candidate.blocks + limits.sms - 1) / limits.sms;
  return std::max<std::int64_t>(std::min(blocks_an_sm, candidate.occupancy.active_blocks), 1);
}

CudaProxy make_cuda_proxy(const KernelPlan& plan, std::span<const CudaCandidate> members,
                          const CudaDeviceInfo& limits, const CudaProxyOptions& options) {
  check_members(plan, members);
  ProxyOptions proxy_options;
  proxy_options.reduce_blocks = options.reduce_blocks;
  proxy_options.reduce_iterations = options.reduce_iterations;
  CudaProxy made;
  made.register_cap = limits.registers_per_thread;
  for (const CudaCandidate& member : members) {
    proxy_options.active_blocks = std::max(
        proxy_options.active_blocks, active_blocks_of(member, limits) * member.tile.tiles_a_block);
    made.register_cap =
        std::min(made.register_cap, register_cap(limits, member.tile.threads(), member.min_blocks));
  }
  made.proxy = build_proxy(plan, proxy_options);
  made.spec = spec_of(members);
  made.spec.min_blocks = min_blocks_for(limits, made.spec.tile.threads(), made.register_cap);
  made.spec.function_of_tile = made.proxy.clusters_of_tiles();
  check_cuda_spec(made.proxy.plan, made.spec);
  return made;
}

CudaProxyLaunch launch_of(const CudaCandidate& candidate, std::int64_t blocks_x) {
  CudaProxyLaunch launch;
  launch.grid_x = blocks_x;
  launch.grid_y = candidate.column_tiles;
  launch.threads = candidate.tile.n1;
  launch.tiles_a_block = candidate.tile.tiles_a_block;
  launch.dynamic_shared_bytes = shared_bytes_of(candidate.layer, candidate.tile);
  return launch;
}

CudaProxyLaunch launch_of(const CudaCandidate& candidate, std::int64_t registers,
                          const CudaDeviceInfo& limits) {
  const CudaTile& tile = candidate.tile;
  CudaProxyLaunch launch = launch_of(candidate, cuda_grid(candidate.row_tiles, tile, 1).x);
  const std::int64_t wanted = active_blocks_of(candidate, limits);
  BlockResources block;
  block.threads = tile.threads();
  block.registers_per_thread = registers;
  block.dynamic_shared_bytes = launch.dynamic_shared_bytes;
  // Where the grid has too few blocks to fill SMs, it has for the proxy too.
  const std::int64_t blocks_an_sm = (candidate.blocks + limits.sms - 1) / limits.sms;
  const bool by_grid = blocks_an_sm <= candidate.occupancy.active_blocks;
  if (by_grid && occupancy(limits, block).active_blocks >= wanted) return launch;
  const std::optional<std::int64_t> shared = dynamic_shared_for(limits, block, wanted);
  launch.dynamic_shared_bytes = std::max(shared.value_or(0), launch.dynamic_shared_bytes);
  if (!shared) {
    launch.note = fmt::format(
        "no dynamic shared memory gives blocks of {} threads with {} registers each {} active "
        "blocks an SM: the proxy has {}",
        block.threads, registers, wanted, occupancy(limits, block).active_blocks);
  }
  return launch;
}

std::vector<SourceUnit> emit_cuda_proxy(const CudaProxy& proxy, CudaSource source, int arch) {
  return source == CudaSource::ptx ? emit_ptx(proxy.proxy.plan, proxy.spec, arch)
                                   : emit_cuda(proxy.proxy.plan, proxy.spec);
}

CompiledCudaProxy compile_cuda_proxy(const CudaProxy& proxy, CudaSource source,
                                     const CudaToolchain& toolchain,
                                     const CudaBuildOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  CompiledCudaProxy made;
  try {
    build(proxy, source, toolchain, options, made);
  } catch (const CompileFailed& failed) {
    made.failure = failed.what();
    if (!failed.log().empty()) made.failure += "\n" + failed.log();
  } catch (const NotSupported& missing) {
    made.failure = missing.what();
  }
  made.build_ms = ms_since(start);
  return made;
}

}  // namespace spjit
