// spjit plan: the kernels of weight files as lines, which several machines can make.

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "spjit/version.hpp"
#include "tools/commands/subcommands.hpp"
#include "tools/commands/work_line.hpp"
#include "tools/options/inputs.hpp"
#include "tools/options/kernel_options.hpp"
#include "tools/options/layer_options.hpp"
#include "tools/report/manual.hpp"

namespace spjit::cli {
namespace {

struct PlanOptions {
  std::vector<std::string> files;
  LayerOptions layer;
  const CLI::App* parser = nullptr;
};

/// What the command line said, in a form that a parser of the same options reads: but files and
/// --target.
std::vector<std::string> arguments_of(const CLI::App& parser) {
  std::vector<std::string> arguments;
  for (const CLI::Option* option : parser.get_options()) {
    if (option->count() == 0 || option->get_lnames().empty()) continue;
    const std::string name = "--" + option->get_lnames().front();
    if (name == "--target") continue;
    if (option->get_expected_max() == 0) {
      arguments.push_back(name);
      continue;
    }
    for (const std::string& value : option->results()) {
      const bool is_without = option->get_expected_min() == 0 && value == option->get_default_str();
      arguments.push_back(is_without ? name : fmt::format("{}={}", name, value));
    }
  }
  return arguments;
}

/// A search that times needs the device, for which nothing else may run there; else any CPU does.
std::string resource_of(const CompileOptions& options) {
  const Target& target = options.target;
  if (options.policy.search == SearchMode::instant) return "cpu";
  if (target.arch() != 0) return "gpu:" + target.name();
  return target.card().empty() ? "host" : "host:" + target.card();
}

/// Code for a GPU takes NVIDIA's compiler 40 us a nonzero; a loop of a CPU is made as A is copied.
/// Nothing but an order follows from it.
double guessed_seconds(const CompileOptions& options, std::int64_t nnz) {
  const auto count = static_cast<double>(nnz);
  double seconds = options.target.arch() != 0 ? 0.3 + 4e-5 * count : 0.005 + 1e-7 * count;
  if (options.policy.search != SearchMode::instant) {
    seconds += std::min(options.policy.search_budget_ms * 1e-3, 10 * seconds);
  }
  return seconds;
}

std::string line_of(const PlannedInput& input, WorkLine line, const Target& target) {
  const CompileOptions options = options_of_target(input.options, target).compile;
  line.target = target.name();
  line.resource = resource_of(options);
  line.seconds = guessed_seconds(options, line.nnz);
  line.id = work_id(input, line.layer, target);
  try {
    return to_json(line).dump(-1, ' ', true) + "\n";
  } catch (const Json::exception&) {
    throw Error("its name is not UTF-8, which a plan is written in");
  }
}

/// A line for each target.
std::string lines_of(const Input& input, const std::string& name, const KernelOptions& options,
                     const std::vector<std::string>& arguments) {
  const PlannedInput planned = planned_input(input, options);
  const InputName name_of = name_in_plan(input);
  WorkLine line;
  line.spjit = SPJIT_VERSION;
  line.file = name_of.file;
  line.layer = name_of.layer.empty() ? name : name_of.layer;
  line.nnz = planned.problem.at("a").at("nnz").get<std::int64_t>();
  line.arguments = arguments;
  std::string lines;
  for (const Target& target : options.targets) lines += line_of(planned, line, target);
  return lines;
}

ExitCode plan(PlanOptions& options) {
  KernelOptions& kernel = options.layer.kernel;
  const std::vector<std::string> arguments = arguments_of(*options.parser);
  prepare(kernel, options.files);
  const ModelInputs inputs = expand_all(options.files, kernel);
  const std::vector<std::string> names = unique_identifiers(inputs.inputs);
  std::size_t failures = 0;
  for (std::size_t i = 0; i < inputs.inputs.size(); ++i) {
    const Input& input = inputs.inputs[i];
    std::string problem = input.problem;
    if (problem.empty()) {
      problem = attempt(input.path, [&] { print(lines_of(input, names[i], kernel, arguments)); });
    }
    if (problem.empty()) continue;
    print_error(problem);
    ++failures;
  }
  if (const std::string note = left_dense_note(inputs); !note.empty()) print_note(note);
  return exit_code(inputs.inputs.size(), failures);
}

}  // namespace

Subcommand add_plan(CLI::App& app, const ModelConverter& convert) {
  const auto options = std::make_shared<PlanOptions>();
  CLI::App* command = app.add_subcommand("plan");
  set_manual(*command, "plan");
  add_file_arguments(*command, options->files);
  add_layer_options(*command, options->layer, convert);
  options->parser = command;
  return {command, [options] { return plan(*options); }};
}

}  // namespace spjit::cli
