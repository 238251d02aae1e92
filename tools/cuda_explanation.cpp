#include "cuda_explanation.hpp"

#include <fmt/format.h>

#include "attempt.hpp"
#include "cuda_space_table.hpp"
#include "explanation.hpp"
#include "kernels/unrolled_cuda/cuda_record.hpp"
#include "runtime/cuda/local_gpus.hpp"
#include "search_table.hpp"
#include "spjit/error.hpp"

namespace spjit::cli {
namespace {

void go_through_stages(CudaExplanation& explanation, const KernelOptions& options) {
  CsrMatrix matrix = load_matrix(explanation.path, options.load);
  matrix.sort_columns();
  explanation.matrix = compute_statistics(matrix);
  explanation.limits = cuda_device_info_of(options.compile.target);
  explanation.choice = choose_cuda_tile(matrix, options.compile, explanation.limits);
}

std::string choice_text(const CudaCandidate& chosen) {
  return fmt::format(
      "  {} x {} blocks of {} threads, {} on an SM at once\n"
      "  {} registers a thread predicted: {} accumulators, {} of B in flight, {} others\n"
      "  about {} KiB of code, {:.2f} FMAs a load, nonzeros of row tiles vary by {:.3f}\n",
      chosen.blocks / chosen.column_tiles, chosen.column_tiles, chosen.tile.n1,
      chosen.occupancy.active_blocks, chosen.registers.total(), chosen.registers.accumulators,
      chosen.registers.b_in_flight, chosen.registers.addressing, chosen.code_bytes >> 10,
      chosen.grouping.fmas_per_load, chosen.grouping.tile_nnz_cv);
}

std::string search_text(const SearchTrace& search, const Terminal& terminal) {
  return search.entries.empty() ? "" : "\n" + search_table(search, terminal);
}

}  // namespace

CudaExplanation explain_cuda(const std::filesystem::path& path, const KernelOptions& options) {
  CudaExplanation explanation;
  explanation.path = path;
  explanation.error = attempt(path, [&] { go_through_stages(explanation, options); });
  return explanation;
}

std::string explanation_text(const CudaExplanation& explanation, const KernelOptions& options,
                             const Terminal& terminal) {
  const CudaChoice& choice = explanation.choice;
  return fmt::format("{}\n{}  n           {}\n  device      {} ({}, {} SMs)\n\n{}\n  {}\n{}\n{}",
                     bold(shown(explanation.path), terminal), matrix_text(explanation.matrix),
                     options.compile.n, explanation.limits.product, explanation.limits.name(),
                     explanation.limits.sms,
                     bold("Choice: " + to_string(choice.chosen.tile), terminal), choice.reason,
                     choice_text(choice.chosen),
                     cuda_space_table({choice.space, choice.ranked, choice.chosen.tile}, terminal) +
                         search_text(choice.search, terminal));
}

Json describe(const CudaExplanation& explanation) {
  Json json = {{"file", explanation.path.string()}, {"error", nullptr}};
  if (!explanation.error.empty()) {
    json["error"] = explanation.error;
    return json;
  }
  const CudaChoice& choice = explanation.choice;
  json["matrix"] = describe(explanation.matrix);
  json["device"] = explanation.limits.name();
  json["choice"] = {{"kind", "cuda"},
                    {"tile", Json(to_json(choice.chosen.tile))},
                    {"reason", choice.reason},
                    {"code_bytes", choice.chosen.code_bytes}};
  const Json space = to_json(choice.space);
  json["candidates"] = space.at("candidates");
  json["relaxed_rules"] = space.at("relaxed");
  Json ranked = Json::array();
  for (const CudaCandidate& candidate : choice.ranked) {
    ranked.push_back({{"tile", to_string(candidate.tile)}, {"score", candidate.score}});
  }
  json["ranked"] = std::move(ranked);
  json["choice"]["search"] =
      choice.search.entries.empty() ? Json(nullptr) : Json(to_json(choice.search));
  return json;
}

}  // namespace spjit::cli
