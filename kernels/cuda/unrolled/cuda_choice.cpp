#include "kernels/cuda/unrolled/cuda_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "base/refusal.hpp"
#include "base/timing.hpp"
#include "kernels/cuda/unrolled/cuda_modelled.hpp"
#include "kernels/cuda/unrolled/cuda_ranking.hpp"
#include "kernels/cuda/unrolled/cuda_tile_space.hpp"
#include "plan/kernel_plan.hpp"
#include "rankmodel/rank_model.hpp"
#include "reorder/row_groupings.hpp"
#include "runtime/cuda/local_gpus.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void no_tile(const CudaTileSpace& space, const SearchPolicy& policy) {
  const CudaCandidate* smallest = nullptr;
  for (const CudaCandidate& candidate : space.candidates) {
    if (smallest == nullptr || candidate.code_bytes < smallest->code_bytes) smallest = &candidate;
  }
  if (smallest != nullptr && smallest->code_bytes > policy.code_budget_bytes) {
    throw Declined(fmt::format(
        "about {} bytes of code or more, the budget is {} (code_budget_bytes, --code-budget)",
        smallest->code_bytes, policy.code_budget_bytes));
  }
  const auto& candidates = space.candidates;
  throw Declined(
      fmt::format("no tile fits the device: {}", candidates.empty() || !candidates.front().dropped
                                                     ? "there is none"
                                                     : candidates.front().dropped->numbers));
}

/// Whether something was timed.
Refusal search_on(int ordinal, CudaChoice& choice, const CudaSearchInput& input,
                  const BuildRequest& request) {
  try {
    CudaTunable space(input, choice.ranked, local_cuda_tools(input, ordinal));
    SearchOutcome found = request.search(space, Clock::now());
    choice.built = CudaTunable::kernel_of(found.build.get());
    choice.search = std::move(found.trace);
  } catch (const NotSupported& error) {
    return Refusal(error.what());
  } catch (const DeviceError& error) {
    return Refusal(error.what());
  }
  choice.search.rank_ms = choice.group_ms;
  return choice.search.timed ? Refusal::none() : Refusal("no candidate could be timed");
}

/// Whether the clock chose.
Refusal model_without_gpu(CudaChoice& choice, const CudaSearchInput& input,
                          const BuildRequest& request) {
  if (input.problem.a->nnz() == 0) return Refusal("there is nothing to compute");
  try {
    CudaModelledSearch found =
        search_by_clock(input, choice.ranked, local_model_tools(input), request.context);
    // What was built without being modelled is of the first of the ranking.
    if (found.trace.modelled || choice.favourite == 0) choice.built = std::move(found.built);
    if (!found.trace.modelled) return found.why_not;
    choice.search = std::move(found.trace);
  } catch (const NotSupported& error) {
    return Refusal(error.what());
  }
  choice.search.rank_ms = choice.group_ms;
  if (request.modelled) request.modelled(choice.search);
  return Refusal::none();
}

/// How the clock chose: "fastest of 10, modelled, not timed, ...".
std::string modelled_reason(const CudaChoice& choice, const CudaSearchInput& input) {
  const auto of = std::ranges::count_if(choice.search.entries, [](const SearchTraceEntry& entry) {
    return entry.modelled && entry.modelled->failure.empty();
  });
  const std::optional<ClockConstants> constants = clock_constants(input.limits.arch);
  const ModelledResult& result = *choice.search.entries[choice.search.chosen].modelled;
  return fmt::format(
      "{}: fastest of {} by the clock, modelled, not timed ({:.1f} us, compared with {})",
      to_string(input.options.policy.search), of, result.us,
      constants ? constants->compared_with : "nothing");
}

