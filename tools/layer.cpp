#include "layer.hpp"

#include <fmt/format.h>

#include <chrono>
#include <string_view>

#include "attempt.hpp"
#include "spjit/error.hpp"

namespace spjit::cli {
namespace {

// A, B and C of a layer must fit beside each other for the kernel to be measured here.
void measure_layer(Layer& layer, const Kernel& kernel, const CsrMatrix& matrix) {
  const double bytes = Operands::bytes(matrix.rows, matrix.cols, kernel.n());
  if (bytes > k_most_operand_bytes) {
    layer.notes.push_back(fmt::format(
        "not measured: B and C would take {:.1f} GB, over {:.0f} GB; use fewer columns (--n)",
        bytes / 1e9, k_most_operand_bytes / 1e9));
    return;
  }
  Operands operands(matrix.rows, matrix.cols, kernel.n());
  layer.measurement = measure(kernel, matrix, operands, k_layer_budget_ms);
  for (const PeerTiming* peer : {&layer.measurement->dense, &layer.measurement->csr}) {
    if (!peer->skipped.empty()) layer.notes.push_back(peer->skipped);
  }
}

void process(Layer& layer, const Compiler& compiler, const LayerOptions& options) {
  const CsrMatrix matrix = load_matrix(layer.path, options.kernel.load);
  layer.statistics = compute_statistics(matrix);
  const Kernel kernel = compiler.compile(matrix, control_of(options));
  layer.info = kernel.info();
  layer.record = Json::parse(kernel.record());
  if (layer.info->kind == "csr") {
    std::string_view reason = layer.info->reason;
    if (reason.starts_with("csr: ")) reason.remove_prefix(5);
    layer.notes.push_back(fmt::format("a CSR kernel took over: {}", reason));
  }
  if (!layer.info->note.empty()) layer.notes.push_back(layer.info->note);
  add_extent(layer.notes, layer.info->verification);
  if (options.measure) measure_layer(layer, kernel, matrix);
  if (!options.emit.directory.empty()) {
    layer.files = emit_files(options.emit, layer.name, kernel, describe(layer));
  }
  require_cached(layer.info->not_cached, options.kernel.cache);
}

std::string speedup_text(const std::optional<double>& factor) {
  return factor ? fmt::format("{:.2f}x", *factor) : "";
}

Json describe(const KernelInfo& info) {
  return {{"kind", to_string(info.kind)},
          {"target", info.target.name()},
          {"tile", info.tile},
          {"reason", info.reason},
          {"threads", info.threads},
          {"panel_columns", info.panel_columns},
          {"code_bytes", info.code_bytes},
          {"weight_bytes", info.weight_bytes},
          {"key", info.key},
          {"from_cache", info.from_cache},
          {"cache_directory", info.from_cache ? Json(info.cache_directory) : Json(nullptr)},
          {"compile_ms", info.compile_ms}};
}

Json describe_speed(const Layer& layer) {
  const Measurement& measurement = *layer.measurement;
  Json json = describe(measurement.kernel);
  json["gflops"] = gflops(*layer.info, measurement.kernel);
  json["peak_gflops_per_core"] = layer.peak_gflops;
  json["share_of_peak"] = share_of_peak(*layer.info, measurement.kernel, layer.peak_gflops);
  json["dense"] = describe(measurement.dense);
  json["csr"] = describe(measurement.csr);
  const auto over_dense = speedup(measurement.dense, measurement.kernel);
  const auto over_csr = speedup(measurement.csr, measurement.kernel);
  json["speedup_over_dense"] = over_dense ? Json(*over_dense) : Json(nullptr);
  json["speedup_over_csr"] = over_csr ? Json(*over_csr) : Json(nullptr);
  return json;
}

std::vector<std::string> table_row(const Layer& layer) {
  const KernelInfo& info = *layer.info;
  std::vector<std::string> cells = {
      layer.path.filename().string(),
      fmt::format("{}x{}", info.rows, info.cols),
      fmt::format("{:.1f} %", 100 * layer.statistics.sparsity),
      to_string(info.kind),
      info.tile,
      info.from_cache ? "hit" : "new",
      fmt::format("{:.2f}", info.compile_ms),
  };
  if (layer.measurement) {
    const Measurement& measurement = *layer.measurement;
    cells.push_back(fmt::format("{:.2f}", measurement.kernel.median_us));
    cells.push_back(fmt::format("{:.1f}", gflops(info, measurement.kernel)));
    cells.push_back(
        fmt::format("{:.0f} %", 100 * share_of_peak(info, measurement.kernel, layer.peak_gflops)));
    cells.push_back(speedup_text(speedup(measurement.dense, measurement.kernel)));
    cells.push_back(speedup_text(speedup(measurement.csr, measurement.kernel)));
  } else {
    cells.resize(cells.size() + 5);
  }
  cells.push_back(error_text(info.verification));
  return cells;
}

}  // namespace

Json describe(const Verification& verification) {
  if (verification.mode == VerifyMode::none) return nullptr;
  return {{"passed", true},  // else there would be no kernel
          {"mode", to_string(verification.mode)},
          {"max_abs_error", verification.max_abs_error},
          {"max_error_over_bound", verification.max_error_over_bound},
          {"rows_checked", verification.rows_checked},
          {"columns_checked", verification.columns_checked},
          {"complete", verification.complete()},
          {"check_ms", verification.check_ms}};
}

void add_extent(std::vector<std::string>& notes, const Verification& verification) {
  if (verification.mode == VerifyMode::none || verification.complete()) return;
  notes.push_back(fmt::format("checked against float64: {} of {} rows x {} of {} columns",
                              verification.rows_checked, verification.rows,
                              verification.columns_checked, verification.columns));
}

std::string error_text(const Verification& verification) {
  if (verification.mode == VerifyMode::none) return "";
  return fmt::format("{:.1e}", verification.max_abs_error);
}

CompileControl control_of(const LayerOptions& options) {
  CompileControl control;
  if (options.timeout_s > 0) {
    using Clock = std::chrono::steady_clock;
    control.deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                          std::chrono::duration<double>(options.timeout_s));
  }
  return control;
}

