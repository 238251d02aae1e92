#include "compiler/compile_record.hpp"

#include "matrix/cancellable.hpp"
#include "proxy/search_trace.hpp"
#include "spjit/version.hpp"

namespace spjit {
namespace {

using nlohmann::json;

json search_json(const CompileOptions& options, const CompileTrace& trace) {
  json search;
  if (options.search == SearchMode::instant) {
    search = {{"mode", std::string(to_string(options.search))}, {"timed", false}};
  } else {
    search = to_json(trace.search);
    search["space"] = to_json(trace.space);
  }
  search["reason"] = trace.reason;
  return search;
}

}  // namespace

json matrix_json(const CsrMatrix& matrix, const Cancellation& cancel) {
  const MatrixStatistics statistics = compute_statistics(matrix, cancel);
  return {{"rows", statistics.rows},
          {"cols", statistics.cols},
          {"nnz", statistics.nnz},
          {"sparsity", statistics.sparsity},
          {"empty_rows", statistics.empty_rows}};
}

json to_json(const HostTile& tile) {
  return {{"name", to_string(tile)},
          {"m1", tile.m1},
          {"nv", tile.nv},
          {"k_block", tile.k_block},
          {"panel_group", tile.panel_group},
          {"row_group", tile.row_group},
          {"pack_b", tile.pack_b},
          {"memory_rows", tile.memory_rows},
          {"stream_c", tile.stream_c}};
}

json to_json(const GroupingStatistics& grouping) {
  return {{"tiles", grouping.tiles},
          {"nnc_sum", grouping.nnc_sum},
          {"nnc_max", grouping.nnc_max},
          {"nnc_mean", grouping.nnc_mean},
          {"tile_nnz_min", grouping.tile_nnz_min},
          {"tile_nnz_max", grouping.tile_nnz_max},
          {"tile_nnz_cv", grouping.tile_nnz_cv},
          {"fmas_per_load", grouping.fmas_per_load}};
}

json to_json(const TileSpace& space) {
  json result = {{"candidates", json::array()}, {"relaxed", json::array()}};
  for (const TileRule rule : space.relaxed) result["relaxed"].push_back(to_string(rule));
  for (const TileCandidate& candidate : space.candidates) {
    json entry = {{"tile", to_string(candidate.tile)},
                  {"registers", candidate.registers},
                  {"code_bytes", candidate.code_bytes},
                  {"utilisation", candidate.utilisation},
                  {"column_padding", candidate.column_padding}};
    if (candidate.dropped) {
      entry["dropped"] = {{"rule", to_string(candidate.dropped->rule)},
                          {"numbers", candidate.dropped->numbers}};
    }
    result["candidates"].push_back(std::move(entry));
  }
  return result;
}

json make_record(const CsrMatrix& matrix, const CompileOptions& options,
                 const HostDeviceInfo& limits, const CompiledArtifact& compiled,
                 const Cancellation& cancel) {
  const CompileTrace& trace = compiled.trace;
  // Kernels that read A have no tile.
  const bool has_tile = trace.kind == KernelKind::unrolled;
  return {{"spjit", SPJIT_VERSION},
          {"target", options.target.name()},
          {"device", limits.name},
          {"matrix", matrix_json(matrix, cancel)},
          {"n", options.n},
          {"ldb", options.ldb},
          {"threads", options.threads},
          {"reorder", std::string(to_string(options.reorder))},
          {"kind", to_string(trace.kind)},
          {"tile", has_tile ? to_json(trace.tile) : json(nullptr)},
          {"grouping", has_tile ? to_json(trace.grouping) : json(nullptr)},
          {"search", search_json(options, trace)},
          {"code_bytes", compiled.artifact.text.size()},
          {"code_budget_bytes", options.code_budget_bytes},
          {"weight_bytes", compiled.artifact.weights.size() * 4},
          {"compile_ms", {{"group", trace.group_ms}, {"emit", trace.emit_ms}}}};
}

void apply_record(const json& record, KernelInfo& info) {
  const auto search = record.find("search");
  if (search == record.end() || !search->is_object()) return;
  const auto reason = search->find("reason");
  if (reason != search->end() && reason->is_string()) info.reason = reason->get<std::string>();
}

}  // namespace spjit
