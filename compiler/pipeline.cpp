#include "compiler/pipeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/arithmetic.hpp"
#include "base/elapsed.hpp"
#include "kernels/sliced/sliced_kernel.hpp"
#include "kernels/unrolled_host/host_heuristic.hpp"
#include "kernels/unrolled_host/tile_space.hpp"
#include "matrix/limits.hpp"
#include "matrix/non_empty_rows.hpp"
#include "plan/kernel_plan.hpp"
#include "reorder/row_grouping.hpp"
#include "reorder/row_groupings.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

#ifdef SPJIT_HAVE_LLVM
constexpr bool k_have_llvm = true;
#else
constexpr bool k_have_llvm = false;
#endif

using Clock = std::chrono::steady_clock;

std::int64_t ldb_of(const CompileOptions& options) {
  return options.ldb > 0 ? options.ldb : options.n;
}

HostProblem problem_of(const CsrMatrix& matrix, const CompileOptions& options,
                       const Cancellation& cancel) {
  HostProblem problem;
  problem.rows = non_empty_rows(matrix, cancel);
  problem.cols = matrix.cols;
  problem.nnz = matrix.nnz();
  problem.n = options.n;
  problem.ldb = ldb_of(options);
  problem.threads = options.threads;
  problem.panel_columns = options.panel_columns;
  return problem;
}

HostArtifact emit(const CsrMatrix& matrix, const RowGrouping& grouping, const HostTile& tile,
                  const CompileOptions& options, const Cancellation& cancel) {
  const std::int64_t block =
      tile.k_block > 0 ? tile.k_block : std::max<std::int64_t>(matrix.cols, 1);
  const KernelPlan plan = build_plan(matrix, grouping, block, cancel);
  return make_unrolled_artifact(
      plan, tile, {options.target.isa(), options.n, tile.pack_b ? 0 : ldb_of(options), cancel});
}

/// Why no unrolled kernel can be made, or empty.
std::string csr_reason(const CsrMatrix& matrix, const HostTile& tile,
                       const CompileOptions& options) {
  if (options.target.isa() == HostIsa::generic && !k_have_llvm) {
    return "csr: the generic target needs LLVM, which this build was made without";
  }
  // Before any work: an FMA of a nonzero has at least five bytes (VEX) or six (EVEX).
  const std::int64_t fma_bytes = options.target.isa() == HostIsa::avx512 ? 6 : 5;
  const std::int64_t vectors = options.target.isa() == HostIsa::generic ? 1 : tile.nv;
  const std::int64_t bytes = matrix.nnz() * vectors * fma_bytes;
  if (tile.pack_b && !options.panel_columns && is_mostly_unread(matrix.cols, matrix.nnz())) {
    return fmt::format("csr: B has {} rows, and {} nonzeros read few of them; it is not copied",
                       matrix.cols, matrix.nnz());
  }
  if (bytes > options.code_budget_bytes) {
    return fmt::format("csr: at least {} bytes of code for {} nonzeros, the budget is {}", bytes,
                       matrix.nnz(), options.code_budget_bytes);
  }
  return {};
}

/// The matrix itself as a kernel of `kind`, for the reason in the trace.
CompiledArtifact compile_csr(const CsrMatrix& matrix, const CompileOptions& options,
                             CompileTrace trace, const Cancellation& cancel,
                             KernelKind kind = KernelKind::csr) {
  trace.kind = kind;
  const HostCodeShape shape{options.target.isa(), options.n, 0, cancel};
  return {make_csr_artifact(matrix, kind, shape), std::move(trace)};
}

/// Whoever wants panels of B has more columns.
bool is_sliced(const CsrMatrix& matrix, const CompileOptions& options, const Cancellation& cancel) {
  return !options.panel_columns &&
         prefers_slices(view_of(matrix), options.target.isa(), options.n, cancel);
}

CompiledArtifact compile_sliced(const CsrMatrix& matrix, const CompileOptions& options,
                                CompileTrace trace, const Cancellation& cancel) {
  trace.reason = fmt::format("sliced: n is {}: a vector is sixteen rows of A, not the columns of B",
                             options.n);
  return compile_csr(matrix, options, std::move(trace), cancel, KernelKind::sliced);
}

/// How far code is over its budget, or empty: estimates let tiles through that need a little more.
std::string over_budget(const HostArtifact& artifact, const CompileOptions& options) {
  if (static_cast<std::int64_t>(artifact.text.size()) <= options.code_budget_bytes) return {};
  return fmt::format("{} bytes of code, the budget is {}", artifact.text.size(),
                     options.code_budget_bytes);
}

CompiledArtifact compile_choice(const CsrMatrix& matrix, const CompileOptions& options,
                                CompileTrace trace, const CompileContext& watch) {
  auto start = Clock::now();
  watch.stage("grouping");
  const RowGrouping grouping = group_rows(matrix, trace.tile.m1, options.reorder, watch.cancel);
  trace.group_ms = ms_since(start);
  trace.grouping = compute_statistics(matrix, grouping, watch.cancel);

  start = Clock::now();
  watch.stage("emitting");
  HostArtifact artifact = emit(matrix, grouping, trace.tile, options, watch.cancel);
  trace.emit_ms = ms_since(start);
  if (const std::string reason = over_budget(artifact, options); !reason.empty()) {
    trace.reason = "csr: " + reason;
    return compile_csr(matrix, options, std::move(trace), watch.cancel);
  }
  return {std::move(artifact), std::move(trace)};
}