Layer process_layer(const std::filesystem::path& path, const std::string& name,
                    const Compiler& compiler, const LayerOptions& options) {
  Layer layer;
  layer.path = path;
  layer.name = name;
  layer.peak_gflops = options.peak_gflops;
  layer.error = attempt(
      path, [&] { process(layer, compiler, options); },
      "; use fewer columns (--n) or --no-measure --no-verify");
  return layer;
}

std::string summarize(const Layer& layer) {
  const KernelInfo& info = *layer.info;
  std::string text =
      fmt::format("{}: {}x{} {:.1f} %, {}, {} in {:.2f} ms", layer.path.string(), info.rows,
                  info.cols, 100 * layer.statistics.sparsity, to_string(info.kind),
                  info.from_cache ? "loaded from the cache" : "compiled", info.compile_ms);
  if (layer.measurement) {
    const Timing& timing = layer.measurement->kernel;
    text += fmt::format(", {:.2f} us, {:.1f} GFLOP/s, {:.0f} % of peak", timing.median_us,
                        gflops(info, timing), 100 * share_of_peak(info, timing, layer.peak_gflops));
  }
  return text;
}

Json describe(const Layer& layer) {
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
  json["speed"] = layer.measurement ? describe_speed(layer) : Json(nullptr);
  Json files = Json::array();
  for (const auto& file : layer.files) files.push_back(file.string());
  json["files"] = std::move(files);
  json["notes"] = layer.notes;
  json["record"] = layer.record;
  return json;
}

std::string layer_table(const std::vector<Layer>& layers, const Terminal& terminal) {
  using enum Column::Align;
  Table table({{"file", left},
               {"shape"},
               {"sparsity"},
               {"kind", left},
               {"tile", left},
               {"cache", left},
               {"compile ms"},
               {"kernel us"},
               {"GFLOP/s"},
               {"of peak"},
               {"vs dense"},
               {"vs CSR"},
               {"max error"}});
  std::string notes;
  std::size_t rows = 0;
  for (const Layer& layer : layers) {
    if (layer.failed()) continue;
    table.add(table_row(layer));
    ++rows;
    for (const std::string& note : layer.notes) {
      notes += fmt::format("{}: {}\n", shown(layer.path.filename()), one_line(note));
    }
  }
  if (rows == 0) return "";
  return table.text(terminal) + (notes.empty() ? "" : "\n" + notes);
}

}  // namespace spjit::cli
