#include "tools/options/kernel_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "artifact/families.hpp"
#include "base/environment.hpp"
#include "base/host_cpu.hpp"
#include "base/number_text.hpp"
#include "base/printable.hpp"
#include "compiler/compile_options.hpp"
#include "plan/operation.hpp"
#include "plan/problem.hpp"
#include "rankmodel/rank_model.hpp"
#include "spjit/error.hpp"

namespace spjit::cli {
namespace fs = std::filesystem;
namespace {

/// One of SearchPolicy::values.
CLI::Option* add_value(CLI::App& command, const std::string& flag, SearchPolicy& policy,
                       const std::string& name, const std::string& description) {
  return command.add_option_function<std::string>(
      flag, [&policy, name](const std::string& given) { policy.values[name] = given; },
      description);
}

/// A number of them; the library has each one's own range.
void add_count(CLI::App& command, const std::string& flag, SearchPolicy& policy,
               const std::string& name, const std::string& description) {
  add_value(command, flag, policy, name, description)
      ->transform(whole_number(0, k_most_count))
      ->type_name("COUNT");
}

/// One that has texts.
void add_source(CLI::App& command, const std::string& flag, SearchPolicy& policy,
                const std::string& name, const std::string& description) {
  add_value(command, flag, policy, name, description)->type_name("SOURCE")->default_str("ptx");
}

/// Of a rank model. It is read in modes that time alone, but a wrong name is an error in all.
CLI::Validator prior_or_file() {
  const auto check = [](const std::string& text) -> std::string {
    std::error_code error;
    if (text == k_prior_name || std::filesystem::exists(text, error)) return "";
    return fmt::format("no such file: {}", shown(text));
  };
  return {check, ""};
}

void add_search_options(CLI::App& command, CompileOptions& options) {
  const auto add_top_k = [&](const char* flag, const char* description) {
    command.add_option(flag, options.policy.top_k, description)
        ->transform(whole_number(1, k_most_count))
        ->type_name("K")
        ->capture_default_str();
  };
  add_name(
      command, "--search", options.policy.search, parse_search,
      "How the tile is chosen: instant (ranked only, microseconds), ranked (the best-ranked tiles "
      "are timed on this machine, by small proxy kernels where those pay), proxy (the same for "
      "every tile that the rules leave) or exhaustive (every one is compiled in full and timed). "
      "Where no device here can time, ranked lets a model of the GPU choose among the best-ranked "
      "and output says 'modelled, not timed'; else the best-ranked tile is taken and output says "
      "'ranked, not timed'.")
      ->type_name("MODE")
      ->default_str(std::string(to_string(options.policy.search)));
  command
      .add_option("--family", options.policy.family,
                  "The only family of kernels that is asked, such as compact. Default: all are.")
      ->check(not_empty())
      ->type_name("NAME");
  add_value(
      command, "--choice", options.policy, "choice",
      "Host: what chooses the family where nothing is timed: model (of this kind of CPU, where "
      "spjit has one) or rules.")
      ->type_name("NAME")
      ->default_str("model");
  command.add_flag("--hot", options.policy.hot,
                   "Choose and time for runs that follow one another with nothing between, as in a "
                   "benchmark. Default: as in a network, whose other layers empty the caches.");
  command
      .add_option("--network-nnz", options.policy.network_nnz,
                  "Nonzeros of all layers of the network, as far as they run in turn: code of a "
                  "small one stays in the caches. Default: 0, not known, more than they hold.")
      ->transform(whole_number(0, std::numeric_limits<std::int64_t>::max()))
      ->type_name("N");
  command
      .add_option(
          "--rank-model", options.policy.rank_model,
          "What ranks tiles: a model's file, or prior (a formula). Default: the model that is "
          "part of spjit, which hosts (in modes that time) and sm_90 have, else the prior.")
      ->check(not_empty())
      ->check(prior_or_file())
      ->type_name("FILE");
  command
      .add_option("--search-budget", options.policy.search_budget_ms,
                  "Milliseconds that choosing a tile may take; then the best so far is taken.")
      ->transform(real_number(0, 1e9))
      ->type_name("MS")
      ->default_str(fmt::format("{:.0f}", options.policy.search_budget_ms));
  add_top_k("--top-k", "With --search ranked: how many of the best-ranked tiles are timed.");
  add_top_k("--contenders", "The former name of --top-k.");
  command
      .add_option("--code-budget", options.policy.code_budget_bytes,
                  "Machine code that a kernel may have, in bytes. Over it, a kernel that reads A "
                  "takes over and the output says so.")
      ->transform(whole_number(0, std::numeric_limits<std::int64_t>::max()))
      ->type_name("BYTES")
      ->default_str(fmt::format("{} (256 MiB)", options.policy.code_budget_bytes));
}

/// "sm_80,host-avx2". Throws InvalidArgument.
std::vector<Target> parse_targets(const std::string& names, bool takes_several) {
  std::vector<Target> targets;
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find(',', begin), names.size());
    const Target target = Target::parse(names.substr(begin, end - begin));
    if (std::ranges::find(targets, target.name(), &Target::name) != targets.end()) {
      throw InvalidArgument(fmt::format("--target {}: {} is there twice", names, target.name()));
    }
    targets.push_back(target);
    begin = end + 1;
  }
  if (targets.size() == 1 || takes_several) return targets;
  throw InvalidArgument(fmt::format("--target {}: expected one target", names));
}

