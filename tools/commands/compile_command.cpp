// spjit compile: weight files into kernels in the cache, and into objects and headers.

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file_bytes.hpp"
#include "spjit/compiler.hpp"
#include "spjit/version.hpp"
#include "tools/commands/subcommands.hpp"
#include "tools/options/bundle_options.hpp"
#include "tools/options/cache_options.hpp"
#include "tools/options/inputs.hpp"
#include "tools/options/kernel_options.hpp"
#include "tools/options/layer_options.hpp"
#include "tools/options/outputs.hpp"
#include "tools/report/kernel_cells.hpp"
#include "tools/report/layer.hpp"
#include "tools/report/manual.hpp"

namespace spjit::cli {
namespace {

struct CompileCommandOptions {
  std::vector<std::string> files;
  LayerOptions layer;
  std::vector<std::string> emit;
  std::filesystem::path bundle;
  std::string private_key;
  std::filesystem::path metrics;
  std::int64_t bundle_bytes = 0;  ///< set when it is made, and
  std::size_t bundle_kernels = 0;
  bool json = false;
};

void check(CompileCommandOptions& options) {
  prepare(options.layer.kernel, options.files);
  if (!options.private_key.empty() && options.bundle.empty()) {
    throw UsageError("--key needs --bundle, the file that is signed");
  }
  std::vector<std::filesystem::path> others = files_read(options.files, options.layer.kernel);
  others.emplace_back(options.private_key);
  require_apart("--bundle", options.bundle, others);
  if (options.layer.kernel.targets.size() > 1 && !options.layer.emit.directory.empty()) {
    throw UsageError("--out has the files of one target; expected one --target, or --bundle");
  }
  if (!options.emit.empty() && options.layer.emit.directory.empty()) {
    throw UsageError("--emit needs --out, the directory for the files");
  }
  if (!options.emit.empty()) {
    options.layer.emit.kinds = checked_kinds(options.emit, options.layer.kernel.compile.target);
    options.layer.kernel.compile.keep_source |= needs_source(options.layer.emit.kinds);
  }
}

/// The options of each target.
std::vector<LayerOptions> options_of_targets(const LayerOptions& options) {
  std::vector<LayerOptions> result;
  for (const Target& target : options.kernel.targets) {
    LayerOptions& own = result.emplace_back(options);
    own.kernel.compile.target = target;
    if (own.measure) own.peak_gflops = measure_peak_gflops(target);
  }
  return result;
}

/// Of an input that cannot be read.
Layer failed_layer(const Input& input, const std::string& name) {
  Layer layer;
  layer.path = input.path;
  layer.name = name;
  layer.error = input.problem;
  return layer;
}

/// Counts of all compilers, in the text format of Prometheus.
void write_metrics(const std::filesystem::path& file, const std::vector<Compiler>& compilers) {
  Metrics sum;
  for (const Compiler& compiler : compilers) {
    for (const auto& [sample, value] : compiler.metrics()) sum[sample] += value;
  }
  const std::string text = prometheus_text(sum);
  publish_file(file, std::as_bytes(std::span(text)));
}

/// Each input for each target. `metrics`: the file that gets what was counted; or empty.
std::vector<Layer> process_all(const std::vector<Input>& inputs,
                               const std::vector<LayerOptions>& targets,
                               const std::filesystem::path& metrics) {
  const std::vector<std::string> names = unique_identifiers(inputs);
  std::vector<Compiler> compilers;
  compilers.reserve(targets.size());
  for (const LayerOptions& own : targets) {
    compilers.emplace_back(own.kernel.compile, own.kernel.cache);
  }

  std::vector<Layer> layers;
  Progress progress(inspect_stderr(), inputs.size() * targets.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Input& input = inputs[i];
    for (std::size_t t = 0; t < targets.size(); ++t) {
      const std::string file = input.path.string();
      const std::string target = targets[t].kernel.compile.target.name();
      progress.begin(targets.size() == 1 ? file : fmt::format("{}, {}", file, target));
      const Layer& layer = layers.emplace_back(
          input.problem.empty() ? process_layer(input, names[i], compilers[t], targets[t])
                                : failed_layer(input, names[i]));
      if (layer.failed()) {
        progress.fail(layer.error);
      } else {
        progress.finish(summarize(layer));
      }
    }
  }
  for (const Compiler& compiler : compilers) flush_remote(compiler);
  if (!metrics.empty()) write_metrics(metrics, compilers);
  return layers;
}

Json describe(const CompileCommandOptions& options, const std::vector<Layer>& layers,
              const std::vector<LeftDense>& left_dense, std::size_t failures) {
  Json list = Json::array();
  for (const Layer& layer : layers) list.push_back(describe(layer));
  Json bundle(nullptr);
  if (options.bundle_bytes > 0) {
    bundle = {{"file", options.bundle.string()}, {"bytes", options.bundle_bytes}};
  }
  return {{"spjit", SPJIT_VERSION},
          {"command", "compile"},
          {"options", describe(options.layer.kernel)},
          {"bundle", std::move(bundle)},
          {"layers", std::move(list)},
          {"left_dense", describe(left_dense)},
          {"failed", failures}};
}

ExitCode report(const CompileCommandOptions& options, const std::vector<Layer>& layers,
                const std::vector<LeftDense>& left_dense) {
  const auto failures = static_cast<std::size_t>(std::count_if(
      layers.begin(), layers.end(), [](const Layer& layer) { return layer.failed(); }));
  if (options.json) {
    print_json(describe(options, layers, left_dense, failures));
  } else {
    print(layer_table(layers, inspect_stdout()));
    if (failures < layers.size()) print(layer_text(options.layer.kernel.problem));
    if (options.bundle_bytes > 0) {
      print(kernels_line(options.bundle, options.bundle_kernels, options.bundle_bytes));
    }
    const bool timed = std::ranges::any_of(
        layers, [](const Layer& layer) { return layer.measurement && !layer.info->cuda; });
    if (timed) print(fmt::format("\n{}\n", how_measured(options.layer.kernel.compile.policy.hot)));
  }
  // What failed has had its line.
  if (failures > 0 && layers.size() > 1) {
    const bool one_target = options.layer.kernel.targets.size() == 1;
    print_note(fmt::format("{} of {} {} failed", failures, layers.size(),
                           one_target ? "inputs" : "kernels"));
  }
  return exit_code(layers.size(), failures);
}

/// Throws Error, also where a kernel could not be written, which ended the bundle: that is no
/// mistake in the command line.
std::int64_t finished(BundleWriter& bundle, const std::filesystem::path& path) {
  try {
    return bundle.finish();
  } catch (const InvalidArgument& error) {
    throw Error(fmt::format("{}: not written: {}", shown(path), error.what()));
  }
}

ExitCode compile_files(CompileCommandOptions& options) {
  check(options);
  LayerOptions& layer_options = options.layer;
  if (!layer_options.emit.directory.empty()) prepare_directory(layer_options.emit.directory);
  const ModelInputs inputs = expand_all(options.files, layer_options.kernel);
  std::optional<LayerBundle> bundle;
  if (!options.bundle.empty()) {
    layer_options.bundle =
        &bundle.emplace(LayerBundle{BundleWriter(options.bundle, options.private_key), {}});
  }
  const std::vector<Layer> layers =
      process_all(inputs.inputs, options_of_targets(layer_options), options.metrics);
  // Of nothing but failures there is no bundle: what was there stays.
  const bool is_any_done =
      std::ranges::any_of(layers, [](const Layer& layer) { return !layer.failed(); });
  if (bundle && is_any_done) {
    options.bundle_kernels = bundle->writer.kernels();
    options.bundle_bytes = finished(bundle->writer, options.bundle);
  }
  const ExitCode code = report(options, layers, inputs.left_dense);
  if (const std::string note = left_dense_note(inputs); !note.empty()) print_note(note);
  return code;
}

void add_bundle_options(CLI::App& command, CompileCommandOptions& options) {
  command
      .add_option("-o,--bundle", options.bundle,
                  "Write the kernels to this bundle, as layers of the names of their weights, or "
                  "that files of --out would have, for each --target. 'spjit bundle merge' joins "
                  "bundles of several machines.")
      ->check(not_empty())
      ->type_name("FILE");
  add_signing_key(command, options.private_key);
}

void add_output_options(CLI::App& command, CompileCommandOptions& options) {
  command
      .add_option(
          "--out", options.layer.emit.directory,
          "Write files for each layer to this directory, which is made if need be. A file is "
          "called after its input, other characters than letters, digits and _ replaced by "
          "_, with a number where two inputs share a name.")
      ->check(not_empty())
      ->type_name("DIR");
  command
      .add_option(
          "--emit", options.emit,
          "What to write, separated by commas: obj (NAME.o, an ELF object to link into a "
          "program), header (NAME.hpp, which declares NAME() that makes a kernel of it), "
          "json (NAME.json, what --json has for the layer), asm (NAME.asm, the machine code "
          "as text; needs a build with LLVM). Default: obj,header,json. For a GPU: cubin "
          "(NAME.cubin, its code), cu and ptx (NAME.cu and NAME.ptx, the kernel as CUDA C++ and as "
          "PTX; they ask for --keep-source), positions (NAME.positions, of unrolled code with "
          "--runtime-values: which value is "
          "where in what the kernel reads), matrix (NAME.matrix, of kernels that read A), json. "
          "Default: all, cu and ptx with --keep-source.")
      ->delimiter(',')
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("KINDS");
  command
      .add_option("--metrics", options.metrics,
                  "Write what was counted (hits, misses, seconds, bytes) to this file, in the text "
                  "format of Prometheus.")
      ->check(not_empty())
      ->type_name("FILE");
  command.add_flag_function(
      "--no-measure", [&options](std::int64_t) { options.layer.measure = false; },
      "Do not time anything, which is most of what a command takes.");
}

}  // namespace

Subcommand add_compile(CLI::App& app, const ModelConverter& convert) {
  const auto options = std::make_shared<CompileCommandOptions>();
  CLI::App* command = app.add_subcommand("compile");
  set_manual(*command, "compile");
  add_file_arguments(*command, options->files);
  add_layer_options(*command, options->layer, convert);
  add_cache_directory(*command, options->layer.kernel.cache);
  add_cache_use(*command, options->layer.kernel.cache);
  add_compile_when(*command, options->layer.kernel.compile.compile);
  add_output_options(*command, *options);
  add_bundle_options(*command, *options);
  add_json(*command, options->json);
  return {command, [options] { return compile_files(*options); }};
}

}  // namespace spjit::cli
