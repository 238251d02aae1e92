#include "tools/report/layer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "artifact/families.hpp"
#include "artifact/kernel_json.hpp"
#include "plan/search_policy.hpp"
#include "tools/options/cache_options.hpp"
#include "tools/options/inputs.hpp"
#include "tools/options/operands.hpp"
#include "tools/report/search_progress.hpp"

namespace spjit::cli {
namespace {

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
  if (options.kernel.compile.policy.search != SearchMode::instant) {
    control.progress = show_search_progress(inspect_stderr());
  }
  if (options.timeout_s > 0) {
    using Clock = std::chrono::steady_clock;
    control.deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                          std::chrono::duration<double>(options.timeout_s));
  }
  return control;
}

// A, B and C of a layer must fit beside each other for the kernel to be measured here.
void measure_layer(Layer& layer, const Kernel& kernel, const Problem& problem,
                   const KernelOptions& options) {
  const double bytes = Operands::bytes(problem, 1);
  if (bytes > k_most_operand_bytes) {
    layer.notes.push_back(fmt::format(
        "not measured: operands would take {:.1f} GB, over {:.0f} GB; use fewer columns (--n)",
        bytes / 1e9, k_most_operand_bytes / 1e9));
    return;
  }
  layer.measurement =
      measure(kernel, problem,
              {k_layer_budget_ms, bytes_between_runs(options.compile.policy), options.operands});
  for (std::string& reason : skipped_peers(*layer.measurement)) {
    layer.notes.push_back(std::move(reason));
  }
}

void process(Layer& layer, const Input& input, const Compiler& compiler,
             const LayerOptions& options) {
  const KernelOptions own = options_for(input, options.kernel);
  const Problem problem = load_problem(input, own);
  layer.statistics = compute_statistics(*problem.a);
  const Kernel kernel = compiler.compile(problem, control_of(options));
  layer.info = kernel.info();
  layer.record = Json::parse(kernel.record());
  // The reason of a family that took what others refused.
  const std::string prefix = layer.info->family + ": ";
  if (layer.info->reason.starts_with(prefix)) {
    layer.notes.push_back(fmt::format("a {} kernel took over: {}", layer.info->family,
                                      layer.info->reason.substr(prefix.size())));
  }
  if (!layer.info->note.empty()) layer.notes.push_back(layer.info->note);
  const Target& target = layer.info->target;
  const bool is_of_other_device =
      !backend_of(target).timing_device(target, device_info_of(target), nullptr);
  if (options.kernel.compile.policy.search != SearchMode::instant &&
      (layer.is_ranked_only() || layer.is_modelled() || is_of_other_device)) {
    layer.notes.push_back(layer.info->reason);
  }
  add_extent(layer.notes, layer.info->verification);
  if (options.measure && !why_not_timed(layer.info->target)) {
    measure_layer(layer, kernel, problem, own);
  }
  if (!options.emit.directory.empty()) {
    layer.files = emit_files(options.emit, layer.name, kernel, describe(layer));
  }
  if (options.bundle != nullptr) {
    const std::string& name = input.layer ? input.layer->weights.what.name : layer.name;
    if (options.bundle->kernels.emplace(name, layer.info->key).second) {
      options.bundle->writer.add(name, kernel);
    } else {
      layer.notes.emplace_back(
          "the bundle has this kernel already: the same is made for two targets");
    }
  }
  require_cached(layer.info->not_cached, options.kernel.cache);
}

std::string sparsity_text(const Layer& layer) {
  return fmt::format("{:.1f} %", 100 * layer.statistics.sparsity);
}

/// Empty on a GPU.
std::string share_text(const KernelInfo& info, const TimingResult& timing, double peak_gflops) {
  const auto share = share_of_peak({info}, timing, peak_gflops);
  return share ? fmt::format("{:.0f} %", 100 * *share) : "";
}

std::string speedup_text(const std::optional<double>& factor) {
  return factor ? fmt::format("{:.2f}x", *factor) : "";
}

