#include "kernels/cuda/unrolled/cuda_record.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/json_text.hpp"
#include "kernels/cuda/launch/card_json.hpp"
#include "kernels/kernel_record.hpp"
#include "kernels/tuning/space_json.hpp"
#include "spjit/error.hpp"

namespace spjit {

using nlohmann::json;

namespace {

json attempts_json(const std::vector<CudaAttempt>& attempts) {
  json list = json::array();
  for (const CudaAttempt& attempt : attempts) {
    list.push_back({{"min_blocks", attempt.min_blocks},
                    {"register_cap", attempt.register_cap},
                    {"registers", attempt.registers},
                    {"spilled_bytes", attempt.spilled_bytes},
                    {"build_ms", attempt.build_ms}});
  }
  return list;
}

json search_json(const CudaChoice& choice, SearchMode mode) {
  json search = {{"ranked_by", choice.ranked_by}, {"timed", false}};
  if (!choice.search.entries.empty()) search = to_json(choice.search);
  search["mode"] = std::string(to_string(mode));
  return search;
}

json resources_json(const CompiledCuda& compiled) {
  const CudaBuildTrace& trace = compiled.trace;
  const CudaAttempt& kept = trace.attempts.back();
  const RegisterPrediction& predicted = compiled.choice.chosen.registers;
  return {{"predicted_registers", predicted.total()},
          {"predicted", to_json(predicted)},
          {"registers", kept.registers},
          {"register_cap", kept.register_cap},
          {"spilled_bytes", kept.spilled_bytes},
          {"active_blocks", trace.occupancy.active_blocks},
          {"active_warps", trace.occupancy.active_warps},
          {"code_bytes", trace.code_bytes},
          {"estimated_code_bytes", compiled.choice.chosen.code_bytes}};
}

double build_ms(const CudaBuildTrace& trace) {
  double total = 0;
  for (const CudaAttempt& attempt : trace.attempts) total += attempt.build_ms;
  return total;
}

}  // namespace

json to_json(const CudaTile& tile) {
  return {{"name", to_string(tile)},
          {"m1", tile.m1},
          {"n1", tile.n1},
          {"tiles_a_block", tile.tiles_a_block},
          {"unit_nonzeros", tile.unit_nonzeros},
          {"runtime_sizes", tile.runtime_sizes},
          {"reorder", std::string(to_string(tile.reorder))},
          {"cap", std::string(to_string(tile.cap))}};
}

json to_json(const CudaTileSpace& space) {
  return space_json(space, [](const CudaCandidate& candidate) {
    json entry = {{"tile", to_json(candidate.tile)},
                  {"registers", candidate.registers.total()},
                  {"min_blocks", candidate.min_blocks},
                  {"register_cap", candidate.register_cap},
                  {"active_blocks", candidate.occupancy.active_blocks},
                  {"active_warps", candidate.occupancy.active_warps},
                  {"row_tiles", candidate.row_tiles},
                  {"column_tiles", candidate.column_tiles},
                  {"blocks", candidate.blocks},
                  {"waves", candidate.waves},
                  {"column_padding", candidate.column_padding},
                  {"tile_nnz_cv", candidate.grouping.tile_nnz_cv},
                  {"code_bytes", candidate.code_bytes}};
    if (!candidate.dropped) entry["score"] = candidate.score;
    return entry;
  });
}

json to_json(const RegisterPrediction& predicted) {
  return {{"accumulators", predicted.accumulators},
          {"b_in_flight", predicted.b_in_flight},
          {"values", predicted.values},
          {"addressing", predicted.addressing}};
}

json cuda_choice_record(const CudaChoice& choice, const FamilyRequest& what) {
  return {{"card", card_json(std::get<CudaDeviceInfo>(what.device))},
          {"tile", to_json(choice.chosen.tile)},
          {"grouping", to_json(choice.chosen.grouping)},
          {"search", search_json(choice, what.options.policy.search)}};
}

json cuda_record(const CompiledCuda& compiled, const FamilyRequest& what) {
  const CudaBuildTrace& trace = compiled.trace;
  json record = cuda_choice_record(compiled.choice, what);
  record.update({{"program", to_json(compiled.program)},
                 {"resources", resources_json(compiled)},
                 {"attempts", attempts_json(trace.attempts)},
                 {"compiled_from", trace.compiled_from},
                 {"toolchain", trace.toolchain},
                 {"units", trace.units},
                 {"code_bytes", trace.code_bytes},
                 {"note", trace.note},
                 {"compile_ms",
                  {{"group", compiled.choice.group_ms},
                   {"emit", trace.emit_ms},
                   {"build", build_ms(trace)}}}});
  return record;
}

}  // namespace spjit
