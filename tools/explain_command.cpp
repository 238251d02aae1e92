// spjit explain: what the compiler sees in a matrix, what it considered and what it chose.

#include <fmt/format.h>

#include <memory>
#include <span>

#include "cuda_explanation.hpp"
#include "cuda_space_svg.hpp"
#include "explanation.hpp"
#include "inputs.hpp"
#include "manual.hpp"
#include "matrix/file_bytes.hpp"
#include "search_svg.hpp"
#include "spjit/compiler.hpp"
#include "spjit/error.hpp"
#include "spjit/version.hpp"
#include "subcommands.hpp"

namespace spjit::cli {
namespace {

struct ExplainCommandOptions {
  std::vector<std::string> files;
  KernelOptions kernel;
  std::filesystem::path plot;
  bool json = false;
};

/// `ExplanationType` is Explanation or CudaExplanation; `explain_one(path)` makes one.
template <typename ExplanationType, typename ExplainOne>
ExitCode explain_all(const ExplainCommandOptions& options, const ExplainOne& explain_one) {
  const std::vector<Input> inputs = expand_inputs(options.files);
  Json list = Json::array();
  std::size_t failures = 0;
  for (const Input& input : inputs) {
    ExplanationType explanation;
    if (input.problem.empty()) {
      explanation = explain_one(input.path);
    } else {
      explanation.path = input.path;
      explanation.error = input.problem;
    }
    if (!explanation.error.empty()) {
      ++failures;
      print_error(explanation.error);
    } else if (!options.json) {
      print(explanation_text(explanation, options.kernel, inspect_stdout()));
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

/// Explains one file for a GPU and draws its tile space.
CudaExplanation explain_and_plot(const std::filesystem::path& path,
                                 const ExplainCommandOptions& options) {
  CudaExplanation explanation = explain_cuda(path, options.kernel);
  if (explanation.error.empty() && !options.plot.empty()) {
    const CudaChoice& choice = explanation.choice;
    const std::string title = fmt::format("{}, n = {}, {}", shown(path.filename()),
                                          options.kernel.compile.n, explanation.limits.product);
    const std::string picture =
        choice.search.entries.empty()
            ? cuda_space_svg({choice.space, choice.ranked, choice.chosen.tile}, title)
            : search_svg(choice.search, title);
    publish_file(options.plot, std::as_bytes(std::span(picture)));
  }
  return explanation;
}

/// Explains one file for the host and draws its search, if there was one.
Explanation explain_and_plot_search(const std::filesystem::path& path,
                                    const ExplainCommandOptions& options) {
  Explanation explanation = explain(path, options.kernel);
  if (explanation.error.empty() && !options.plot.empty() && explanation.search) {
    const std::string picture = search_svg(
        *explanation.search, fmt::format("{}, n = {}, {}", shown(path.filename()),
                                         options.kernel.compile.n, explanation.limits.name));
    publish_file(options.plot, std::as_bytes(std::span(picture)));
  }
  return explanation;
}

ExitCode explain_files(const ExplainCommandOptions& options) {
  // Options that are wrong for every matrix are not its failure.
  const Compiler check_options(options.kernel.compile, {.enabled = false, .directory = {}});
  if (!options.plot.empty() && expand_inputs(options.files).size() > 1) {
    throw UsageError("--plot draws one matrix; name one file");
  }
  if (options.kernel.compile.target.is_cuda()) {
    return explain_all<CudaExplanation>(options, [&](const std::filesystem::path& path) {
      return explain_and_plot(path, options);
    });
  }
  if (!options.plot.empty() && options.kernel.compile.policy.search == SearchMode::instant) {
    throw UsageError(
        "--plot draws a search, or the tile space of a GPU; add --search ranked, proxy or "
        "exhaustive, or --target, sm_90 say");
  }
  return explain_all<Explanation>(options, [&](const std::filesystem::path& path) {
    return explain_and_plot_search(path, options);
  });
}

}  // namespace

Subcommand add_explain(CLI::App& app) {
  const auto options = std::make_shared<ExplainCommandOptions>();
  CLI::App* command = app.add_subcommand("explain");
  set_manual(*command, "explain");
  add_file_arguments(*command, options->files);
  add_kernel_options(*command, options->kernel);
  command
      ->add_option("--plot", options->plot,
                   "Draw the search, or for a GPU the tile space, to this file, an SVG picture.")
      ->check(not_empty())
      ->type_name("FILE");
  add_json(*command, options->json);
  return {command, [options] { return explain_files(*options); }};
}

}  // namespace spjit::cli
