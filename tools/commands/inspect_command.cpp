// spjit inspect: which layers of files become kernels, which ones, and why the rest stays dense.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "spjit/version.hpp"
#include "tools/commands/subcommands.hpp"
#include "tools/report/explanation.hpp"
#include "tools/report/manual.hpp"
#include "tools/report/table.hpp"

namespace spjit::cli {
namespace {

struct InspectCommandOptions {
  std::vector<std::string> files;
  KernelOptions kernel;
  bool json = false;
};

/// A layer and what a kernel of it would be.
struct Inspected {
  Explanation explanation;
  std::vector<std::int64_t> shape;  ///< as the file has it
};

std::vector<std::int64_t> shape_of(const Input& input, const Explanation& explanation) {
  if (input.layer) return input.layer->weights.what.shape;
  return {explanation.matrix.rows, explanation.matrix.cols};
}

std::vector<Inspected> inspect_all(const std::vector<Input>& inputs, const KernelOptions& options) {
  std::vector<Inspected> all;
  Progress progress(inspect_stderr(), inputs.size());
  for (const Input& input : inputs) {
    progress.begin(input.path.string());
    Inspected& one = all.emplace_back();
    one.explanation = explain(input, options, Detail::choice);
    one.shape = shape_of(input, one.explanation);
    if (one.explanation.error.empty()) {
      progress.finish();
    } else {
      progress.fail(one.explanation.error);
    }
  }
  return all;
}

/// Code and data of a kernel; 0 for what only a compiler knows.
struct KernelBytes {
  std::int64_t code = 0;
  std::int64_t weights = 0;
};

KernelBytes kernel_bytes(const Json& record) {
  return {record.value("code_bytes", std::int64_t{0}),
          record.value("weight_bytes", std::int64_t{0})};
}

std::string kib_text(std::int64_t bytes) {
  return bytes == 0 ? "" : fmt::format("{:.1f}", static_cast<double>(bytes) / 1024);
}

std::string mib_text(double bytes) { return fmt::format("{:.1f} MiB", bytes / (1 << 20)); }

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("{}", fmt::join(shape, "x"));
}

std::string reason_of(const Json& record) {
  return record.at("search").at("reason").get<std::string>();
}

double elements_of(const Inspected& one) {
  double elements = 1;
  for (const std::int64_t size : one.shape) elements *= static_cast<double>(size);
  return elements;
}

/// Share of the weights; what groups of a convolution leave out of its matrix is none of them.
double zeros_of(const Inspected& one) {
  const double elements = elements_of(one);
  return elements == 0 ? 0 : 1 - static_cast<double>(one.explanation.matrix.nnz) / elements;
}

/// All of them together, beside the same dense in fp32.
std::string totals(const std::vector<const Inspected*>& layers) {
  double elements = 0;
  double nonzeros = 0;
  KernelBytes bytes;
  for (const Inspected* layer : layers) {
    elements += elements_of(*layer);
    nonzeros += static_cast<double>(layer->explanation.matrix.nnz);
    const KernelBytes of_layer = kernel_bytes(layer->explanation.record);
    bytes.code += of_layer.code;
    bytes.weights += of_layer.weights;
  }
  return fmt::format(
      "{} layers: {:.1f} % of {:.2f} million weights are zeros; code {}, weights {} "
      "(dense {})\n",
      layers.size(), elements == 0 ? 0 : 100 * (1 - nonzeros / elements), elements / 1e6,
      mib_text(static_cast<double>(bytes.code)), mib_text(static_cast<double>(bytes.weights)),
      mib_text(4 * elements));
}

std::string kernels_text(const std::vector<Inspected>& all, const Terminal& terminal) {
  using enum Column::Align;
  std::vector<const Inspected*> layers;
  Table table({{"layer", left},
               {"shape"},
               {"zeros"},
               {"kernel", left},
               {"tile", left},
               {"code KiB"},
               {"weights KiB"},
               {"why", left}});
  for (const Inspected& one : all) {
    const Explanation& explanation = one.explanation;
    if (!explanation.error.empty()) continue;
    layers.push_back(&one);
    const KernelBytes bytes = kernel_bytes(explanation.record);
    table.add({explanation.path.filename().string(), shape_text(one.shape),
               fmt::format("{:.1f} %", 100 * zeros_of(one)),
               explanation.record.at("family").get<std::string>(), explanation.tile(),
               kib_text(bytes.code), kib_text(bytes.weights), reason_of(explanation.record)});
  }
  return layers.empty() ? "" : table.text(terminal) + totals(layers);
}

std::string left_dense_text(const std::vector<LeftDense>& left_dense, const Terminal& terminal) {
  using enum Column::Align;
  if (left_dense.empty()) return "";
  Table table({{"left dense", left}, {"shape"}, {"zeros"}, {"why", left}});
  for (const LeftDense& left : left_dense) {
    table.add({left.path.filename().string(), shape_text(left.shape),
               left.sparsity ? fmt::format("{:.1f} %", 100 * *left.sparsity) : "", left.reason});
  }
  return table.text(terminal);
}

Json describe(const Inspected& one) {
  const Explanation& explanation = one.explanation;
  Json json = {{"file", explanation.path.string()}, {"error", nullptr}};
  if (!explanation.error.empty()) {
    json["error"] = explanation.error;
    return json;
  }
  const Json& record = explanation.record;
  json["shape"] = one.shape;
  json["nnz"] = explanation.matrix.nnz;
  json["sparsity"] = zeros_of(one);
  json["problem"] = cli::describe(explanation.problem);
  json["family"] = record.at("family");
  json["tile"] = record.at("tile").is_object() ? Json(explanation.tile()) : Json(nullptr);
  json["reason"] = reason_of(record);
  json["code_bytes"] = record.value("code_bytes", Json());
  json["weight_bytes"] = record.value("weight_bytes", Json());
  return json;
}

ExitCode inspect(InspectCommandOptions& options) {
  if (options.kernel.problem.n.value == 0) set_any_columns(options.kernel.problem);
  prepare(options.kernel, options.files);
  const ModelInputs inputs = expand_all(options.files, options.kernel, false);
  const std::vector<Inspected> all = inspect_all(inputs.inputs, options.kernel);
  const auto failures = static_cast<std::size_t>(std::ranges::count_if(
      all, [](const Inspected& one) { return !one.explanation.error.empty(); }));
  if (options.json) {
    Json layers = Json::array();
    for (const Inspected& one : all) layers.push_back(describe(one));
    print_json({{"spjit", SPJIT_VERSION},
                {"command", "inspect"},
                {"options", cli::describe(options.kernel)},
                {"layers", std::move(layers)},
                {"left_dense", cli::describe(inputs.left_dense)},
                {"failed", failures}});
  } else {
    const Terminal terminal = inspect_stdout();
    const std::string kernels = kernels_text(all, terminal);
    const std::string rest = left_dense_text(inputs.left_dense, terminal);
    print(kernels + (kernels.empty() || rest.empty() ? "" : "\n") + rest);
  }
  return exit_code(all.size() + inputs.left_dense.size(), failures);
}

}  // namespace

Subcommand add_inspect(CLI::App& app, const ModelConverter& convert) {
  const auto options = std::make_shared<InspectCommandOptions>();
  CLI::App* command = app.add_subcommand("inspect");
  set_manual(*command, "inspect");
  add_file_arguments(*command, options->files);
  add_kernel_options(*command, options->kernel);
  options->kernel.model.convert = convert;
  add_json(*command, options->json);
  return {command, [options] { return inspect(*options); }};
}

}  // namespace spjit::cli
