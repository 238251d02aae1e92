#include "cuda_layer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "attempt.hpp"

namespace spjit::cli {
namespace {

bool is_timed(const CudaLayer& layer) { return layer.record.at("search").at("timed").get<bool>(); }

void process(CudaLayer& layer, const Compiler& compiler, const LayerOptions& options) {
  const CsrMatrix matrix = load_matrix(layer.path, options.kernel.load);
  layer.statistics = compute_statistics(matrix);
  const Kernel kernel = compiler.compile_cuda(matrix, control_of(options));
  layer.info = kernel.info();
  layer.record = Json::parse(kernel.record());
  if (!layer.info->note.empty()) layer.notes.push_back(layer.info->note);
  if (options.kernel.compile.policy.search != SearchMode::instant && !is_timed(layer)) {
    layer.notes.push_back(layer.info->reason);
  }
  add_extent(layer.notes, layer.info->verification);
  if (!options.emit.directory.empty()) {
    layer.files = emit_files(options.emit, layer.name, kernel, describe(layer));
  }
  require_cached(layer.info->not_cached, options.kernel.cache);
}

Json describe(const CudaKernelInfo& info) {
  return {{"kind", "cuda"},
          {"target", info.target.name()},
          {"device", info.device},
          {"tile", info.tile},
          {"reason", info.reason},
          {"compiled_from", info.compiled_from},
          {"toolchain", info.toolchain},
          {"threads", info.threads},
          {"blocks_x", info.blocks_x},
          {"blocks_y", info.blocks_y},
          {"predicted_registers", info.predicted_registers},
          {"registers", info.registers},
          {"spilled_bytes", info.spilled_bytes},
          {"active_blocks", info.active_blocks},
          {"code_bytes", info.code_bytes},
          {"key", info.key},
          {"from_cache", info.from_cache},
          {"cache_directory", info.from_cache ? Json(info.cache_directory) : Json(nullptr)},
          {"compile_ms", info.compile_ms}};
}

std::vector<std::string> table_row(const CudaLayer& layer) {
  const CudaKernelInfo& info = *layer.info;
  return {layer.path.filename().string(),
          fmt::format("{}x{}", info.rows, info.cols),
          fmt::format("{:.1f} %", 100 * layer.statistics.sparsity),
          info.tile,
          std::to_string(info.predicted_registers),
          std::to_string(info.registers),
          std::to_string(info.spilled_bytes),
          std::to_string(info.active_blocks),
          std::to_string(info.code_bytes >> 10),
          info.from_cache ? "hit" : "new",
          fmt::format("{:.1f}", info.compile_ms),
          error_text(info.verification)};
}

/// Of which layers the tile was not chosen by times, if of any.
std::string not_timed_text(const std::vector<std::string>& not_timed, std::size_t rows) {
  if (not_timed.empty()) return "";
  if (not_timed.size() == rows) return "Ranked, not timed.\n";
  return fmt::format("Ranked, not timed: {}.\n", fmt::join(not_timed, ", "));
}

}  // namespace

CudaLayer process_cuda_layer(const std::filesystem::path& path, const std::string& name,
                             const Compiler& compiler, const LayerOptions& options) {
  CudaLayer layer;
  layer.path = path;
  layer.name = name;
  layer.error = attempt(path, [&] { process(layer, compiler, options); });
  return layer;
}

std::string summarize(const CudaLayer& layer) {
  const CudaKernelInfo& info = *layer.info;
  return fmt::format("{}: {}x{} {:.1f} % for {}, {} in {:.1f} ms, tile {}, {} registers",
                     layer.path.string(), info.rows, info.cols, 100 * layer.statistics.sparsity,
                     info.target.name(), info.from_cache ? "loaded from the cache" : "compiled",
                     info.compile_ms, info.tile, info.registers);
}

Json describe(const CudaLayer& layer) {
  Json json = {{"file", layer.path.string()}, {"name", layer.name}};
  json["error"] = layer.failed() ? Json(layer.error) : Json(nullptr);
  if (!layer.info) return json;
  json["rows"] = layer.info->rows;
  json["cols"] = layer.info->cols;
  json["n"] = layer.info->n;
  json["nnz"] = layer.info->nnz;
  json["sparsity"] = layer.statistics.sparsity;
  json["kernel"] = describe(*layer.info);
  json["verification"] = describe(layer.info->verification);
  Json files = Json::array();
  for (const auto& file : layer.files) files.push_back(file.string());
  json["files"] = std::move(files);
  json["notes"] = layer.notes;
  json["record"] = layer.record;
  return json;
}

std::string layer_table(const std::vector<CudaLayer>& layers, const Terminal& terminal) {
  using enum Column::Align;
  Table table({{"file", left},
               {"shape"},
               {"sparsity"},
               {"tile", left},
               {"predicted"},
               {"registers"},
               {"spilled"},
               {"blocks/SM"},
               {"code KiB"},
               {"cache", left},
               {"compile ms"},
               {"max error"}});
  std::string notes;
  std::vector<std::string> not_timed;
  std::size_t rows = 0;
  for (const CudaLayer& layer : layers) {
    if (layer.failed()) continue;
    table.add(table_row(layer));
    ++rows;
    if (!is_timed(layer)) not_timed.push_back(shown(layer.path.filename()));
    for (const std::string& note : layer.notes) {
      notes += fmt::format("{}: {}\n", shown(layer.path.filename()), one_line(note));
    }
  }
  if (rows == 0) return "";
  return table.text(terminal) + not_timed_text(not_timed, rows) +
         (notes.empty() ? "" : "\n" + notes);
}

}  // namespace spjit::cli
