#include "compiler/pipeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "compiler/kernel_plan.hpp"
#include "compiler/row_groupings.hpp"
#include "compiler/tile_space.hpp"
#include "matrix/non_empty_rows.hpp"
#include "rankmodel/host_heuristic.hpp"
#include "reorder/row_grouping.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

#ifdef SPJIT_HAVE_LLVM
constexpr bool k_have_llvm = true;
#else
constexpr bool k_have_llvm = false;
#endif

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

std::int64_t ldb_of(const CompileOptions& options) {
  return options.ldb > 0 ? options.ldb : options.n;
}

HostProblem problem_of(const CsrMatrix& matrix, const CompileOptions& options) {
  HostProblem problem;
  problem.rows = non_empty_rows(matrix);
  problem.cols = matrix.cols;
  problem.nnz = matrix.nnz();
  problem.n = options.n;
  problem.ldb = ldb_of(options);
  problem.threads = options.threads;
  problem.panel_columns = options.panel_columns;
  return problem;
}

HostArtifact emit(const CsrMatrix& matrix, const RowGrouping& grouping, const HostTile& tile,
                  const CompileOptions& options) {
  const std::int64_t block =
      tile.k_block > 0 ? tile.k_block : std::max<std::int64_t>(matrix.cols, 1);
  const KernelPlan plan = build_plan(matrix, grouping, block);
  return make_unrolled_artifact(plan, tile, options.target.isa(), options.n,
                                tile.pack_b ? 0 : ldb_of(options));
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
  if (bytes > options.code_budget_bytes) {
    return fmt::format("csr: at least {} bytes of code for {} nonzeros, the budget is {}", bytes,
                       matrix.nnz(), options.code_budget_bytes);
  }
  return {};
}

CompiledArtifact compile_csr(const CsrMatrix& matrix, const CompileOptions& options,
                             CompileTrace trace, std::string reason) {
  trace.reason = std::move(reason);
  return {make_csr_artifact(matrix, options.target.isa(), options.n), std::move(trace)};
}

/// How far code is over its budget, or empty: estimates let tiles through that need a little more.
std::string over_budget(const HostArtifact& artifact, const CompileOptions& options) {
  if (static_cast<std::int64_t>(artifact.text.size()) <= options.code_budget_bytes) return {};
  return fmt::format("{} bytes of code, the budget is {}", artifact.text.size(),
                     options.code_budget_bytes);
}

CompiledArtifact compile_choice(const CsrMatrix& matrix, const CompileOptions& options,
                                CompileTrace trace) {
  auto start = Clock::now();
  const RowGrouping grouping = group_rows(matrix, trace.tile.m1, options.reorder);
  trace.group_ms = ms_since(start);
  trace.grouping = compute_statistics(matrix, grouping);

  start = Clock::now();
  HostArtifact artifact = emit(matrix, grouping, trace.tile, options);
  trace.emit_ms = ms_since(start);
  if (std::string reason = over_budget(artifact, options); !reason.empty()) {
    return compile_csr(matrix, options, std::move(trace), "csr: " + reason);
  }
  return {std::move(artifact), std::move(trace)};
}

/// Which candidate to keep: the fastest of those that could be timed, else the first.
std::size_t fastest(const std::vector<TimedCandidate>& times) {
  std::size_t winner = 0;
  for (std::size_t i = 1; i < times.size(); ++i) {
    const bool beaten =
        !times[winner].failure.empty() || times[i].median_us < times[winner].median_us;
    if (times[i].failure.empty() && beaten) winner = i;
  }
  return winner;
}

/// Emits survivors batch after batch until the budget is spent, times each batch, keeps the best.
/// A batch is small so that its code does not crowd memory; the best so far runs in every batch, so
/// that drift between batches cannot decide.
CompiledArtifact compile_exhaustive(const CsrMatrix& matrix, const CompileOptions& options,
                                    const HostLimits& limits, CompileTrace trace,
                                    const TimeArtifacts& time_artifacts) {
  RowGroupings groupings(matrix, options.reorder);
  trace.space =
      enumerate_host_tiles(matrix, options, limits,
                           [&](std::int64_t m1) -> const RowGrouping& { return groupings.at(m1); });
  std::vector<HostTile> tiles = {trace.tile};
  for (const TileCandidate& candidate : trace.space.survivors()) {
    if (candidate.tile != trace.tile) tiles.push_back(candidate.tile);
  }
  const auto start = Clock::now();
  constexpr std::size_t k_batch = 8;
  HostArtifact best = emit(matrix, groupings.at(tiles[0].m1), tiles[0], options);
  if (std::string reason = over_budget(best, options); !reason.empty()) {
    return compile_csr(matrix, options, std::move(trace), "csr: " + reason);
  }
  std::size_t next = 1;
  while (next < tiles.size() && ms_since(start) < options.search_budget_ms) {
    const bool first_batch = next == 1;
    std::vector<HostArtifact> batch = {std::move(best)};
    std::vector<HostTile> batch_tiles = {trace.tile};
    for (; next < tiles.size() && batch.size() < k_batch; ++next) {
      HostArtifact artifact = emit(matrix, groupings.at(tiles[next].m1), tiles[next], options);
      if (std::string reason = over_budget(artifact, options); !reason.empty()) {
        trace.timed.push_back({tiles[next], 0, 0, 0, 0, std::move(reason)});
        continue;
      }
      batch.push_back(std::move(artifact));
      batch_tiles.push_back(tiles[next]);
    }
    std::vector<TimedCandidate> times = time_artifacts(batch);
    const std::size_t winner = fastest(times);
    for (std::size_t i = first_batch ? 0 : 1; i < times.size(); ++i) {
      times[i].tile = batch_tiles[i];
      trace.timed.push_back(times[i]);
    }
    best = std::move(batch[winner]);
    trace.tile = batch_tiles[winner];
  }
  trace.grouping = compute_statistics(matrix, groupings.at(trace.tile.m1));
  const auto timed = std::ranges::count_if(
      trace.timed, [](const TimedCandidate& candidate) { return candidate.failure.empty(); });
  trace.reason = fmt::format("exhaustive: fastest of {} timed candidates, {} not reached", timed,
                             tiles.size() - next);
  return {std::move(best), std::move(trace)};
}

}  // namespace

CompileTrace plan_choice(const CsrMatrix& matrix, const CompileOptions& options,
                         const HostLimits& limits) {
  HostChoice choice = choose_host_tile(problem_of(matrix, options), limits);
  CompileTrace trace;
  trace.tile = choice.tile;
  trace.reason = std::move(choice.reason);
  return trace;
}

CompiledArtifact compile_host(const CsrMatrix& matrix, const CompileOptions& options,
                              const HostLimits& limits, const TimeArtifacts& time_artifacts) {
  CompileTrace trace = plan_choice(matrix, options, limits);
  if (std::string reason = csr_reason(matrix, trace.tile, options); !reason.empty()) {
    return compile_csr(matrix, options, std::move(trace), std::move(reason));
  }
  if (options.search == SearchMode::exhaustive) {
    return compile_exhaustive(matrix, options, limits, std::move(trace), time_artifacts);
  }
  return compile_choice(matrix, options, std::move(trace));
}

}  // namespace spjit