/// Why candidates cannot be run here, or empty.
std::string too_large_to_time(const CsrMatrix& matrix, const CompileOptions& options) {
  const std::int64_t ldb = options.ldb > 0 ? options.ldb : options.n;
  const double bytes =
      4 * (as_double(matrix.cols) * as_double(ldb) + as_double(matrix.rows) * as_double(options.n));
  if (bytes <= as_double(memory_bytes()) / 2) return {};
  return fmt::format(
      "{}: ranked, not timed: B and C would take {:.1f} GB, more than half of the "
      "memory; ",
      to_string(options.search), bytes * 1e-9);
}

std::string search_reason(const CompileOptions& options, const CompileTrace& trace) {
  const SearchTrace& search = trace.search;
  if (!search.timed) {
    // The heuristic's choice is always to be timed in full: what it failed of is why there is none.
    if (const auto& first = search.entries.front().full; first && !first->failure.empty()) {
      return fmt::format("{}: ranked, not timed: nothing ran, {}", to_string(options.search),
                         first->failure);
    }
    return fmt::format("{}: ranked, not timed: the budget of {:.0f} ms was spent before",
                       to_string(options.search), options.search_budget_ms);
  }
  std::string reason = fmt::format("{}: fastest of {} timed in full", to_string(options.search),
                                   count_timed(search, &SearchTraceEntry::full));
  if (search.proxies) {
    reason += fmt::format(", the best of {} timed by proxy",
                          count_timed(search, &SearchTraceEntry::proxy));
  }
  return reason + fmt::format(", of {} tiles that the rules leave of {}", search.entries.size(),
                              trace.space.candidates.size());
}

CompiledArtifact compile_searched(const CsrMatrix& matrix, const CompileOptions& options,
                                  const HostDeviceInfo& limits, const HostSearchSetup& setup,
                                  const TimeHostKernels& race) {
  CompileTrace trace = plan_choice(matrix, options, limits, setup.watch.cancel);
  setup.watch.stage("grouping");
  SearchSettings settings;
  settings.mode = options.search;
  settings.budget_ms = options.search_budget_ms;
  HostTunable space({matrix, options, limits, trace.tile, setup.model.get(), setup.watch.cancel},
                    race, setup.tuning);
  settings.stages = setup.stages.value_or(
      search_stages(options.search, options.search_contenders, space.traits().stand_ins_pay));
  CompileContext context = setup.watch;
  context.progress = options.on_search_progress;
  SearchOutcome found = search(space, settings, context);
  const auto start = Clock::now();
  HostArtifact artifact = space.artifact(found.trace.chosen, found.build.get());
  trace.search = std::move(found.trace);
  trace.space = space.space();
  trace.tile = space.tile(trace.search.chosen);
  trace.grouping = space.grouping(trace.search.chosen);
  trace.reason = search_reason(options, trace);
  trace.group_ms = trace.search.rank_ms;
  trace.emit_ms = trace.search.proxy_ms + trace.search.full_ms + ms_since(start);
  if (const std::string reason = over_budget(artifact, options); !reason.empty()) {
    trace.reason = "csr: " + reason;
    return compile_csr(matrix, options, std::move(trace), setup.watch.cancel);
  }
  return {std::move(artifact), std::move(trace)};
}

}  // namespace

CompileTrace plan_choice(const CsrMatrix& matrix, const CompileOptions& options,
                         const HostDeviceInfo& limits, const Cancellation& cancel) {
  HostChoice choice = choose_host_tile(problem_of(matrix, options, cancel), limits);
  CompileTrace trace;
  trace.tile = choice.tile;
  trace.reason = std::move(choice.reason);
  return trace;
}

CompiledArtifact compile_host(const CsrMatrix& matrix, const CompileOptions& options,
                              const HostDeviceInfo& limits, const TimeHostKernels& race,
                              const HostSearchSetup& setup) {
  const Cancellation& cancel = setup.watch.cancel;
  CompileTrace trace = plan_choice(matrix, options, limits, cancel);
  if (is_sliced(matrix, options, cancel)) {
    return compile_sliced(matrix, options, std::move(trace), cancel);
  }
  if (std::string reason = csr_reason(matrix, trace.tile, options); !reason.empty()) {
    trace.reason = std::move(reason);
    return compile_csr(matrix, options, std::move(trace), cancel);
  }
  if (options.search != SearchMode::instant) {
    const std::string too_large = too_large_to_time(matrix, options);
    if (too_large.empty()) return compile_searched(matrix, options, limits, setup, race);
    trace.reason = too_large + trace.reason;
  }
  return compile_choice(matrix, options, std::move(trace), setup.watch);
}

}  // namespace spjit