/// Fills in the search, which leaves the favourite where nothing can be timed, and the reason.
void search(CudaChoice& choice, const CudaSearchInput& input, const BuildRequest& request) {
  const SearchPolicy& policy = input.options.policy;
  std::string why_not;
  if (policy.search != SearchMode::instant) {
    const TimingGpu gpu = find_timing_gpu(input.options.target, input.limits);
    why_not = gpu.problem;
    if (gpu.ordinal) {
      why_not = search_on(*gpu.ordinal, choice, input, request).reason();
    } else if (policy.search == SearchMode::ranked) {
      const Refusal refused = model_without_gpu(choice, input, request);
      if (refused) why_not += "; the clock: " + refused.reason();
    }
  }
  const std::string of = fmt::format("of {} tiles that the rules leave of {}", choice.ranked.size(),
                                     choice.space.candidates.size());
  if (choice.search.modelled) {
    choice.reason = fmt::format("{}, {}: {}", modelled_reason(choice, input), of, why_not);
    return;
  }
  if (!choice.search.timed) {
    choice.search.chosen = choice.favourite;
    choice.reason = fmt::format("{}: first {}; ranked, not timed",
                                choice.is_decided_by_model ? choice.ranked_by : k_prior_name, of);
    if (!why_not.empty()) choice.reason += ": " + why_not;
    return;
  }
  const std::size_t full = count_timed(choice.search, &SearchTraceEntry::full);
  const std::size_t proxies = count_timed(choice.search, &SearchTraceEntry::proxy);
  const std::string how =
      full == 0      ? fmt::format("fastest of {} timed by proxy", proxies)
      : proxies == 0 ? fmt::format("fastest of {} timed in full", full)
                     : fmt::format("fastest of {} timed in full, the best of {} timed by proxy",
                                   full, proxies);
  choice.reason = fmt::format("{}: {}, {}", to_string(policy.search), how, of);
}

}  // namespace

CudaChoice choose_cuda_tile(const BuildRequest& request) {
  const FamilyRequest& what = request.what;
  const CsrMatrix& matrix = *what.problem.a;
  const SearchPolicy& policy = what.options.policy;
  const auto& limits = std::get<CudaDeviceInfo>(what.device);
  const auto start = Clock::now();
  request.context.stage("grouping");
  // Rows of a tile are stored side by side in a token.
  const ReorderAlgorithm reorder =
      what.problem.c.layout == Layout::tokens_major ? ReorderAlgorithm::none : policy.reorder;
  RowGroupings groupings(matrix, reorder, what.cancel);
  CudaChoice choice;
  choice.space = enumerate_cuda_tiles(what.problem, policy, limits, groupings, what.cancel);
  CudaRanking ranking =
      rank_cuda_tiles(choice.space.survivors(), limits, request.rank_model.get(),
                      {is_plain_product(what.problem), policy.search != SearchMode::instant});
  choice.ranked = std::move(ranking.tiles);
  choice.favourite = ranking.favourite;
  choice.is_decided_by_model = ranking.is_decided_by_model;
  choice.ranked_by = ranked_by(ranking.model);
  if (choice.ranked.empty()) no_tile(choice.space, policy);
  choice.group_ms = ms_since(start);
  search(choice, {what.problem, what.options, limits, groupings, ranking.model, choice.favourite},
         request);
  choice.chosen = choice.ranked[choice.search.chosen];
  choice.grouping = groupings.at(choice.chosen.tile.m1, choice.chosen.tile.reorder);
  for (const CudaRule rule : choice.space.relaxed) {
    choice.reason += fmt::format("; the rule {} was relaxed: it left none", to_string(rule));
  }
  return choice;
}

CompiledCuda compile_cuda_choice(CudaChoice choice, const BuildRequest& request) {
  const FamilyRequest& what = request.what;
  const CsrMatrix& matrix = *what.problem.a;
  const auto start = Clock::now();
  request.context.stage("emitting");
  if (choice.built != nullptr) {
    const auto built = std::exchange(choice.built, nullptr);
    return {*built, std::move(choice)};
  }
  const KernelPlan plan =
      build_plan(matrix, choice.grouping, std::max<std::int64_t>(matrix.cols, 1), what.cancel);
  const double plan_ms = ms_since(start);
  BuiltCuda built = build_cuda_kernel(plan, choice.chosen, what.options,
                                      std::get<CudaDeviceInfo>(what.device), what.cancel);
  built.trace.emit_ms += plan_ms;
  return {std::move(built), std::move(choice)};
}

CompiledCuda compile_cuda_kernel(const BuildRequest& request) {
  if (request.what.problem.a->rows < 1) {
    throw InvalidArgument("the matrix has no rows: there is nothing for a GPU kernel to compute");
  }
  return compile_cuda_choice(choose_cuda_tile(request), request);
}

}  // namespace spjit
