#include "explanation.hpp"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <memory>
#include <span>

#include "attempt.hpp"
#include "base/thread_pool.hpp"
#include "compiler/compile_record.hpp"
#include "kernels/unrolled_host/host_rank_model.hpp"
#include "kernels/unrolled_host/host_timer.hpp"
#include "kernels/unrolled_host/tile_space.hpp"
#include "reorder/row_groupings.hpp"
#include "search_table.hpp"
#include "spjit/error.hpp"
#include "table.hpp"

namespace spjit::cli {
namespace {

constexpr std::array k_algorithms = {ReorderAlgorithm::none, ReorderAlgorithm::balanced,
                                     ReorderAlgorithm::similarity};

GroupingReport examine_grouping(const CsrMatrix& matrix, std::int64_t m1,
                                ReorderAlgorithm algorithm) {
  const auto start = std::chrono::steady_clock::now();
  const RowGrouping grouping = group_rows(matrix, m1, algorithm);
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
  return {algorithm, compute_statistics(matrix, grouping), time.count()};
}

TileSpace enumerate(const CsrMatrix& matrix, const CompileOptions& options,
                    const HostDeviceInfo& limits) {
  RowGroupings groupings(matrix, options.policy.reorder);
  return enumerate_host_tiles(matrix, options, limits,
                              [&](std::int64_t m1) { return groupings.statistics(m1); });
}

/// An exhaustive search times the proxies too, for the plot of one against the other.
SearchStages stages_of(const CompileOptions& options, std::int64_t nnz) {
  SearchStages stages =
      search_stages(options.policy.search, options.policy.top_k, host_proxies_pay(nnz, options.n));
  if (options.policy.search == SearchMode::exhaustive) {
    stages.stand_ins = true;
    stages.finalists = k_every_candidate;
  }
  return stages;
}

void go_through_stages(Explanation& explanation, const KernelOptions& options) {
  CsrMatrix matrix = load_matrix(explanation.path, options.load);
  explanation.matrix = compute_statistics(matrix);

  CompileOptions compile = options.compile;
  compile.threads = resolve_threads(compile.threads);
  explanation.limits = host_device_info(compile.target.isa());
  const auto pool = std::make_shared<ThreadPool>(compile.threads);
  CompiledArtifact compiled = compile_host(
      matrix, compile, explanation.limits,
      [&](std::span<const HostTuningCandidate> contestants, const TuningOptions& race_options) {
        return time_host_kernels(contestants, race_options, compile.ldb, pool);
      },
      {.model = host_rank_model(compile), .stages = stages_of(compile, matrix.nnz())});
  if (compiled.trace.search.entries.empty()) {
    explanation.space = enumerate(matrix, compile, explanation.limits);
  } else {
    explanation.space = compiled.trace.space;
    explanation.search = compiled.trace.search;
  }
  explanation.code_bytes = static_cast<std::int64_t>(compiled.artifact.text.size());
  explanation.kind = read_program(compiled.artifact.image()).kind;
  explanation.trace = std::move(compiled.trace);
  for (const ReorderAlgorithm algorithm : k_algorithms) {
    explanation.groupings.push_back(examine_grouping(matrix, explanation.trace.tile.m1, algorithm));
  }
}

std::string grouping_table(const Explanation& explanation, ReorderAlgorithm chosen,
                           const Terminal& terminal) {
  Table table({{"", Column::Align::left},
               {"reorder", Column::Align::left},
               {"tiles"},
               {"nnc sum"},
               {"nnc max"},
               {"nnc mean"},
               {"tile nnz"},
               {"cv of nnz"},
               {"FMAs a load"},
               {"ms"}});
  for (const GroupingReport& report : explanation.groupings) {
    const GroupingStatistics& statistics = report.statistics;
    table.add({report.algorithm == chosen ? "*" : " ", std::string(to_string(report.algorithm)),
               std::to_string(statistics.tiles), std::to_string(statistics.nnc_sum),
               std::to_string(statistics.nnc_max), fmt::format("{:.1f}", statistics.nnc_mean),
               fmt::format("{} to {}", statistics.tile_nnz_min, statistics.tile_nnz_max),
               fmt::format("{:.3f}", statistics.tile_nnz_cv),
               fmt::format("{:.2f}", statistics.fmas_per_load), fmt::format("{:.1f}", report.ms)});
  }
  return table.text(terminal);
}

std::string verdict(const TileCandidate& candidate) {
  if (!candidate.dropped) return "kept";
  return fmt::format("{}: {}", to_string(candidate.dropped->rule), candidate.dropped->numbers);
}

std::string candidate_table(const Explanation& explanation, const Terminal& terminal) {
  Table table({{"", Column::Align::left},
               {"tile", Column::Align::left},
               {"registers"},
               {"panels"},
               {"padding"},
               {"use of threads"},
               {"code KiB"},
               {"FMAs a load"},
               {"kept, or the rule that dropped it", Column::Align::left}});
  for (const TileCandidate& candidate : explanation.space.candidates) {
    const bool chosen =
        explanation.kind == KernelKind::unrolled && candidate.tile == explanation.trace.tile;
    table.add({chosen ? "*" : " ", to_string(candidate.tile), std::to_string(candidate.registers),
               std::to_string(candidate.panels),
               fmt::format("{:.1f} %", 100 * candidate.column_padding),
               fmt::format("{:.1f} %", 100 * candidate.utilisation),
               std::to_string(candidate.code_bytes >> 10),
               fmt::format("{:.2f}", candidate.grouping.fmas_per_load), verdict(candidate)});
  }
  return table.text(terminal);
}

std::string relaxed_text(const TileSpace& space) {
  std::string text;
  for (const TileRule rule : space.relaxed) {
    text += fmt::format("The rule '{}' was relaxed: it left no candidate.\n", to_string(rule));
  }
  return text;
}

Json to_ordered(const nlohmann::json& json) { return json; }

Json describe(const TileCandidate& candidate) {
  Json json = {{"tile", to_ordered(to_json(candidate.tile))},
               {"registers", candidate.registers},
               {"panels", candidate.panels},
               {"column_padding", candidate.column_padding},
               {"utilisation", candidate.utilisation},
               {"code_bytes", candidate.code_bytes},
               {"grouping", to_ordered(to_json(candidate.grouping))},
               {"dropped", nullptr}};
  if (candidate.dropped) {
    json["dropped"] = {{"rule", to_string(candidate.dropped->rule)},
                       {"numbers", candidate.dropped->numbers}};
  }
  return json;
}

Json describe_choice(const Explanation& explanation) {
  Json json = {{"kind", to_string(explanation.kind)},
               {"tile", nullptr},
               {"reason", explanation.trace.reason},
               {"code_bytes", explanation.code_bytes}};
  if (explanation.kind == KernelKind::unrolled)
    json["tile"] = to_ordered(to_json(explanation.trace.tile));
  json["search"] = explanation.search ? to_ordered(to_json(*explanation.search)) : Json(nullptr);
  return json;
}

}  // namespace

std::string matrix_text(const MatrixStatistics& matrix) {
  return fmt::format(
      "  shape       {} x {}, {} nonzeros, {:.2f} % sparse\n"
      "  rows        {} to {} nonzeros, mean {:.1f}, coefficient of variation {:.2f}; {} empty\n"
      "  columns     {} empty\n"
      "  zeros       {} stored explicitly\n",
      matrix.rows, matrix.cols, matrix.nnz, 100 * matrix.sparsity, matrix.row_nnz_min,
      matrix.row_nnz_max, matrix.row_nnz_mean, matrix.row_nnz_cv, matrix.empty_rows,
      matrix.empty_cols, matrix.explicit_zeros);
}

Json describe(const MatrixStatistics& matrix) {
  return {{"rows", matrix.rows},
          {"cols", matrix.cols},
          {"nnz", matrix.nnz},
          {"sparsity", matrix.sparsity},
          {"empty_rows", matrix.empty_rows},
          {"empty_cols", matrix.empty_cols},
          {"explicit_zeros", matrix.explicit_zeros},
          {"row_nnz",
           {{"min", matrix.row_nnz_min},
            {"max", matrix.row_nnz_max},
            {"mean", matrix.row_nnz_mean},
            {"cv", matrix.row_nnz_cv}}}};
}

Explanation explain(const std::filesystem::path& path, const KernelOptions& options) {
  Explanation explanation;
  explanation.path = path;
  explanation.error = attempt(path, [&] { go_through_stages(explanation, options); });
  return explanation;
}

std::string explanation_text(const Explanation& explanation, const KernelOptions& options,
                             const Terminal& terminal) {
  const CompileTrace& trace = explanation.trace;
  const auto kept = explanation.space.survivors().size();
  const std::string choice =
      explanation.kind != KernelKind::unrolled
          ? fmt::format("a kernel of kind {}", to_string(explanation.kind))
          : fmt::format("{}, {} bytes of code", to_string(trace.tile), explanation.code_bytes);
  return fmt::format(
      "{}\n{}  n           {}\n  device      {} ({})\n\n"
      "{}\n  {}\n\n{}\n{}\n{}\n{}{}\n{}",
      bold(shown(explanation.path), terminal), matrix_text(explanation.matrix), options.compile.n,
      explanation.limits.name, options.compile.target.name(), bold("Choice: " + choice, terminal),
      trace.reason, bold(fmt::format("Rows in tiles of {}", trace.tile.m1), terminal),
      grouping_table(explanation, options.compile.policy.reorder, terminal),
      bold(fmt::format("{} candidates, {} kept", explanation.space.candidates.size(), kept),
           terminal),
      relaxed_text(explanation.space), candidate_table(explanation, terminal),
      explanation.search ? "\n" + search_table(*explanation.search, terminal) : "");
}

Json describe(const Explanation& explanation) {
  Json json = {{"file", explanation.path.string()}, {"error", nullptr}};
  if (!explanation.error.empty()) {
    json["error"] = explanation.error;
    return json;
  }
  json["matrix"] = describe(explanation.matrix);
  json["choice"] = describe_choice(explanation);
  Json groupings = Json::object();
  for (const GroupingReport& report : explanation.groupings) {
    Json entry = to_ordered(to_json(report.statistics));
    entry["ms"] = report.ms;
    groupings[std::string(to_string(report.algorithm))] = std::move(entry);
  }
  json["m1"] = explanation.trace.tile.m1;
  json["groupings"] = std::move(groupings);
  Json candidates = Json::array();
  for (const TileCandidate& candidate : explanation.space.candidates) {
    candidates.push_back(describe(candidate));
  }
  json["candidates"] = std::move(candidates);
  Json relaxed = Json::array();
  for (const TileRule rule : explanation.space.relaxed) relaxed.push_back(to_string(rule));
  json["relaxed_rules"] = std::move(relaxed);
  return json;
}

}  // namespace spjit::cli
