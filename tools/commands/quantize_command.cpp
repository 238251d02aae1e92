// spjit quantize: sparse weights of a model's file as int8.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file_bytes.hpp"
#include "spjit/version.hpp"
#include "tools/commands/subcommands.hpp"
#include "tools/options/kernel_options.hpp"
#include "tools/options/outputs.hpp"
#include "tools/quantize/quantize_model.hpp"
#include "tools/report/manual.hpp"
#include "tools/report/quantize_svg.hpp"
#include "tools/report/table.hpp"

namespace spjit::cli {
namespace fs = std::filesystem;
namespace {

struct QuantizeCommandOptions {
  QuantizeOptions quantize;
  fs::path plot;
  bool json = false;
};

std::string mib_text(std::int64_t bytes) {
  return fmt::format("{:.2f} MiB", static_cast<double>(bytes) / (1 << 20));
}

std::string percent_text(const std::optional<double>& share, int digits) {
  return share ? fmt::format("{:.{}f} %", 100 * *share, digits) : "";
}

std::size_t count_int8(const QuantizeReport& report) {
  return static_cast<std::size_t>(std::ranges::count_if(
      report.weights, [](const QuantizedWeights& one) { return one.reason.empty(); }));
}

std::string report_text(const QuantizeReport& report, const fs::path& out) {
  using enum Column::Align;
  Table table({{"weights", left}, {"shape"}, {"zeros"}, {"cosine"}, {"error"}, {"became", left}});
  for (const QuantizedWeights& one : report.weights) {
    table.add({one.name, fmt::format("{}", fmt::join(one.shape, "x")),
               percent_text(one.sparsity, 1), one.cosine ? fmt::format("{:.6f}", *one.cosine) : "",
               percent_text(one.relative_error, 2),
               one.reason.empty() ? "int8" : fmt::format("as it is: {}", one.reason)});
  }
  return table.text(inspect_stdout()) +
         fmt::format("{}: {} of {} weights are int8, {} (before {})\n", shown(out),
                     count_int8(report), report.weights.size(), mib_text(report.bytes_after),
                     mib_text(report.bytes_before));
}

Json describe(const QuantizedWeights& one) {
  const auto number = [](const std::optional<double>& value) {
    return value ? Json(*value) : Json(nullptr);
  };
  return {{"name", one.name},
          {"shape", one.shape},
          {"sparsity", number(one.sparsity)},
          {"cosine", number(one.cosine)},
          {"relative_error", number(one.relative_error)},
          {"dtype", one.reason.empty() ? Json("I8") : Json(nullptr)},
          {"reason", one.reason.empty() ? Json(nullptr) : Json(one.reason)}};
}

Json describe(const QuantizeReport& report, const QuantizeOptions& options) {
  Json weights = Json::array();
  for (const QuantizedWeights& one : report.weights) weights.push_back(describe(one));
  return {{"spjit", SPJIT_VERSION},
          {"command", "quantize"},
          {"file", options.model.string()},
          {"out", options.out.string()},
          {"activations", options.dynamic_activations ? "dynamic" : "float"},
          {"min_zeros", options.min_zeros},
          {"least_cosine", options.least_cosine},
          {"bytes", {{"before", report.bytes_before}, {"after", report.bytes_after}}},
          {"weights", std::move(weights)}};
}

ExitCode quantize(const QuantizeCommandOptions& options) {
  const QuantizeOptions& what = options.quantize;
  std::vector<fs::path> others = files_of_model(what.model);
  require_apart("--out", what.out, others);
  others.push_back(what.out);
  require_apart("--plot", options.plot, others);
  // First: without it there is no model either.
  std::optional<TemporaryFile> plot;
  if (!options.plot.empty()) plot.emplace(options.plot);
  const QuantizeReport report = quantize_model(what, [](const std::string& name) {
    // A model may have thousands.
    if (inspect_stderr().interactive) write_stderr(fmt::format("\r\x1b[K{}", shown(name)));
  });
  if (inspect_stderr().interactive) write_stderr("\r\x1b[K");
  if (plot) {
    const std::string picture = quantize_svg(report.weights, shown(what.model));
    plot->write(std::as_bytes(std::span(picture)));
    plot->publish();
  }
  if (options.json) {
    print_json(describe(report, what));
  } else {
    print(report_text(report, what.out));
  }
  return ExitCode::ok;
}

std::string check_model(const std::string& name) {
  if (name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json")) return "";
  if (name.ends_with(".onnx")) {
    return fmt::format("'{}' is an .onnx model; onnxruntime.quantization quantises such", name);
  }
  return fmt::format("'{}' ends in neither .safetensors nor .safetensors.index.json", name);
}

std::string check_out(const std::string& name) {
  if (name.ends_with(".safetensors")) return "";
  return fmt::format("'{}' does not end in .safetensors", name);
}

}  // namespace

Subcommand add_quantize(CLI::App& app) {
  const auto options = std::make_shared<QuantizeCommandOptions>();
  QuantizeOptions& what = options->quantize;
  CLI::App* command = app.add_subcommand("quantize");
  set_manual(*command, "quantize");
  command->add_option("FILE", what.model, "A model, .safetensors or .safetensors.index.json.")
      ->check(check_model)
      ->required();
  command->add_option("--out", what.out, "The new file, .safetensors.")
      ->check(check_out)
      ->type_name("FILE")
      ->required();
  command->add_option("--weights", "Type of the weights: int8, symmetric, a scale a row.")
      ->check(CLI::IsMember({"int8"}))
      ->type_name("TYPE")
      ->default_str("int8");
  command
      ->add_option_function<std::string>(
          "--activations",
          [&what](const std::string& name) { what.dynamic_activations = name == "dynamic"; },
          "float: a layer multiplies integers by floats. dynamic: it quantises its input, too, "
          "each "
          "token by its largest magnitude, and adds up integers exactly.")
      ->check(CLI::IsMember({"float", "dynamic"}))
      ->type_name("KIND")
      ->default_str("float");
  command
      ->add_option("--min-zeros", what.min_zeros,
                   "Weights become int8 if so many of them, in percent, are 0.")
      ->transform(real_number(0, 100))
      ->type_name("PERCENT")
      ->capture_default_str();
  command
      ->add_option(
          "--least-cosine", what.least_cosine,
          "Weights stay as they are if the cosine between them and their int8 form is less.")
      ->transform(real_number(0, 1))
      ->type_name("COSINE")
      ->capture_default_str();
  command->add_option("--plot", options->plot, "Draw the error of each tensor as a picture, .svg.")
      ->check(not_empty())
      ->type_name("FILE");
  add_json(*command, options->json);
  return {command, [options] { return quantize(*options); }};
}

}  // namespace spjit::cli
