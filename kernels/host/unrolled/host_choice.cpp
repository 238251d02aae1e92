#include "kernels/host/unrolled/host_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/arithmetic.hpp"
#include "base/host_cpu.hpp"
#include "base/timing.hpp"
#include "kernels/host/operands/timing_operands.hpp"
#include "kernels/host/unrolled/host_heuristic.hpp"
#include "kernels/host/unrolled/host_program.hpp"
#include "plan/kernel_plan.hpp"
#include "reorder/row_grouping.hpp"
#include "runtime/host/host_device_info.hpp"

namespace spjit {
namespace {

using Clock = std::chrono::steady_clock;

BuiltHost build_by_rules(const BuildRequest& request, HostChoiceTrace trace) {
  const FamilyRequest& what = request.what;
  const CsrMatrix& matrix = *what.problem.a;
  auto start = Clock::now();
  request.context.stage("grouping");
  const RowGrouping grouping =
      group_rows(matrix, trace.tile.m1, what.options.policy.reorder, what.cancel);
  trace.group_ms = ms_since(start);
  trace.grouping = compute_statistics(matrix, grouping, what.cancel);

  start = Clock::now();
  request.context.stage("emitting");
  const std::int64_t block =
      trace.tile.k_block > 0 ? trace.tile.k_block : std::max<std::int64_t>(matrix.cols, 1);
  const KernelPlan plan = build_plan(matrix, grouping, block, what.cancel);
  HostArtifact artifact = make_unrolled_artifact(plan, trace.tile, what.problem,
                                                 what.options.target.isa(), what.cancel);
  trace.emit_ms = ms_since(start);
  return {std::move(artifact), std::move(trace)};
}

std::string search_reason(const SearchPolicy& policy, const HostChoiceTrace& trace) {
  const SearchTrace& search = trace.search;
  const std::string_view mode = to_string(policy.search);
  if (!search.timed) {
    // The rules' choice is always to be timed in full: what it failed of is why there is none.
    if (const auto& first = search.entries.front().full; first && !first->failure.empty()) {
      return fmt::format("{}: ranked, not timed: nothing ran, {}", mode, first->failure);
    }
    return fmt::format("{}: ranked, not timed: the budget of {:.0f} ms was spent before", mode,
                       policy.search_budget_ms);
  }
  std::string reason = fmt::format("{}: fastest of {} timed in full", mode,
                                   count_timed(search, &SearchTraceEntry::full));
  if (search.proxies) {
    reason += fmt::format(", the best of {} timed by proxy",
                          count_timed(search, &SearchTraceEntry::proxy));
  }
  return reason + fmt::format(", of {} tiles that the rules leave of {}", search.entries.size(),
                              trace.space.candidates.size());
}

BuiltHost build_searched(const BuildRequest& request, HostChoiceTrace trace,
                         const TimeHostKernels& timer) {
  const FamilyRequest& what = request.what;
  const auto begin = Clock::now();
  request.context.stage("grouping");
  HostTunable space({what.problem, what.options, std::get<HostDeviceInfo>(what.device), trace.tile,
                     request.rank_model.get(), what.cancel},
                    timer);
  SearchOutcome found = request.search(space, begin);
  const auto start = Clock::now();
  HostArtifact artifact = space.artifact(found.trace.chosen, found.build.get());
  trace.search = std::move(found.trace);
  trace.space = space.space();
  trace.tile = space.tile(trace.search.chosen);
  trace.grouping = space.grouping(trace.search.chosen);
  trace.reason = search_reason(what.options.policy, trace);
  trace.group_ms = trace.search.rank_ms;
  trace.emit_ms = trace.search.proxy_ms + trace.search.full_ms + ms_since(start);
  return {std::move(artifact), std::move(trace)};
}

}  // namespace

HostChoiceTrace host_choice_by_rules(const FamilyRequest& request) {
  HostChoice choice = choose_host_tile(
      workload_of(request.problem, request.options.resources.threads, request.cancel),
      std::get<HostDeviceInfo>(request.device));
  HostChoiceTrace trace;
  trace.tile = choice.tile;
  trace.tile.read_ahead = !request.options.policy.hot;
  trace.reason = std::move(choice.reason);
  return trace;
}

BuiltHost build_host_choice(const BuildRequest& request, const TimeHostKernels& timer) {
  HostChoiceTrace trace = host_choice_by_rules(request.what);
  const CompileOptions& options = request.what.options;
  if (options.policy.search != SearchMode::instant) {
    Refusal why_not = why_not_timed_on(host_cpu(), options.target);
    if (!why_not) why_not = too_large_to_time(request.what.problem);
    if (!why_not) return build_searched(request, std::move(trace), timer);
    trace.reason = fmt::format("{}: ranked, not timed: {}; {}", to_string(options.policy.search),
                               why_not.reason(), trace.reason);
  }
  return build_by_rules(request, std::move(trace));
}

}  // namespace spjit