/// The kernel's own numbers stand beside those of its peers.
Json describe_speed(const Layer& layer) {
  Json rest = describe(*layer.measurement, *layer.info, layer.peak_gflops);
  Json speed = std::move(rest["kernel"]);
  rest.erase("kernel");
  if (!layer.info->cuda) speed["peak_gflops_per_core"] = layer.peak_gflops;
  speed.update(rest);
  return speed;
}

/// A cell of the table and the title of its column.
struct LayerCell {
  Column column;
  std::string text;
};

/// The times, or empty cells.
std::vector<LayerCell> speed_cells(const Layer& layer) {
  const KernelInfo& info = *layer.info;
  const auto& measured = layer.measurement;
  std::vector<LayerCell> cells;
  const auto add = [&](const char* title, const auto& text_of) {
    cells.push_back({{title}, measured ? text_of(measured->kernel) : ""});
  };
  add("kernel us",
      [](const TimingResult& kernel) { return fmt::format("{:.2f}", kernel.median_us); });
  add("GFLOP/s",
      [&](const TimingResult& kernel) { return fmt::format("{:.1f}", gflops({info}, kernel)); });
  if (info.cuda) return cells;
  add("of peak",
      [&](const TimingResult& kernel) { return share_text(info, kernel, layer.peak_gflops); });
  add("vs dense",
      [&](const TimingResult& kernel) { return speedup_text(speedup(measured->dense, kernel)); });
  add("vs CSR",
      [&](const TimingResult& kernel) { return speedup_text(speedup(measured->csr, kernel)); });
  return cells;
}

/// A row of the table of layers. All layers of a target have the same columns; the target is one of
/// them if there are `several`.
std::vector<LayerCell> cells_of(const Layer& layer, bool several) {
  using enum Column::Align;
  const KernelInfo& info = *layer.info;
  std::vector<LayerCell> cells = {{{"file", left}, layer.path.filename().string()},
                                  {{"shape"}, fmt::format("{}x{}", info.rows, info.cols)},
                                  {{"sparsity"}, sparsity_text(layer)},
                                  {{"family", left}, info.family},
                                  {{"tile", left}, info.tile},
                                  {{"cache", left}, info.from_cache ? "hit" : "new"},
                                  {{"compile ms"}, fmt::format("{:.2f}", info.compile_ms)}};
  if (several) cells.insert(cells.begin() + 1, {{"target", left}, info.target.name()});
  if (info.cuda) {
    cells.push_back({{"predicted"}, std::to_string(info.cuda->predicted_registers)});
    cells.push_back({{"registers"}, std::to_string(info.cuda->registers)});
    cells.push_back({{"spilled"}, std::to_string(info.cuda->spilled_bytes)});
    cells.push_back({{"blocks/SM"}, std::to_string(info.cuda->active_blocks)});
    cells.push_back({{"code KiB"}, std::to_string(info.code_bytes >> 10)});
  }
  for (LayerCell& cell : speed_cells(layer)) cells.push_back(std::move(cell));
  cells.push_back({{"max error"}, error_text(info.verification)});
  return cells;
}

/// Those of any row, each behind the one that it follows there.
std::vector<Column> columns_of(const std::vector<std::vector<LayerCell>>& rows) {
  std::vector<Column> columns;
  for (const std::vector<LayerCell>& row : rows) {
    auto place = columns.begin();
    for (const LayerCell& cell : row) {
      const auto known = std::ranges::find(columns, cell.column.title, &Column::title);
      place = 1 + (known == columns.end() ? columns.insert(place, cell.column) : known);
    }
  }
  return columns;
}

/// A row's cells by column; empty where it has none.
std::vector<std::string> texts_of(const std::vector<LayerCell>& row,
                                  const std::vector<Column>& columns) {
  std::vector<std::string> texts;
  for (const Column& column : columns) {
    const auto found = std::ranges::find_if(
        row, [&](const LayerCell& cell) { return cell.column.title == column.title; });
    texts.push_back(found == row.end() ? std::string() : found->text);
  }
  return texts;
}

