#include "kernels/cuda/unrolled/training/cuda_space.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/hash.hpp"
#include "kernels/cuda/unrolled/cuda_prior.hpp"
#include "kernels/cuda/unrolled/cuda_tile_space.hpp"
#include "kernels/cuda/unrolled/cuda_tunable.hpp"
#include "reorder/row_groupings.hpp"
#include "spjit/error.hpp"
#include "spjit/version.hpp"

namespace spjit {
namespace {

/// Of the text: a proxy depends on nothing else.
std::string key_of(const CudaProxy& proxy, CudaSource source, int arch) {
  KeyBuilder key;
  key.field("spjit", SPJIT_VERSION)
      .field("what", "proxy")
      .field("arch", arch)
      .field("registers", proxy.register_cap);
  for (const SourceUnit& unit : emit_cuda_proxy(proxy, source, arch)) {
    key.field(unit.name, unit.text);
  }
  return key.hex();
}

std::string key_of(const CudaCandidate& candidate) {
  return KeyBuilder()
      .field("what", "kernel of a search")
      .field("tile", to_string(candidate.tile))
      .field("blocks", candidate.min_blocks)
      .field("registers", candidate.register_cap)
      .hex();
}

/// A build that failed is no cubin: it is tried again wherever it is asked for.
struct ProxyFailed : Error {
  using Error::Error;
};

CompiledCudaProxy stored_proxy(const FindCubin& find, const std::string& key,
                               const std::function<CompiledCudaProxy()>& compile) {
  CompiledCudaProxy made;
  try {
    const StoredCubin stored = find(key, [&] {
      made = compile();
      if (!made.failure.empty()) throw ProxyFailed(made.failure);
      return StoredCubin{made.cubin,
                         {{"registers", made.registers}, {"spilled_bytes", made.spilled_bytes}}};
    });
    made.cubin = stored.cubin;
    made.registers = stored.more.at("registers").get<std::int64_t>();
    made.spilled_bytes = stored.more.at("spilled_bytes").get<std::int64_t>();
  } catch (const ProxyFailed&) {
    // `made` says it.
  }
  return made;
}

CudaKernelImage stored_kernel(const FindCubin& find, const std::string& key,
                              const std::function<CudaKernelImage()>& compile) {
  const StoredCubin stored = find(key, [&] {
    CudaKernelImage made = compile();
    return StoredCubin{std::move(made.cubin),
                       {{"blocks_x", made.blocks_x}, {"spilled_bytes", made.spilled_bytes}}};
  });
  return {stored.cubin, stored.more.at("blocks_x").get<std::int64_t>(),
          stored.more.at("spilled_bytes").get<std::int64_t>()};
}

/// `tools` with cubins that are found or kept.
CudaSearchTools stored_tools(const CudaSearchInput& input, CudaSearchTools tools,
                             const FindCubin& find) {
  tools.compile_proxy = [input, find, compile = std::move(tools.compile_proxy)](
                            const CudaProxy& proxy, const Cancellation& cancel) {
    const CudaSource source = source_of(input.options.policy, k_proxy_source_option);
    const std::string key = key_of(proxy, source, static_cast<int>(input.limits.arch));
    return stored_proxy(find, key, [&] { return compile(proxy, cancel); });
  };
  tools.compile_kernel = [find, compile = std::move(tools.compile_kernel)](
                             const CudaCandidate& candidate, const Cancellation& cancel) {
    return stored_kernel(find, key_of(candidate), [&] { return compile(candidate, cancel); });
  };
  return tools;
}

CudaSearchTools tools_of(const CudaSearchInput& input, const SpaceOptions& options) {
  // Where all code is found the compilers need not be there.
  const bool lazy = options.find_cubin != nullptr;
  CudaSearchTools tools =
      options.gpu ? local_cuda_tools(input, *options.gpu, lazy) : compile_only_tools(input, lazy);
  if (options.find_cubin) return stored_tools(input, std::move(tools), options.find_cubin);
  if (options.gpu) return tools;
  // Of the many kernels that nobody runs no more is kept than has to be.
  tools.compile_kernel = [compile = std::move(tools.compile_kernel)](const CudaCandidate& candidate,
                                                                     const Cancellation& cancel) {
    CudaKernelImage image = compile(candidate, cancel);
    image.built = nullptr;
    return image;
  };
  return tools;
}

/// What the rules leave, best first.
std::vector<CudaCandidate> ranked_tiles(const FamilyRequest& request, RowGroupings& groupings) {
  const auto& limits = std::get<CudaDeviceInfo>(request.device);
  const CudaTileSpace space = enumerate_cuda_tiles(request.problem, request.options.policy, limits,
                                                   groupings, request.cancel);
  std::vector<CudaCandidate> ranked = rank_by_prior(space.survivors(), limits);
  if (ranked.empty()) throw Error("no tile fits the device and the code budget");
  return ranked;
}

CudaReductions reductions_of(const std::vector<std::string>& without) {
  CudaReductions reductions;
  for (const std::string& name : without) {
    bool* const reduction = name == "blocks"       ? &reductions.blocks
                            : name == "iterations" ? &reductions.iterations
                            : name == "occupancy"  ? &reductions.occupancy
                                                   : nullptr;
    if (reduction == nullptr) {
      throw InvalidArgument(
          fmt::format("no reduction '{}'; expected blocks, iterations or occupancy", name));
    }
    *reduction = false;
  }
  return reductions;
}

/// What the candidates refer to.
struct CudaSpace {
  CudaSpace(const FamilyRequest& request, const SpaceOptions& options)
      : groupings(*request.problem.a, request.options.policy.reorder, request.cancel),
        ranked(ranked_tiles(request, groupings)),
        input{request.problem, request.options, std::get<CudaDeviceInfo>(request.device),
              groupings},
        tunable(input, ranked, tools_of(input, options), reductions_of(options.without)) {}

  RowGroupings groupings;
  std::vector<CudaCandidate> ranked;
  CudaSearchInput input;
  CudaTunable tunable;
};

}  // namespace

std::shared_ptr<TunableSpace> make_cuda_space(const FamilyRequest& request,
                                              const SpaceOptions& options) {
  auto held = std::make_shared<CudaSpace>(request, options);
  return {held, &held->tunable};
}

}  // namespace spjit
