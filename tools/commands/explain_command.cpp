// spjit explain: what the compiler sees in a matrix, what it considered and what it chose.

#include <memory>
#include <optional>
#include <span>

#include "artifact/families.hpp"
#include "base/file_bytes.hpp"
#include "spjit/compiler.hpp"
#include "spjit/version.hpp"
#include "tools/commands/subcommands.hpp"
#include "tools/options/inputs.hpp"
#include "tools/options/outputs.hpp"
#include "tools/report/explanation.hpp"
#include "tools/report/manual.hpp"

namespace spjit::cli {
namespace {

struct ExplainCommandOptions {
  std::vector<std::string> files;
  KernelOptions kernel;
  std::filesystem::path plot;
  bool json = false;
};

/// Explains one file and draws its search, or its tile space where nothing was searched.
Explanation explain_and_plot(const Input& input, const ExplainCommandOptions& options) {
  std::optional<TemporaryFile> plot;  // before a search, in which time it may turn out impossible
  if (!options.plot.empty()) plot.emplace(options.plot);
  Explanation explanation = explain(input, options.kernel);
  if (!explanation.error.empty() || !plot) return explanation;
  const std::string picture = explanation_svg(explanation);
  if (picture.empty()) return explanation;
  plot->write(std::as_bytes(std::span(picture)));
  plot->publish();
  return explanation;
}

ExitCode explain_all(const ExplainCommandOptions& options, const std::vector<Input>& inputs) {
  Json list = Json::array();
  std::size_t failures = 0;
  for (const Input& input : inputs) {
    const Explanation explanation = explain_and_plot(input, options);
    if (!explanation.error.empty()) {
      ++failures;
      print_error(explanation.error);
    } else if (!options.json) {
      print(explanation_text(explanation, inspect_stdout()));
    }
    if (options.json) list.push_back(describe(explanation));
  }
  if (options.json) {
    print_json({{"spjit", SPJIT_VERSION},
                {"command", "explain"},
                {"options", describe(options.kernel)},
                {"matrices", std::move(list)},
                {"failed", failures}});
  }
  return exit_code(inputs.size(), failures);
}

ExitCode explain_files(ExplainCommandOptions& options) {
  prepare(options.kernel, options.files);
  const ModelInputs inputs = expand_all(options.files, options.kernel);
  if (!options.plot.empty() && inputs.inputs.size() > 1) {
    throw UsageError("--plot draws one matrix; name one file");
  }
  require_apart("--plot", options.plot, files_read(options.files, options.kernel));
  const CompileOptions& compile = options.kernel.compile;
  if (!options.plot.empty() && !backend_of(compile.target).ranks_untimed() &&
      compile.policy.search == SearchMode::instant) {
    throw UsageError(
        "--plot draws a search, or the tile space of a GPU; add --search ranked, proxy or "
        "exhaustive, or --target, sm_90 say");
  }
  const ExitCode code = explain_all(options, inputs.inputs);
  if (const std::string note = left_dense_note(inputs); !note.empty()) print_note(note);
  return code;
}

}  // namespace

Subcommand add_explain(CLI::App& app, const ModelConverter& convert) {
  const auto options = std::make_shared<ExplainCommandOptions>();
  CLI::App* command = app.add_subcommand("explain");
  set_manual(*command, "explain");
  add_file_arguments(*command, options->files);
  add_kernel_options(*command, options->kernel);
  options->kernel.model.convert = convert;
  command
      ->add_option("--plot", options->plot,
                   "Draw the search, or for a GPU the tile space, to this file, an SVG picture.")
      ->check(not_empty())
      ->type_name("FILE");
  add_json(*command, options->json);
  return {command, [options] { return explain_files(*options); }};
}

}  // namespace spjit::cli
