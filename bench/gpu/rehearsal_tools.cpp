#include "bench/gpu/rehearsal_tools.hpp"

#include <algorithm>
#include <utility>

#include "kernels/unrolled_cuda/cuda_builder.hpp"
#include "plan/kernel_plan.hpp"

namespace spjit::bench {

CudaSearchTools rehearsal_tools(const CudaSearchInput& input, CudaSearchTools tools) {
  tools.compile_proxy = [compile = std::move(tools.compile_proxy),
                         arch = static_cast<int>(input.limits.arch)](const CudaProxy& proxy,
                                                                     const Cancellation& cancel) {
    CompiledCudaProxy made = compile(proxy, cancel);
    made.cubin.clear();
    for (const SourceUnit& unit : emit_cuda_proxy(proxy, CudaSource::ptx, arch)) {
      made.cubin += unit.text;
    }
    return made;
  };
  tools.compile_kernel = [&input](const CudaCandidate& candidate, const Cancellation& cancel) {
    const KernelPlan plan = build_plan(*input.problem.a, input.groupings.at(candidate.tile.m1),
                                       std::max<std::int64_t>(input.problem.a->cols, 1));
    BuiltCuda compiled = build_cuda_kernel(plan, candidate, input.options, input.limits, cancel);
    return CudaKernelImage{std::move(compiled.artifact.ptx), compiled.program.blocks_x,
                           compiled.trace.attempts.back().spilled_bytes};
  };
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
