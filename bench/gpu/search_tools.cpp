#include "bench/gpu/search_tools.hpp"

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/hash.hpp"
#include "compiler/cache_key.hpp"
#include "plan/kernel_plan.hpp"
#include "spjit/error.hpp"
#include "spjit/version.hpp"

namespace spjit::bench {
namespace {

CompiledCudaProxy compile_one_proxy(const CudaSearchInput& input, const CudaToolchain& toolchain,
                                    const CudaProxy& proxy, const Cancellation& cancel) {
  CudaBuildOptions build;
  build.arch = static_cast<int>(input.limits.arch);
  build.threads = 1;
  build.cancel = cancel;
  return compile_cuda_proxy(proxy, source_of(input.options.policy, k_proxy_source_option),
                            toolchain, build);
}

CudaKernelImage compile_one_kernel(const CudaSearchInput& input, const CudaCandidate& candidate,
                                   const Cancellation& cancel) {
  const KernelPlan plan =
      build_plan(*input.problem.a, input.groupings.at(candidate.tile.m1, candidate.tile.reorder),
                 std::max<std::int64_t>(input.problem.a->cols, 1), cancel);
  BuiltCuda built = build_cuda_kernel(plan, candidate, input.options, input.limits, cancel);
  return {std::move(built.artifact.cubin), built.program.blocks_x,
          built.trace.attempts.back().spilled_bytes};
}

std::vector<TuningResult> time_nothing(std::span<const CudaTuningCandidate> candidates,
                                       const TuningOptions& /*options*/) {
  return std::vector<TuningResult>(candidates.size());
}

int default_threads(const CudaSearchInput& input) {
  const int threads = input.options.resources.compile_threads;
  return threads > 0 ? threads
                     : static_cast<int>(std::max(std::thread::hardware_concurrency(), 1U));
}

/// The compilers, looked for once.
class LazyToolchain {
 public:
  const CudaToolchain& get(const CudaSearchInput& input) {
    std::call_once(once_, [&] {
      CudaToolchainNeeds needs;
      needs.arch = static_cast<int>(input.limits.arch);
      needs.nvrtc = source_of(input.options.policy, k_proxy_source_option) == CudaSource::cuda;
      needs.nvjitlink = true;
      toolchain_ = load_cuda_toolchain(needs, found_cuda_libraries());
    });
    return toolchain_;
  }

 private:
  std::once_flag once_;
  CudaToolchain toolchain_;
};

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

/// What all kernels of a problem have in common, however they are searched for.
std::string problem_key(const CudaSearchInput& input) {
  CompileOptions options = input.options;
  options.policy.search = SearchMode::instant;
  options.policy.values["proxy_source"] = "ptx";
  const DeviceInfo device = input.limits;
  return cache_key({input.problem, options, device, {}});
}

std::string key_of(const std::string& problem, const CudaCandidate& candidate) {
  return KeyBuilder()
      .field("what", "kernel of a search")
      .field("problem", problem)
      .field("tile", to_string(candidate.tile))
      .field("blocks", candidate.min_blocks)
      .field("registers", candidate.register_cap)
      .hex();
}

/// A build that failed is no cubin: it is tried again wherever it is asked for.
struct ProxyFailed : Error {
  using Error::Error;
};

CompiledCudaProxy stored_proxy(CubinCache& cubins, const std::string& key,
                               const std::function<CompiledCudaProxy()>& compile) {
  CompiledCudaProxy made;
  try {
    const StoredCubin stored = cubins.cubin(key, [&] {
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

CudaKernelImage stored_kernel(CubinCache& cubins, const std::string& key,
                              const std::function<CudaKernelImage()>& compile) {
  const StoredCubin stored = cubins.cubin(key, [&] {
    CudaKernelImage made = compile();
    return StoredCubin{std::move(made.cubin),
                       {{"blocks_x", made.blocks_x}, {"spilled_bytes", made.spilled_bytes}}};
  });
  return {stored.cubin, stored.more.at("blocks_x").get<std::int64_t>(),
          stored.more.at("spilled_bytes").get<std::int64_t>()};
}

}  // namespace

CudaSearchTools compile_only_tools(const CudaSearchInput& input, const CudaToolchain& toolchain) {
  CudaSearchTools tools;
  tools.compile_proxy = [input, toolchain](const CudaProxy& proxy, const Cancellation& cancel) {
    return compile_one_proxy(input, toolchain, proxy, cancel);
  };
  tools.compile_kernel = [input](const CudaCandidate& candidate, const Cancellation& cancel) {
    return compile_one_kernel(input, candidate, cancel);
  };
  tools.time = time_nothing;
  tools.compile_threads = default_threads(input);
  return tools;
}

CudaSearchTools lazy_cuda_tools(const CudaSearchInput& input, std::optional<int> ordinal) {
  CudaSearchTools tools = compile_only_tools(input, {});
  tools.compile_proxy = [input, toolchain = std::make_shared<LazyToolchain>()](
                            const CudaProxy& proxy, const Cancellation& cancel) {
    return compile_one_proxy(input, toolchain->get(input), proxy, cancel);
  };
  if (!ordinal) return tools;
  tools.time = [timer = std::make_shared<CudaTimer>(*ordinal, input.problem)](
                   std::span<const CudaTuningCandidate> candidates, const TuningOptions& options) {
    return time_cuda_kernels(candidates, options, *timer);
  };
  return tools;
}

CudaSearchTools stored_tools(const CudaSearchInput& input, CudaSearchTools tools,
                             const std::shared_ptr<CubinCache>& cubins) {
  tools.compile_proxy = [input, cubins, compile = tools.compile_proxy](const CudaProxy& proxy,
                                                                       const Cancellation& cancel) {
    const CudaSource source = source_of(input.options.policy, k_proxy_source_option);
    const std::string key = key_of(proxy, source, static_cast<int>(input.limits.arch));
    return stored_proxy(*cubins, key, [&] { return compile(proxy, cancel); });
  };
  tools.compile_kernel = [cubins, problem = problem_key(input),
                          compile = std::move(tools.compile_kernel)](const CudaCandidate& candidate,
                                                                     const Cancellation& cancel) {
    return stored_kernel(*cubins, key_of(problem, candidate),
                         [&] { return compile(candidate, cancel); });
  };
  return tools;
}

CudaSearchTools rehearsal_tools(CudaSearchTools tools) {
  tools.time = [time = std::move(tools.time)](std::span<const CudaTuningCandidate> candidates,
                                              const TuningOptions& given) {
    TuningOptions options = given;
    options.min_rounds = options.max_rounds = 1;
    options.min_sample_us = 1;
    options.call_limit_ms = 60'000;
    return time(candidates, options);
  };
  return tools;
}

}  // namespace spjit::bench
