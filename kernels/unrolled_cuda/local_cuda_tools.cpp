#include "kernels/unrolled_cuda/local_cuda_tools.hpp"

#include <algorithm>
#include <memory>
#include <thread>

#include "kernels/unrolled_cuda/cuda_builder.hpp"
#include "plan/kernel_plan.hpp"

namespace spjit {
namespace {

CudaToolchain toolchain_of(const CompileOptions& options, const CudaDeviceInfo& limits) {
  CudaToolchainNeeds needs;
  needs.arch = static_cast<int>(limits.arch);
  needs.nvrtc = options.policy.proxy_source == CudaSource::cuda;
  needs.nvjitlink = true;
  return load_cuda_toolchain(needs, found_cuda_libraries({options.resources.toolkit_paths}));
}

int compile_threads(const CompileOptions& options) {
  if (options.resources.compile_threads > 0) return options.resources.compile_threads;
  return static_cast<int>(std::max(std::thread::hardware_concurrency(), 1U));
}

}  // namespace

LocalCudaTools::LocalCudaTools(const CudaSearchInput& input, int ordinal)
    : input_(input),
      toolchain_(toolchain_of(input.options, input.limits)),
      timer_(ordinal, input.problem) {}

CompiledCudaProxy LocalCudaTools::compile_proxy(const CudaProxy& proxy,
                                                const Cancellation& cancel) const {
  CudaBuildOptions build;
  build.arch = static_cast<int>(input_.limits.arch);
  build.threads = 1;  // as many proxies as there are threads are compiled at once
  build.cancel = cancel;
  return compile_cuda_proxy(proxy, input_.options.policy.proxy_source, toolchain_, build);
}

CudaKernelImage LocalCudaTools::compile_kernel(const CudaCandidate& candidate,
                                               const Cancellation& cancel) const {
  const KernelPlan plan = build_plan(*input_.problem.a, input_.groupings.at(candidate.tile.m1),
                                     std::max<std::int64_t>(input_.problem.a->cols, 1), cancel);
  auto built = std::make_shared<const BuiltCuda>(
      build_cuda_kernel(plan, candidate, input_.options, input_.limits, cancel));
  return {built->artifact.cubin, built->program.blocks_x,
          built->trace.attempts.back().spilled_bytes, built};
}

CudaSearchTools LocalCudaTools::tools() {
  CudaSearchTools tools;
  tools.compile_proxy = [this](const CudaProxy& proxy, const Cancellation& cancel) {
    return compile_proxy(proxy, cancel);
  };
  tools.compile_kernel = [this](const CudaCandidate& candidate, const Cancellation& cancel) {
    return compile_kernel(candidate, cancel);
  };
  tools.time = [this](std::span<const CudaTuningCandidate> candidates,
                      const TuningOptions& options) {
    return time_cuda_kernels(candidates, options, timer_);
  };
  tools.compile_threads = compile_threads(input_.options);
  return tools;
}

}  // namespace spjit