void add_target(CLI::App& command, KernelOptions& options) {
  const auto set = [&options](const std::string& names) {
    options.targets = parse_targets(names, options.takes_several_targets);
    options.compile.target = options.targets.front();
  };
  command
      .add_option_function<std::string>(
          "--target", set,
          fmt::format(
              "What to compile for: host (the best instruction set of this CPU), "
              "host-avx512, host-avx2 or host-generic, alone (this CPU) or with a CPU as in "
              "host-avx512:zen4; a GPU's architecture, sm_70 to sm_120, alone or with a "
              "card as in sm_90:h200; native (the GPU of this machine, else the host). "
              "'spjit devices' lists them.{}",
              options.takes_several_targets ? " Several, separated by commas: each layer "
                                              "is compiled for each of them."
                                            : ""))
      ->type_name(options.takes_several_targets ? "TARGETS" : "TARGET")
      ->default_str("host");
}

/// What only GPU targets look at.
void add_gpu_options(CLI::App& command, KernelOptions& options) {
  SearchPolicy& policy = options.compile.policy;
  add_count(command, "--m1", policy, "m1", "GPU: rows a tile, 1 to 128. Default: chosen.");
  add_count(command, "--n1", policy, "n1",
            "GPU: columns a block, which are its threads: 32 to 1024, a multiple of 32. Default: "
            "chosen.");
  add_source(command, "--from", policy, "source",
             "GPU: which text becomes the code: ptx (through nvJitLink, fast to compile) or cuda "
             "(through NVRTC). Both give the same results.");
  add_source(command, "--proxy-from", policy, "proxy_source",
             "GPU: the same for the proxies that a search times.");
  Resources& resources = options.compile.resources;
  command
      .add_option("--cuda", resources.toolkit_paths,
                  "GPU: where NVRTC and nvJitLink are: a CUDA toolkit, a folder of libraries or a "
                  "library. Default: SPJIT_CUDA_PATH, else .cuda (what scripts/build/setup_cuda.sh "
                  "makes), CUDA_HOME, CUDA_PATH, /usr/local/cuda and the loader's places.")
      ->check(not_empty())
      ->type_name("PATH");
  command
      .add_option("--compile-limit", resources.compile_limit_ms,
                  "GPU: compiling a kernel is given up after this many milliseconds. 0: never.")
      ->transform(real_number(0, 1e9))
      ->type_name("MS")
      ->capture_default_str();
}

/// What only targets with options of their own look at.
Json describe_values(const KernelOptions& options) {
  const NamedValues& values = options.compile.policy.values;
  const auto number = [&](const char* name) {
    const auto found = values.find(name);
    return found == values.end() ? Json(nullptr) : Json(std::stoll(found->second));
  };
  const auto text = [&](const char* name) {
    const auto found = values.find(name);
    return found == values.end() ? "ptx" : found->second;
  };
  return {{"m1", number("m1")},
          {"n1", number("n1")},
          {"from", text("source")},
          {"proxy_from", text("proxy_source")},
          {"compile_limit_ms", options.compile.resources.compile_limit_ms},
          {"keep_source", options.compile.keep_source}};
}

/// `Number` as std::from_chars() reads it, which takes plain decimal text only. The text is written
/// anew, because the parser would take a number that begins with 0 for an octal one.
template <class Number>
CLI::Validator check_number(std::string_view what, Number least, Number most) {
  const auto check = [what, least, most](std::string& text) -> std::string {
    const std::optional<Number> number = read_number<Number>(text);
    // Not "out of range": NaN is in none.
    if (!number || !(*number >= least && *number <= most)) {
      return fmt::format("expected a {} from {} to {}, not '{}'", what, least, most,
                         printable(text, k_longest_shown));
    }
    text = fmt::format("{}", *number);
    return {};
  };
  return {check, ""};
}

}  // namespace

