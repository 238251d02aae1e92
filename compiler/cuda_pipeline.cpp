#include "compiler/cuda_pipeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/elapsed.hpp"
#include "kernels/unrolled_cuda/cuda_builder.hpp"
#include "kernels/unrolled_cuda/cuda_prior.hpp"
#include "kernels/unrolled_cuda/cuda_tile_space.hpp"
#include "kernels/unrolled_cuda/cuda_tunable.hpp"
#include "kernels/unrolled_cuda/local_cuda_tools.hpp"
#include "plan/kernel_plan.hpp"
#include "proxy/search.hpp"
#include "reorder/row_groupings.hpp"
#include "runtime/cuda/local_gpus.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

using Clock = std::chrono::steady_clock;

CudaProblem problem_of(const CompileOptions& options) {
  CudaProblem problem;
  problem.n = options.n;
  problem.code_budget_bytes = options.code_budget_bytes;
  problem.runtime_sizes = options.cuda.runtime_sizes;
  problem.unit_nonzeros = options.cuda.unit_nonzeros;
  problem.m1 = options.cuda.m1;
  problem.n1 = options.cuda.n1;
  return problem;
}

[[noreturn]] void over_budget(const CudaTileSpace& space, const CompileOptions& options) {
  const CudaCandidate* smallest = nullptr;
  for (const CudaCandidate& candidate : space.candidates) {
    if (smallest == nullptr || candidate.code_bytes < smallest->code_bytes) smallest = &candidate;
  }
  if (smallest != nullptr && smallest->code_bytes > options.code_budget_bytes) {
    throw CompileFailed(
        fmt::format("the kernel would have {} bytes of code or more, the budget is {}; allow more "
                    "(code_budget_bytes, --code-budget) or prune further",
                    smallest->code_bytes, options.code_budget_bytes));
  }
  const auto& candidates = space.candidates;
  throw CompileFailed(
      fmt::format("no tile fits the device: {}", candidates.empty() || !candidates.front().dropped
                                                     ? "there is none"
                                                     : candidates.front().dropped->numbers));
}

/// Why nothing was timed, or empty.
std::string search_on(int ordinal, CudaChoice& choice, const CudaSearchInput& input,
                      const CompileContext& watch) {
  const CompileOptions& options = input.options;
  try {
    LocalCudaTools local(input, ordinal);
    CudaTunable space(input, choice.ranked, local.tools());
    SearchSettings settings;
    settings.mode = options.search;
    settings.budget_ms = options.search_budget_ms;
    settings.stages =
        search_stages(options.search, options.search_contenders, space.traits().stand_ins_pay);
    CompileContext context = watch;
    context.progress = options.on_search_progress;
    SearchOutcome found = spjit::search(space, settings, context);
    choice.search = std::move(found.trace);
    choice.kernel = CudaTunable::kernel_of(found.build.get());
  } catch (const NotSupported& error) {
    return error.what();
  } catch (const DeviceError& error) {
    return error.what();
  }
  choice.search.rank_ms = choice.group_ms;
  return choice.search.timed ? "" : "no candidate could be timed";
}

std::string timed_reason(const SearchTrace& trace) {
  const std::size_t full = count_timed(trace, &SearchTraceEntry::full);
  if (!trace.proxies) return fmt::format("fastest of {} timed in full", full);
  std::string reason =
      fmt::format("fastest of {} timed by proxy", count_timed(trace, &SearchTraceEntry::proxy));
  if (full > 0) reason += fmt::format(" and {} of them in full", full);
  return reason;
}

/// Fills in the search, which leaves the first of the ranking chosen where nothing can be timed,
/// and the reason.
void search(CudaChoice& choice, const CudaSearchInput& input, const CompileContext& watch) {
  const CompileOptions& options = input.options;
  std::string why_not;
  if (options.search != SearchMode::instant) {
    const TimingGpu gpu = find_timing_gpu(options.target, input.limits);
    why_not = gpu.problem;
    if (gpu.ordinal) why_not = search_on(*gpu.ordinal, choice, input, watch);
  }
  const std::string of = fmt::format("of {} tiles that the rules leave of {}", choice.ranked.size(),
                                     choice.space.candidates.size());
  if (choice.search.timed) {
    choice.reason =
        fmt::format("{}: {}, {}", to_string(options.search), timed_reason(choice.search), of);
    return;
  }
  choice.reason = fmt::format("{}: first {}; ranked, not timed", k_cuda_prior_name, of);
  if (!why_not.empty()) choice.reason += ": " + why_not;
}

}  // namespace

CudaChoice choose_cuda_tile(const CsrMatrix& matrix, const CompileOptions& options,
                            const CudaDeviceInfo& limits, const CompileContext& watch) {
  const auto start = Clock::now();
  watch.stage("grouping");
  RowGroupings groupings(matrix, options.reorder, watch.cancel);
  CudaChoice choice;
  choice.space = enumerate_cuda_tiles(
      matrix, problem_of(options), limits,
      [&](std::int64_t m1) -> const RowGrouping& { return groupings.at(m1); }, watch.cancel);
  choice.ranked = rank_by_prior(choice.space.survivors(), limits);
  if (choice.ranked.empty()) over_budget(choice.space, options);
  choice.group_ms = ms_since(start);
  search(choice, {matrix, options, limits, groupings}, watch);
  choice.chosen = choice.ranked[choice.search.chosen];
  choice.grouping = groupings.at(choice.chosen.tile.m1);
  for (const CudaRule rule : choice.space.relaxed) {
    choice.reason += fmt::format("; the rule {} was relaxed: it left none", to_string(rule));
  }
  return choice;
}

CompiledCuda compile_cuda_choice(CudaChoice choice, const CsrMatrix& matrix,
                                 const CompileOptions& options, const CudaDeviceInfo& limits,
                                 const CompileContext& watch) {
  if (const auto kernel = std::exchange(choice.kernel, nullptr)) {
    return {kernel->artifact, kernel->program, {kernel->trace, std::move(choice)}};
  }
  const auto start = Clock::now();
  watch.stage("emitting");
  const KernelPlan plan =
      build_plan(matrix, choice.grouping, std::max<std::int64_t>(matrix.cols, 1), watch.cancel);
  const double plan_ms = ms_since(start);
  BuiltCuda built = build_cuda_kernel(plan, choice.chosen, options, limits, watch.cancel);
  built.trace.emit_ms += plan_ms;
  return {std::move(built.artifact), built.program, {std::move(built.trace), std::move(choice)}};
}

CompiledCuda compile_cuda_kernel(const CsrMatrix& matrix, const CompileOptions& options,
                                 const CudaDeviceInfo& limits, const CompileContext& watch) {
  if (matrix.rows < 1) {
    throw InvalidArgument("the matrix has no rows: there is nothing for a GPU kernel to compute");
  }
  return compile_cuda_choice(choose_cuda_tile(matrix, options, limits, watch), matrix, options,
                             limits, watch);
}

}  // namespace spjit
