// spjit cache why: which kernels are in a cache, and in what the nearest to one that is not
// differs.

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "base/printable.hpp"
#include "compiler/cache_question.hpp"
#include "tools/commands/cache_actions.hpp"
#include "tools/commands/work_line.hpp"
#include "tools/options/cache_options.hpp"
#include "tools/options/layer_options.hpp"

namespace spjit::cli {
namespace {

struct WhyOptions : CacheActionOptions {
  std::vector<std::string> files;
  LayerOptions layer;
};

Json describe(const NearKernel& near) {
  Json differences = Json::array();
  for (const FieldDifference& one : near.differences) {
    differences.push_back({{"field", one.field}, {"there", one.there}, {"wanted", one.wanted}});
  }
  return {{"where", near.kernel.where},
          {"layer", near.kernel.layer},
          {"key", near.kernel.key},
          {"differences", std::move(differences)}};
}

Json describe(const CacheAnswer& answer) {
  Json json = {{"key", answer.key},
               {"found_in", nullptr},
               {"note", answer.note},
               {"remote", nullptr},
               {"nearest", nullptr}};
  if (!answer.found_in.empty()) json["found_in"] = answer.found_in;
  if (answer.remote) {
    json["remote"] = {{"url", answer.remote->url},
                      {"has_kernel", answer.remote->has_kernel},
                      {"problem", answer.remote->problem}};
  }
  if (answer.nearest) json["nearest"] = describe(*answer.nearest);
  return json;
}

std::string text_of(const RemoteKnowledge& remote) {
  if (!remote.problem.empty()) return remote.problem;
  return remote.url + (remote.has_kernel ? " has it" : " does not have it");
}

std::string text_of(const std::string& name, const std::string& target, const CacheAnswer& answer) {
  const bool is_found = !answer.found_in.empty();
  std::string text =
      fmt::format("{} for {}: {}\n  key      {}\n", name, target,
                  is_found ? "in " + one_line(answer.found_in) : "not there", answer.key);
  const auto add = [&](const char* label, const std::string& what) {
    text += fmt::format("  {:<8} {}\n", label, one_line(what));
  };
  if (answer.nearest) {
    add("nearest", name_of(answer.nearest->kernel));
    add("differs", answer.nearest->differences.empty()
                       ? "in nothing: it was damaged or cannot be used"
                       : to_text(answer.nearest->differences));
  } else if (!is_found) {
    add("nearest", "there is no kernel in the directory and its layers");
  }
  if (answer.remote) add("remote", text_of(*answer.remote));
  if (!answer.note.empty()) add("note", answer.note);
  return text;
}

/// An answer for each target.
void ask(const Input& input, const KernelOptions& given, const OpenedCache& opened, bool is_json,
         Json& answers) {
  const KernelOptions options = options_for(input, given);
  const Problem problem = load_problem(input, options);
  for (const Target& target : options.targets) {
    const CacheAnswer answer =
        ask_caches(opened, problem, options_of_target(options, target).compile);
    if (!is_json) {
      print(text_of(shown(input.path), target.name(), answer));
      continue;
    }
    Json json = describe(answer);
    json["file"] = input.path.string();
    json["target"] = target.name();
    answers.push_back(std::move(json));
  }
}

ExitCode why(WhyOptions& options) {
  KernelOptions& kernel = options.layer.kernel;
  kernel.cache = options.cache;
  const CacheStore store = open_store(options);
  prepare(kernel, options.files);
  const ModelInputs inputs = expand_all(options.files, kernel);
  const OpenedCache opened = open_cache(kernel.cache);
  std::size_t failures = 0;
  Json answers = Json::array();
  for (const Input& input : inputs.inputs) {
    std::string problem = input.problem;
    if (problem.empty()) {
      problem = attempt(input.path, [&] { ask(input, kernel, opened, options.json, answers); });
    }
    if (problem.empty()) continue;
    print_error(problem);
    ++failures;
  }
  if (options.json) {
    print_json({{"cache", store.root().string()}, {"kernels", answers}, {"failed", failures}});
  }
  return exit_code(inputs.inputs.size(), failures);
}

}  // namespace

Subcommand add_cache_why(CLI::App& cache, const ModelConverter& convert) {
  const auto options = std::make_shared<WhyOptions>();
  CLI::App* command = add_cache_action(cache, *options, "why");
  add_file_arguments(*command, options->files);
  add_layer_options(*command, options->layer, convert);
  add_cache_layers(*command, options->cache);
  add_cache_remote(*command, options->cache);
  return {command, [options] { return why(*options); }};
}

}  // namespace spjit::cli
