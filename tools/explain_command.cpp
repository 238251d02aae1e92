// spjit explain: what the compiler sees in a matrix, what it considered and what it chose.

#include <fmt/format.h>

#include <memory>

#include "explanation.hpp"
#include "inputs.hpp"
#include "manual.hpp"
#include "spjit/compiler.hpp"
#include "spjit/error.hpp"
#include "spjit/version.hpp"
#include "subcommands.hpp"

namespace spjit::cli {
namespace {

struct Options {
  std::vector<std::string> files;
  KernelOptions kernel;
  bool json = false;
};

ExitCode explain_files(const Options& options) {
  // Options that are wrong for every matrix are not its failure.
  const Compiler check_options(options.kernel.compile, {.enabled = false, .directory = {}});
  const std::vector<Input> inputs = expand_inputs(options.files);
  Json list = Json::array();
  std::size_t failures = 0;
  for (const Input& input : inputs) {
    Explanation explanation;
    if (input.problem.empty()) {
      explanation = explain(input.path, options.kernel);
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

}  // namespace

Subcommand add_explain(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("explain");
  set_manual(
      *command,
      {.name = "spjit explain",
       .summary = "say which tile a matrix gets, and why",
       .synopsis = {"FILE... --n N [OPTIONS]"},
       .description =
           "For each matrix: its statistics; the chosen tile and the reason; what each reorder "
           "algorithm makes of its rows at the chosen tile height M1 (nnc: non-empty columns of a "
           "row "
           "tile; a tile loads that many rows of B, so a smaller sum means more FMAs for each "
           "load; "
           "'none' is before, the others after); every tile candidate with the rule that dropped "
           "it "
           "and the rule's numbers. A '*' marks what was chosen. A tile reads M1 x vectors, then "
           "its "
           "block of k, panels a visit, row group, packing and how weights reach the FMA.\n"
           "\n"
           "The matrix is compiled, but neither run (except by --search exhaustive) nor cached.",
       .examples = {"spjit explain layer.npz --n 512",
                    "spjit explain layer.npz --n 512 --search exhaustive --search-budget 5000",
                    "spjit explain layer.npz --n 512 --json | jq '.matrices[].choice'"}});
  add_file_arguments(*command, options->files);
  add_kernel_options(*command, options->kernel);
  add_json(*command, options->json);
  return {command, [options] { return explain_files(*options); }};
}

}  // namespace spjit::cli