/// Of which layers the tile was chosen in a way without times, if of any.
std::string untimed_text(const std::vector<const Layer*>& layers, std::string_view how,
                         bool (Layer::*is_so)() const) {
  std::vector<std::string> names;
  for (const Layer* layer : layers) {
    if ((layer->*is_so)()) names.push_back(shown(layer->path.filename()));
  }
  if (names.empty()) return "";
  if (names.size() == layers.size()) return fmt::format("{}, not timed.\n", how);
  return fmt::format("{}, not timed: {}.\n", how, fmt::join(names, ", "));
}

std::string untimed_text(const std::vector<const Layer*>& layers) {
  return untimed_text(layers, "Ranked", &Layer::is_ranked_only) +
         untimed_text(layers, "Modelled", &Layer::is_modelled);
}

}  // namespace

bool Layer::is_modelled() const {
  return info->cuda && record.at("search").value("modelled", false);
}

bool Layer::is_ranked_only() const {
  return info->cuda && !record.at("search").at("timed").get<bool>() && !is_modelled();
}

Layer process_layer(const Input& input, const std::string& name, const Compiler& compiler,
                    const LayerOptions& options) {
  Layer layer;
  layer.path = input.path;
  layer.name = name;
  layer.peak_gflops = options.peak_gflops;
  layer.error = attempt(
      input.path, [&] { process(layer, input, compiler, options); },
      "; use fewer columns (--n) or --no-measure --no-verify");
  return layer;
}

std::string summarize(const Layer& layer) {
  const KernelInfo& info = *layer.info;
  std::string text =
      fmt::format("{}: {}x{} {}, {}, {} in {:.2f} ms", layer.path.string(), info.rows, info.cols,
                  sparsity_text(layer), info.family,
                  info.from_cache ? "loaded from the cache" : "compiled", info.compile_ms);
  if (layer.measurement) {
    const TimingResult& timing = layer.measurement->kernel;
    text += fmt::format(", {:.2f} us, {:.1f} GFLOP/s", timing.median_us, gflops({info}, timing));
    const std::string share = share_text(info, timing, layer.peak_gflops);
    if (!share.empty()) text += fmt::format(", {} of peak", share);
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
  json["kernel"] = info_json(*layer.info);
  json["verification"] = verification_json(layer.info->verification);
  json["speed"] = layer.measurement ? describe_speed(layer) : Json(nullptr);
  Json files = Json::array();
  for (const auto& file : layer.files) files.push_back(file.string());
  json["files"] = std::move(files);
  json["notes"] = layer.notes;
  json["record"] = layer.record;
  return json;
}

std::string layer_table(const std::vector<Layer>& layers, const Terminal& terminal) {
  std::vector<const Layer*> done;
  for (const Layer& layer : layers) {
    if (!layer.failed()) done.push_back(&layer);
  }
  if (done.empty()) return "";
  const std::string target = done.front()->info->target.name();
  const bool several = std::ranges::any_of(
      done, [&](const Layer* layer) { return layer->info->target.name() != target; });
  std::vector<std::vector<LayerCell>> rows;
  rows.reserve(done.size());
  for (const Layer* layer : done) rows.push_back(cells_of(*layer, several));
  const std::vector<Column> columns = columns_of(rows);
  Table table(columns);
  for (const std::vector<LayerCell>& row : rows) table.add(texts_of(row, columns));
  std::string notes;
  for (const Layer* layer : done) {
    for (const std::string& note : layer->notes) {
      notes += fmt::format("{}: {}\n", shown(layer->path.filename()), one_line(note));
    }
  }
  return table.text(terminal) + untimed_text(done) + (notes.empty() ? "" : "\n" + notes);
}

}  // namespace spjit::cli