void add_file_arguments(CLI::App& command, std::vector<std::string>& files, FileKinds kinds) {
  command
      .add_option("FILE", files,
                  kinds == FileKinds::matrices
                      ? "Matrix files (.smtx, .mtx, .smtx.gz, .mtx.gz, .npy, .npz); folders, which "
                        "are searched for such files recursively; globs, also quoted ones."
                      : "Matrix files (.smtx, .mtx, .smtx.gz, .mtx.gz, .npy, .npz); models "
                        "(.safetensors; of one in parts .safetensors.index.json, or all files; "
                        ".onnx through python -m spjit), whose layers are inputs, or FILE/NAME, "
                        "some of them, also by a glob; folders, which are searched for such files "
                        "recursively; globs, also quoted ones.")
      ->check(not_empty())
      ->required();
}

void add_load_options(CLI::App& command, LoadOptions& options) {
  command
      .add_option("--seed", options.value_seed,
                  "Seed of the values that pattern-only files (.smtx, .mtx pattern) get.")
      ->transform(seed_number())
      ->type_name("S")
      ->capture_default_str();
  command.add_flag_function(
      "--drop-zeros", [&options](std::int64_t) { options.keep_explicit_zeros = false; },
      "Drop entries whose stored value is 0, instead of multiplying by them.");
}

void add_kernel_options(CLI::App& command, KernelOptions& options) {
  add_problem_options(command, options.problem, options.operands);
  add_target(command, options);
  command
      .add_option(
          "--threads", options.compile.resources.threads,
          "Threads that a kernel runs on, the caller's included. 0: SPJIT_NUM_THREADS, else "
          "all CPUs that this process may use.")
      ->transform(whole_number(0, 4096))
      ->type_name("T")
      ->capture_default_str();
  add_name(command, "--reorder", options.compile.policy.reorder, parse_reorder,
           "How rows are grouped into row tiles: similarity (most FMAs for each loaded row of B), "
           "balanced (Algorithm 1 of LO-SpMM), none, or auto: for a GPU similarity or balanced "
           "for each tile, else similarity.")
      ->type_name("ALGORITHM")
      ->default_str(std::string(to_string(options.compile.policy.reorder)));
  add_search_options(command, options.compile);
  add_gpu_options(command, options);
  add_load_options(command, options.load);
  add_model_options(command, options.model);
}

KernelOptions options_for(const Input& input, const KernelOptions& options) {
  KernelOptions own = options;
  if (!input.layer) return own;
  const StoredWeights& weights = input.layer->weights;
  for (const LayerRule& rule : input.layer->rules) apply_arguments(rule.arguments, own);
  Problem& problem = own.problem;
  if (weights.is_convolution()) {
    problem.n.value = 0;  // those of the image
    set_kernel(*problem.convolution, std::span(weights.what.shape).subspan(2));
  } else {
    const bool has_columns_of_image = options.problem.convolution && problem.n == options.problem.n;
    if (has_columns_of_image) set_any_columns(problem);
    problem.operation = Operation::spmm;
    problem.convolution.reset();
  }
  OperandFile& scale = own.operands.scale;
  if (weights.scale != nullptr && scale.path.empty()) {
    scale.values = read_scale(*input.layer->file, weights);
    scale.path = input.path;
    problem.epilogue.scale = true;
  }
  check_problem(problem);
  OperandFile& bias = own.operands.bias;
  if (problem.epilogue.bias && bias.path.empty()) {
    bias.values = read_bias(*input.layer->file, weights);
    problem.epilogue.bias = !bias.values.empty();
    if (problem.epilogue.bias) bias.path = input.path;
  }
  return own;
}

Problem load_problem(const Input& input, const KernelOptions& options) {
  CsrMatrix matrix = input.layer ? read_weights(*input.layer->file, input.layer->weights)
                                 : load_matrix(input.path, options.load);
  check_shape(options.operands, matrix);
  Problem problem = options.problem;
  problem.group_scales = options.operands.group_scales.scales;
  problem.a = std::move(matrix);
  // Operands are those of a convolution as kernels see it.
  return rules_of(problem).gathers_b() ? checked_problem(std::move(problem)) : problem;
}

