#include "tools/report/explanation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <utility>

#include "artifact/families.hpp"
#include "base/thread_pool.hpp"
#include "base/timing.hpp"
#include "compiler/compile_options.hpp"
#include "compiler/pipeline.hpp"
#include "kernels/kernel_record.hpp"
#include "plan/formula.hpp"
#include "plan/operation.hpp"
#include "plan/problem.hpp"
#include "proxy/search.hpp"
#include "rankmodel/rank_model.hpp"
#include "runtime/device.hpp"
#include "tools/options/inputs.hpp"
#include "tools/report/search_svg.hpp"
#include "tools/report/search_table.hpp"
#include "tools/report/table.hpp"
#include "tools/report/tile_space_view.hpp"

namespace spjit::cli {
namespace {

constexpr std::array k_algorithms = {ReorderAlgorithm::none, ReorderAlgorithm::balanced,
                                     ReorderAlgorithm::similarity};

GroupingReport examine_grouping(const CsrMatrix& matrix, std::int64_t m1,
                                ReorderAlgorithm algorithm) {
  const auto start = std::chrono::steady_clock::now();
  const RowGrouping grouping = group_rows(matrix, m1, algorithm);
  const double ms = ms_since(start);
  return {algorithm, compute_statistics(matrix, grouping), ms};
}

/// Times candidates as the policy says. An exhaustive search times the proxies too, for the plot of
/// one against the other.
SearchOutcome search_all(TunableSpace& space, const FamilyRequest& what,
                         std::chrono::steady_clock::time_point begin) {
  const SearchPolicy& policy = what.options.policy;
  SearchSettings settings = settings_of(policy, space, begin);
  settings.budget_ms = search_budget_ms(what);
  if (policy.search == SearchMode::exhaustive) {
    settings.stages.stand_ins = true;
    settings.stages.finalists = k_every_candidate;
  }
  return search(space, settings, {});
}

void go_through_stages(Explanation& explanation, const Input& input, const KernelOptions& options,
                       Detail detail) {
  const Problem problem = checked_problem(load_problem(input, options_for(input, options)));
  explanation.problem = problem;
  explanation.problem.a = {};
  explanation.matrix = compute_statistics(*problem.a);

  const CompileOptions compile = checked_options(options.compile);
  const DeviceInfo device = device_info_of(compile.target);
  const Cancellation cancel;
  const CompileContext context;
  const FamilyRequest what{problem, compile, device, cancel};
  BuildRequest request{what, context, std::make_shared<WorkerPool>(compile.resources.threads),
                       rank_model_of(compile)};
  request.search = [&](TunableSpace& space, auto begin) {
    SearchOutcome outcome = search_all(space, what, begin);
    explanation.search = outcome.trace;
    return outcome;
  };
  request.modelled = [&](const SearchTrace& trace) { explanation.search = trace; };
  const RaceKernels race = race_within_budget(what, context, request.pool);
  explanation.record = explain_problem(request, families_for(compile.target), race);
  // Of a family that was not taken.
  if (!explanation.record.at("tile").is_object()) explanation.search = {};
  const Json& tile = explanation.record.at("tile");
  if (detail == Detail::choice || !tile.is_object() || !tile.contains("m1")) return;
  for (const ReorderAlgorithm algorithm : k_algorithms) {
    explanation.groupings.push_back(
        examine_grouping(*problem.a, tile.at("m1").get<std::int64_t>(), algorithm));
  }
}

std::string grouping_text(const Explanation& explanation, const Terminal& terminal) {
  if (explanation.groupings.empty()) return "";
  const Json& record = explanation.record;
  const std::string asked = record.at("policy").at("reorder").get<std::string>();
  const std::string chosen =
      record.at("tile").value("reorder", asked == to_string(ReorderAlgorithm::automatic)
                                             ? std::string(to_string(ReorderAlgorithm::similarity))
                                             : asked);
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
    const std::string name(to_string(report.algorithm));
    table.add({name == chosen ? "*" : " ", name, std::to_string(statistics.tiles),
               std::to_string(statistics.nnc_sum), std::to_string(statistics.nnc_max),
               fmt::format("{:.1f}", statistics.nnc_mean),
               fmt::format("{} to {}", statistics.tile_nnz_min, statistics.tile_nnz_max),
               fmt::format("{:.3f}", statistics.tile_nnz_cv),
               fmt::format("{:.2f}", statistics.fmas_per_load), fmt::format("{:.1f}", report.ms)});
  }
  const std::string title =
      fmt::format("Rows in tiles of {}", record.at("tile").at("m1").get<std::int64_t>());
  return "\n" + bold(title, terminal) + "\n" + table.text(terminal);
}

/// "sms=132, predicted.addressing=3"; `path`: of the members that `value` is in.
std::string flat_text(const Json& value, const std::string& path = "") {
  if (!value.is_object()) {
    std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    return path.empty() ? text : fmt::format("{}={}", path, text);
  }
  std::string text;
  for (const auto& [name, member] : value.items()) {
    text += text.empty() ? "" : ", ";
    text += flat_text(member, path.empty() ? name : fmt::format("{}.{}", path, name));
  }
  return text;
}

/// What ranked the tiles, with the label of a model that needs one; empty: nothing did.
std::string ranked_by_of(const Json& record) {
  return record.at("search").value("ranked_by", std::string());
}

/// What families said, then the members of the record that only this family has.
std::string choice_text(const Json& record) {
  constexpr std::array k_common = {"spjit",  "family",   "verdicts", "target",    "device",
                                   "matrix", "problem",  "policy",   "threads",   "tile",
                                   "search", "grouping", "note",     "compile_ms"};
  std::string text = fmt::format("  {}\n", record.at("search").at("reason").get<std::string>());
  const std::string ranked_by = ranked_by_of(record);
  if (!ranked_by.empty() && ranked_by != k_prior_name) {
    text += fmt::format("  tiles ranked by {}\n", ranked_by);
  }
  for (const Json& verdict : record.at("verdicts")) {
    const auto family = verdict.at("family").get<std::string>();
    if (family == record.at("family").get<std::string>()) continue;
    text += fmt::format("  not {}: {}\n", family, verdict.at("reason").get<std::string>());
  }
  for (const auto& [name, member] : record.items()) {
    if (std::ranges::find(k_common, name) != k_common.end()) continue;
    text += fmt::format("  {:<13}{}\n", name, flat_text(member));
  }
  return text;
}

/// The card's name on a GPU, which is a target; else the product's.
std::string device_of(const Json& record) {
  const Json card = record.value("card", Json::object());
  const Json& name = card.contains("arch") ? card.at("name") : record.at("device");
  return name.get<std::string>();
}

Json describe_choice(const Explanation& explanation) {
  const Json& record = explanation.record;
  Json search = nullptr;
  if (!explanation.search.entries.empty()) {
    search = record.at("search");
    search.erase("space");
  }
  return {{"family", record.at("family")},
          {"tile", record.at("tile")},
          {"reason", record.at("search").at("reason")},
          {"verdicts", record.at("verdicts")},
          {"code_bytes", record.value("code_bytes", Json())},
          {"search", std::move(search)}};
}

/// Each with "dropped", null for those that were kept.
Json describe_candidates(const Json& space) {
  Json candidates = Json::array();
  if (space.is_null()) return candidates;
  for (Json candidate : space.at("candidates")) {
    if (!candidate.contains("dropped")) candidate["dropped"] = nullptr;
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

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

std::string problem_text(const Problem& problem) {
  const std::string details = rules_of(problem).details(sizes_of(problem));
  return fmt::format(
      "  computes    C = {}{}\n"
      "  n           {}\n"
      "  layout      {}\n{}{}",
      formula_of(problem.epilogue), problem.runtime_values ? ", A's values at run time" : "",
      columns_text(problem.n), layouts_text(problem.b.layout, problem.c.layout),
      problem.numerics.is_default()
          ? ""
          : fmt::format("  types       {}\n", to_string(problem.numerics)),
      details.empty() ? "" : fmt::format("  image       {}\n", details));
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

}  // namespace

Json Explanation::space() const { return record.at("search").value("space", Json()); }

std::string Explanation::tile() const {
  const Json& chosen = record.at("tile");
  return chosen.is_object() ? chosen.at("name").get<std::string>() : "";
}

Explanation explain(const Input& input, const KernelOptions& options, Detail detail) {
  Explanation explanation;
  explanation.path = input.path;
  explanation.error = input.problem;
  if (!explanation.error.empty()) return explanation;
  explanation.error =
      attempt(input.path, [&] { go_through_stages(explanation, input, options, detail); });
  return explanation;
}

std::string explanation_text(const Explanation& explanation, const Terminal& terminal) {
  const Json& record = explanation.record;
  const std::string family = record.at("family").get<std::string>();
  const std::string tile = explanation.tile();
  const Json space = explanation.space();
  std::string text = fmt::format(
      "{}\n{}{}  device      {} ({})\n\n{}\n{}", bold(shown(explanation.path), terminal),
      matrix_text(explanation.matrix), problem_text(explanation.problem),
      record.at("device").get<std::string>(), record.at("target").get<std::string>(),
      bold("Choice: " + (tile.empty() ? "a kernel of the family " + family : tile), terminal),
      choice_text(record));
  text += grouping_text(explanation, terminal);
  if (!space.is_null()) text += "\n" + tile_space_table(space, tile, terminal);
  const std::string searched = search_table(explanation.search, terminal);
  return text + (searched.empty() ? "" : "\n" + searched);
}

std::string explanation_svg(const Explanation& explanation) {
  const Json& record = explanation.record;
  const std::string title =
      fmt::format("{}, n = {}, {}", shown(explanation.path.filename()),
                  columns_text(explanation.problem.n), record.at("device").get<std::string>());
  const SearchTrace& search = explanation.search;
  if (!search.entries.empty() && !search.modelled) return search_svg(search, title);
  const Json space = explanation.space();
  return space.is_null() ? "" : tile_space_svg(space, explanation.tile(), title);
}

Json describe(const Explanation& explanation) {
  Json json = {{"file", explanation.path.string()}, {"error", nullptr}};
  if (!explanation.error.empty()) {
    json["error"] = explanation.error;
    return json;
  }
  const Json space = explanation.space();
  json["matrix"] = describe(explanation.matrix);
  json["problem"] = describe(explanation.problem);
  json["device"] = device_of(explanation.record);
  json["choice"] = describe_choice(explanation);
  const std::string ranked_by = ranked_by_of(explanation.record);
  json["ranked_by"] = ranked_by.empty() ? Json() : Json(ranked_by);
  if (!explanation.groupings.empty()) json["m1"] = explanation.record.at("tile").at("m1");
  json["groupings"] = Json::object();
  for (const GroupingReport& report : explanation.groupings) {
    Json entry = to_json(report.statistics);
    entry["ms"] = report.ms;
    json["groupings"][std::string(to_string(report.algorithm))] = std::move(entry);
  }
  json["candidates"] = describe_candidates(space);
  json["relaxed_rules"] = space.is_null() ? Json::array() : space.at("relaxed");
  if (!space.is_null() && space.contains("ranked")) json["ranked"] = space.at("ranked");
  return json;
}

}  // namespace spjit::cli
