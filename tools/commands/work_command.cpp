// spjit work: makes kernels of a plan's lines, a bundle each, and of all a bundle.

#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "spjit/bundle.hpp"
#include "spjit/error.hpp"
#include "spjit/version.hpp"
#include "tools/commands/subcommands.hpp"
#include "tools/commands/work_line.hpp"
#include "tools/options/bundle_options.hpp"
#include "tools/options/cache_options.hpp"
#include "tools/options/kernel_options.hpp"
#include "tools/options/layer_options.hpp"
#include "tools/options/outputs.hpp"
#include "tools/report/kernel_cells.hpp"
#include "tools/report/manual.hpp"

namespace spjit::cli {
namespace {

namespace fs = std::filesystem;

struct WorkOptions {
  fs::path plan;
  fs::path out;
  std::string only;  ///< "I/N"; empty: all
  std::int64_t line = 0;
  fs::path bundle;
  std::string private_key;
  CacheOptions cache;
  ModelConverter convert;
  bool json = false;
};

/// What became of a line.
struct Outcome {
  std::size_t line = 0;
  const char* state = "failed";  ///< "made", "there" or "failed"
  std::string error;
};

/// The places of "I/N", from 0 and in all. Throws UsageError.
std::pair<std::size_t, std::size_t> worker_of(const std::string& text) {
  std::size_t which = 0;
  std::size_t workers = 0;
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, which);
  const bool has_slash = first.ec == std::errc() && first.ptr != end && *first.ptr == '/';
  const auto second = std::from_chars(has_slash ? first.ptr + 1 : end, end, workers);
  if (second.ec != std::errc() || second.ptr != end || which < 1 || which > workers ||
      workers > static_cast<std::size_t>(k_most_count)) {
    throw UsageError(
        fmt::format("--only is '{}'; expected I/N, such as 2/8 for the second of "
                    "eight workers",
                    one_line(text)));
  }
  return {which - 1, workers};
}

std::vector<std::size_t> chosen_lines(const WorkOptions& options,
                                      const std::vector<WorkLine>& lines) {
  if (!options.only.empty()) {
    const auto [which, workers] = worker_of(options.only);
    return share_of(lines, which, workers);
  }
  if (options.line > std::ssize(lines)) {
    throw UsageError(fmt::format("--line is {}; expected 1 to {}, the lines of {}", options.line,
                                 lines.size(), shown(options.plan)));
  }
  if (options.line > 0) return {static_cast<std::size_t>(options.line - 1)};
  std::vector<std::size_t> all(lines.size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

fs::path bundle_of(const WorkOptions& options, const WorkLine& line) {
  return options.out / (line.id + ".spjit");
}

/// Whether the line's bundle is there and whole. What is damaged is made again.
bool is_made(const fs::path& path, const WorkLine& line) {
  if (!fs::exists(path)) return false;
  try {
    const Bundle bundle = Bundle::open(path);
    bundle.verify();
    return bundle.entries().size() == 1 && bundle.entries().front().layer == line.layer;
  } catch (const IoError& error) {
    print_note(fmt::format("{}; it is made again", error.what()));
    return false;
  }
}

/// Makes lines that have the same arguments.
class Group {
 public:
  /// Throws IoError for arguments that are none. `lines`: of this group.
  Group(const WorkOptions& options, const std::vector<WorkLine>& lines,
        const std::vector<std::size_t>& places)
      : options_(options) {
    const WorkLine& first = lines[places.front()];
    read(first.arguments, places.front());
    std::vector<std::string> files;
    files.reserve(places.size());
    for (const std::size_t place : places) {
      files.push_back(argument_of(lines[place], places.size() > 1));
    }
    prepare(layer_.kernel, files);
    for (Input& input : expand_all(files, layer_.kernel).inputs) {
      const InputName name = name_in_plan(input);
      inputs_.emplace(name, std::move(input));
    }
  }

  /// Throws Error; nothing is written then.
  void make(const WorkLine& line) {
    const Input& input = find(line);
    const Compiler& compiler = compiler_for(line.target);
    LayerOptions own = layer_;
    const Target target = Target::parse(line.target);
    own.kernel = options_of_target(own.kernel, target);
    if (work_id(planned_input(input, own.kernel), line.layer, target) != line.id) {
      throw Error(
          fmt::format("it is another kernel than was planned (with spjit {}; this is {}): "
                      "its weights, its options or spjit changed; expected the same: make "
                      "the plan again",
                      one_line(line.spjit), SPJIT_VERSION));
    }
    LayerBundle bundle{BundleWriter(bundle_of(options_, line)), {}};
    own.bundle = &bundle;
    const Layer layer = process_layer(input, line.layer, compiler, own);
    if (layer.failed()) throw Error(layer.error);
    bundle.writer.finish();
  }

  void flush() const {
    for (const auto& [target, compiler] : compilers_) flush_remote(compiler);
  }

 private:
  static std::string argument_of(const WorkLine& line, bool is_whole) {
    if (is_whole || !is_model_file(line.file)) return line.file;
    return fmt::format("{}/{}", line.file, line.layer);
  }

  void read(const std::vector<std::string>& arguments, std::size_t place) {
    CLI::App parser;
    add_layer_options(parser, layer_, options_.convert);
    layer_.kernel.cache = options_.cache;
    layer_.measure = false;
    std::string problem;
    try {
      parser.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
      return;
    } catch (const CLI::ParseError& error) {
      problem = problem_of(error);
    } catch (const Error& error) {
      problem = error.what();
    }
    throw IoError(
        fmt::format("{}:{}: \"arguments\": {}", shown(options_.plan), place + 1, problem));
  }

  const Input& find(const WorkLine& line) const {
    const auto found = inputs_.find({line.file, is_model_file(line.file) ? line.layer : ""});
    if (found != inputs_.end()) {
      if (!found->second.problem.empty()) throw Error(found->second.problem);
      return found->second;
    }
    // A model that cannot be read is one input.
    const auto model = inputs_.find({line.file, ""});
    if (model != inputs_.end() && !model->second.problem.empty()) {
      throw Error(model->second.problem);
    }
    throw Error(
        fmt::format("there are no such weights now, or they are left dense; expected those "
                    "that were planned: '{}'",
                    one_line(line.layer)));
  }

  const Compiler& compiler_for(const std::string& target) {
    if (const auto found = compilers_.find(target); found != compilers_.end()) return found->second;
    CompileOptions options = layer_.kernel.compile;
    options.target = Target::parse(target);
    return compilers_.emplace(target, Compiler(options, layer_.kernel.cache)).first->second;
  }

  const WorkOptions& options_;
  LayerOptions layer_;
  std::map<InputName, Input> inputs_;
  std::map<std::string, Compiler> compilers_;  ///< by target
};

/// Makes what is not there.
std::vector<Outcome> work_on(const WorkOptions& options, const std::vector<WorkLine>& lines,
                             const std::vector<std::size_t>& chosen) {
  std::vector<Outcome> outcomes;
  std::map<std::vector<std::string>, std::vector<std::size_t>> missing;  // by arguments
  for (const std::size_t line : chosen) {
    if (is_made(bundle_of(options, lines[line]), lines[line])) {
      outcomes.push_back({line, "there", ""});
    } else {
      missing[lines[line].arguments].push_back(line);
    }
  }
  Progress progress(inspect_stderr(), chosen.size() - outcomes.size());
  for (const auto& [arguments, places] : missing) {
    Group group(options, lines, places);
    for (const std::size_t place : places) {
      const WorkLine& line = lines[place];
      const std::string name = fmt::format("{}: {}, {}", line.file, line.layer, line.target);
      progress.begin(name);
      Outcome& outcome = outcomes.emplace_back(Outcome{place, "made", ""});
      outcome.error = attempt(name, [&] { group.make(line); });
      if (outcome.error.empty()) {
        progress.finish();
        continue;
      }
      outcome.state = "failed";
      progress.fail(outcome.error);
    }
    group.flush();
  }
  return outcomes;
}

struct Joined {
  std::size_t kernels;
  std::int64_t bytes;
};

/// Of all lines' bundles one, in the order of the plan; what two lines make is in it once. Throws
/// Error if one is not there.
Joined join(const WorkOptions& options, const std::vector<WorkLine>& lines) {
  std::vector<std::size_t> missing;
  for (std::size_t line = 0; line < lines.size(); ++line) {
    if (!fs::exists(bundle_of(options, lines[line]))) missing.push_back(line);
  }
  if (!missing.empty()) {
    const WorkLine& first = lines[missing.front()];
    throw Error(
        fmt::format("{}: not written: {} of {} lines have no bundle in {}, first line {} "
                    "('{}' for {}); expected all",
                    shown(options.bundle), missing.size(), lines.size(), shown(options.out),
                    missing.front() + 1, one_line(first.layer), one_line(first.target)));
  }
  BundleWriter writer(options.bundle, options.private_key);
  for (const WorkLine& line : lines) writer.add(Bundle::open(bundle_of(options, line)));
  const std::size_t kernels = writer.kernels();
  return {kernels, writer.finish()};
}

ExitCode report(const WorkOptions& options, const std::vector<WorkLine>& lines,
                const std::vector<Outcome>& outcomes, const std::optional<Joined>& joined) {
  const auto count = [&](std::string_view state) {
    return static_cast<std::size_t>(std::ranges::count_if(
        outcomes, [&](const Outcome& outcome) { return outcome.state == state; }));
  };
  const std::size_t failures = count("failed");
  if (options.json) {
    Json list = Json::array();
    for (const Outcome& outcome : outcomes) {
      const WorkLine& line = lines[outcome.line];
      list.push_back({{"line", outcome.line + 1},
                      {"layer", line.layer},
                      {"target", line.target},
                      {"file", bundle_of(options, line).string()},
                      {"state", outcome.state},
                      {"error", outcome.error.empty() ? Json(nullptr) : Json(outcome.error)}});
    }
    print_json({{"spjit", SPJIT_VERSION},
                {"command", "work"},
                {"plan", options.plan.string()},
                {"lines", std::move(list)},
                {"bundle", joined ? Json{{"file", options.bundle.string()},
                                         {"kernels", joined->kernels},
                                         {"bytes", joined->bytes}}
                                  : Json(nullptr)},
                {"failed", failures}});
  } else {
    print(fmt::format("{}: {} of {} lines: {} made, {} were there, {} failed\n",
                      shown(options.plan), outcomes.size(), lines.size(), count("made"),
                      count("there"), failures));
    if (joined) {
      print(kernels_line(options.bundle, joined->kernels, joined->bytes));
    }
  }
  return exit_code(outcomes.size(), failures);
}

ExitCode work(const WorkOptions& options) {
  if (!options.private_key.empty() && options.bundle.empty()) {
    throw UsageError("--key needs --bundle, the file that is signed");
  }
  require_apart("--bundle", options.bundle, {options.plan, options.private_key});
  const std::vector<WorkLine> lines = read_work(options.plan);
  const std::vector<std::size_t> chosen = chosen_lines(options, lines);
  prepare_directory(options.out);
  const std::vector<Outcome> outcomes = work_on(options, lines, chosen);
  const bool has_failed =
      std::ranges::any_of(outcomes, [](const Outcome& outcome) { return !outcome.error.empty(); });
  std::optional<Joined> joined;
  if (!options.bundle.empty() && !has_failed) joined = join(options, lines);
  return report(options, lines, outcomes, joined);
}

void add_options(CLI::App& command, WorkOptions& options) {
  command.add_option("PLAN", options.plan, "The lines, as 'spjit plan' wrote them.")
      ->check(not_empty())
      ->required();
  command
      .add_option("--out", options.out,
                  "The directory of the bundles, a kernel each, which is made if need be. Lines "
                  "whose bundle is there and whole are done.")
      ->check(not_empty())
      ->type_name("DIR")
      ->required();
  CLI::Option* only =
      command
          .add_option("--only", options.only,
                      "The lines of worker I of N, I from 1: workers have about the same work, "
                      "and no line is of two.")
          ->check(not_empty())
          ->type_name("I/N");
  command.add_option("--line", options.line, "This line alone, from 1.")
      ->transform(whole_number(1, k_most_count))
      ->excludes(only)
      ->type_name("K");
  command
      .add_option("-o,--bundle", options.bundle,
                  "Then write the kernels of all lines to this bundle, in the order of the plan. "
                  "It is an error if some are missing.")
      ->check(not_empty())
      ->type_name("FILE");
  add_signing_key(command, options.private_key);
}

}  // namespace

Subcommand add_work(CLI::App& app, const ModelConverter& convert) {
  const auto options = std::make_shared<WorkOptions>();
  CLI::App* command = app.add_subcommand("work");
  set_manual(*command, "work");
  options->convert = convert;
  add_options(*command, *options);
  add_cache_directory(*command, options->cache);
  add_cache_use(*command, options->cache);
  add_json(*command, options->json);
  return {command, [options] { return work(*options); }};
}

}  // namespace spjit::cli