void take_no_values(CLI::App& command) {
  for (CLI::Option* option : command.get_options()) {
    if (option->get_expected_max() == 0) option->disable_flag_override();
  }
}

std::string problem_of(const CLI::ParseError& error) {
  constexpr std::string_view k_override = " was given a disallowed flag override";
  std::string text = error.what();
  if (text.ends_with(k_override)) {
    text.resize(text.size() - k_override.size());
    text += ": takes no value";
    if (!text.starts_with('-')) text.insert(0, "--");
  }
  return text;
}

void apply_arguments(const std::vector<std::string>& arguments, KernelOptions& options) {
  CLI::App parser;
  parser.set_help_flag();
  add_problem_options(parser, options.problem, options.operands);
  take_no_values(parser);
  try {
    // The parser takes them from the end.
    parser.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& error) {
    throw InvalidArgument(fmt::format("options of a layer: {}", problem_of(error)));
  }
  read_operands(options.operands);
}

namespace {

/// Whether no matrix file is among them: nothing but layers of models, and what cannot be read.
bool are_models_alone(const std::vector<std::string>& files) {
  // FILE/NAME of a file that is not there.
  const auto names_model = [](const fs::path& path) {
    std::error_code error;
    const std::string name = path.string();
    return !fs::exists(path, error) &&
           (name.find(".safetensors/") != name.npos || name.find(".onnx/") != name.npos);
  };
  return std::ranges::all_of(
      expand_inputs(files, FileKinds::matrices_and_models), [&](const Input& input) {
        return !input.problem.empty() || is_model_file(input.path) || names_model(input.path);
      });
}

}  // namespace

void prepare(KernelOptions& options, const std::vector<std::string>& files) {
  Problem& problem = options.problem;
  if (!rules_of(problem).has_images() && problem.n.value == 0 && are_models_alone(files)) {
    set_any_columns(problem);
  }
  read_rules(options.model);
  check_problem(options.problem);
  for (const Target& target : options.targets) {
    CompileOptions compile = options.compile;
    compile.target = target;
    check_for_target(options.problem, checked_options(compile).target);
  }
  read_operands(options.operands);
}

ModelInputs expand_all(const std::vector<std::string>& files, const KernelOptions& options,
                       bool required) {
  return expand_models(expand_inputs(files, FileKinds::matrices_and_models), options.model,
                       options.problem.convolution, required);
}

CLI::Validator not_empty() {
  const auto check = [](const std::string& text) -> std::string {
    return text.empty() ? "expected a path, not an empty text" : "";
  };
  return {check, ""};
}

void add_json(CLI::App& command, bool& json) {
  command.add_flag("--json", json,
                   "Print one JSON document on standard output; docs/use/cli.md describes it.");
}

int resolve_threads(int threads) {
  return threads > 0 ? threads : default_threads(read_environment(), usable_cpus());
}

Json describe(const KernelOptions& options) {
  const CompileOptions& compile = options.compile;
  std::vector<std::string> targets;
  targets.reserve(options.targets.size());
  for (const Target& target : options.targets) targets.push_back(target.name());
  Json json = {{"problem", describe(options.problem)},
               {"operands", describe(options.operands)},
               {"target", fmt::format("{}", fmt::join(targets, ","))},
               {"threads", compile.resources.threads},
               {"reorder", to_string(compile.policy.reorder)},
               {"family", compile.policy.family},
               {"hot", compile.policy.hot},
               {"network_nnz", compile.policy.network_nnz},
               {"search", to_string(compile.policy.search)},
               {"search_budget_ms", compile.policy.search_budget_ms},
               {"top_k", compile.policy.top_k},
               {"rank_model", compile.policy.rank_model.string()},
               {"code_budget_bytes", compile.policy.code_budget_bytes},
               {"verify", to_string(compile.verify)},
               {"seed", options.load.value_seed},
               {"drop_zeros", !options.load.keep_explicit_zeros},
               {"model", describe(options.model)},
               {"cache", options.cache.enabled}};
  for (const Target& target : options.targets) {
    const Backend& backend = backend_of(target);
    if (has_options(backend)) json[std::string(backend.name())] = describe_values(options);
  }
  return json;
}

CLI::Validator whole_number(std::int64_t least, std::int64_t most) {
  return check_number("whole number", least, most);
}

CLI::Validator seed_number() {
  return check_number("whole number", std::uint64_t{0}, std::numeric_limits<std::uint64_t>::max());
}

CLI::Validator real_number(double least, double most) {
  return check_number("number", least, most);
}

}  // namespace spjit::cli
