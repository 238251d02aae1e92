#include "tools/options/model_inputs.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/arithmetic.hpp"
#include "base/file_bytes.hpp"
#include "base/json_text.hpp"
#include "base/number_text.hpp"
#include "base/refusal.hpp"
#include "spjit/error.hpp"
#include "tools/options/kernel_options.hpp"

namespace spjit::cli {
namespace fs = std::filesystem;
namespace {

constexpr const char* k_name = "name";
constexpr std::string_view k_geometry = "--conv=";
constexpr const char* k_needs_geometry =
    "a convolution needs its image, stride and padding: --layers FILE, for .onnx also "
    "--input-shape";
constexpr const char* k_needs_length =
    "weights of three dimensions are a convolution of one, which needs channels and length, stride "
    "and padding: --layers FILE";

/// What an option of a document is on a command line; nothing for `false`.
std::optional<std::string> argument_of(const std::string& option, const nlohmann::json& value) {
  if (value.is_boolean()) {
    return value.get<bool>() ? std::optional("--" + option) : std::nullopt;
  }
  if (value.is_string()) return fmt::format("--{}={}", option, value.get<std::string>());
  if (value.is_number()) return fmt::format("--{}={}", option, value.dump());
  throw Error(fmt::format("\"{}\" is {}; expected a text, a number, true or false",
                          printable(option), quoted_json(value)));
}

/// Throws Error for options that no layer may have.
void check_arguments(const LayerRule& rule) {
  KernelOptions scratch;
  apply_arguments(rule.arguments, scratch);
}

/// [{"name": a name or a glob, option: value, ...}, ...]
std::vector<LayerRule> rules_of(const nlohmann::json& list) {
  if (!list.is_array()) throw Error(fmt::format("{}; expected an array", quoted_json(list)));
  std::vector<LayerRule> rules;
  for (const nlohmann::json& entry : list) {
    LayerRule& rule = rules.emplace_back();
    rule.pattern = JsonMembers(entry, "a layer").text(k_name);
    for (const auto& [option, value] : entry.items()) {
      if (option == k_name) continue;
      if (auto argument = argument_of(option, value)) rule.arguments.push_back(*argument);
    }
    check_arguments(rule);
  }
  return rules;
}

std::vector<LayerRule> rules_in(const std::string& text, const std::string& name) {
  try {
    const nlohmann::json document = parse_json(text);
    return rules_of(JsonMembers(document, "the document").at("layers"));
  } catch (const Error& error) {
    throw IoError(fmt::format("{}: {}", name, error.what()));
  }
}

/// What a converter says of nodes that it left out, or could not read.
std::map<std::string, std::string> reasons_in(const std::string& text, const char* member) {
  std::map<std::string, std::string> reasons;
  const nlohmann::json document = parse_json(text);
  if (!document.contains(member)) return reasons;
  for (const nlohmann::json& entry : document.at(member)) {
    JsonMembers members(entry, "a node");
    reasons.emplace(members.text(k_name), members.text("reason"));
  }
  return reasons;
}

bool says_geometry(const LayerRule& rule) {
  return std::ranges::any_of(
      rule.arguments, [](const std::string& argument) { return argument.starts_with(k_geometry); });
}

/// Weights of a model, also those that an input does not name.
struct NamedWeights {
  std::string name;
  bool may_be_convolution = false;
};

/// Takes one file apart.
class ModelReader {
 public:
  ModelReader(const Input& input, const ModelOptions& options,
              const std::optional<Convolution>& convolution)
      : input_(input), options_(options), convolution_(convolution), rules_(options.rules) {}

  ModelInputs read() {
    file_ = std::make_shared<const TensorFile>(open());
    take_metadata();
    for (const StoredWeights& weights : weights_in(*file_)) {
      names_.push_back({weights.what.name, weights.is_convolution()});
      if (matches(input_.layers, weights.what.name)) add(weights);
    }
    return std::move(found_);
  }

  /// Of all weights, also those that the input does not name; once read() is through.
  [[nodiscard]] const std::vector<NamedWeights>& names() const noexcept { return names_; }

 private:
  [[nodiscard]] TensorFile open() const {
    const std::string name = input_.path.string();
    const bool is_onnx = ::fnmatch("*.onnx", name.c_str(), FNM_CASEFOLD) == 0;
    if (!is_onnx) return TensorFile::open(input_.path, name);
    if (!options_.convert) {
      throw IoError(
          fmt::format("{}: reading .onnx takes the Python package: python -m spjit", name));
    }
    return TensorFile::open(options_.convert(input_.path, options_.input_shapes), name);
  }

  /// Rules of the file itself are weaker than those of the command.
  void take_metadata() {
    const std::string text = file_->metadata(k_model_metadata);
    if (text.empty()) return;
    rules_ = rules_in(text, fmt::format("{}: metadata {}", file_->name(), k_model_metadata));
    rules_.insert(rules_.end(), options_.rules.begin(), options_.rules.end());
    for (const auto& [name, reason] : reasons_in(text, "left_dense")) {
      names_.push_back({name, true});
      if (matches(input_.layers, name)) {
        found_.left_dense.push_back({path_of(name), {}, std::nullopt, reason});
      }
    }
    for (const auto& [name, reason] : reasons_in(text, "damaged")) {
      names_.push_back({name, true});
      if (matches(input_.layers, name)) {
        add_damaged(name, fmt::format("{}: {}", path_of(name).string(), reason));
      }
    }
  }

  [[nodiscard]] fs::path path_of(std::string name) const {
    std::ranges::replace(name, '/', '.');
    fs::path path = input_.path;
    return path += "/" + name;
  }

  void add_damaged(const std::string& name, std::string problem) {
    found_.inputs.push_back({path_of(name), std::move(problem)});
    ++found_.damaged;
  }

  void add(const StoredWeights& weights) {
    ModelLayer layer{file_, weights, {}};
    for (const LayerRule& rule : rules_) {
      if (matches(rule.pattern, weights.what.name)) layer.rules.push_back(rule);
    }
    LeftDense left{path_of(weights.what.name), weights.what.shape, std::nullopt,
                   weights.what.refusal};
    if (left.reason.empty()) {
      // What is wrong with its elements stops no other layer.
      std::string problem =
          attempt(input_.path, [&] { left.reason = why_dense(layer, left).reason(); });
      if (!problem.empty()) return add_damaged(weights.what.name, std::move(problem));
    }
    if (left.reason.empty()) {
      found_.inputs.push_back(
          {left.path, "", "*", std::make_shared<const ModelLayer>(std::move(layer))});
    } else {
      found_.left_dense.push_back(std::move(left));
    }
  }

  [[nodiscard]] Refusal why_dense(const ModelLayer& layer, LeftDense& left) const {
    const StoredWeights& weights = layer.weights;
    const std::int64_t elements = weights.rows * weights.cols;
    if (elements == 0) return Refusal("it has no elements");
    left.sparsity = 1 - as_double(count_nonzeros(*file_, weights)) / as_double(elements);
    if (100 * *left.sparsity < options_.min_zeros) {
      return Refusal(
          fmt::format("fewer than {} % of it are zeros (--min-zeros)", options_.min_zeros));
    }
    if (!weights.is_convolution() || std::ranges::any_of(layer.rules, says_geometry)) {
      return Refusal::none();
    }
    const bool is_sequence = weights.what.shape.size() == 3;
    // An image that the command has for all is none of a layer of one dimension.
    if (convolution_ && (!is_sequence || convolution_->height == 1)) return Refusal::none();
    return Refusal(is_sequence ? k_needs_length : k_needs_geometry);
  }

  const Input& input_;
  const ModelOptions& options_;
  const std::optional<Convolution>& convolution_;
  std::vector<LayerRule> rules_;
  std::shared_ptr<const TensorFile> file_;
  std::vector<NamedWeights> names_;
  ModelInputs found_;
};

/// Throws IoError for a rule of --layers that none of the weights matches, or with "conv" none of a
/// convolution: what a layer computes would be left out without a word.
void require_matches(const ModelOptions& options, const std::vector<NamedWeights>& all) {
  for (const LayerRule& rule : options.rules) {
    const auto is_of = [&](const NamedWeights& one) { return matches(rule.pattern, one.name); };
    if (std::ranges::none_of(all, is_of)) {
      throw IoError(
          fmt::format("{}: no weights of a model here are called '{}', as in \"fc1.weight\"; "
                      "'spjit inspect' lists them",
                      options.layers.string(), printable(rule.pattern)));
    }
    const auto is_convolution_of = [&](const NamedWeights& one) {
      return one.may_be_convolution && is_of(one);
    };
    if (says_geometry(rule) && std::ranges::none_of(all, is_convolution_of)) {
      throw IoError(
          fmt::format("{}: '{}' has \"conv\", but its weights have two dimensions; expected three "
                      "or four",
                      options.layers.string(), printable(rule.pattern)));
    }
  }
}

std::string no_layer_text(const Input& input, const ModelInputs& found) {
  if (found.left_dense.empty()) {
    return input.layers == "*"
               ? fmt::format("{}: it has no weights of two dimensions or more", input.path.string())
               : fmt::format("{}: it has no weights '{}'; 'spjit inspect {}' lists them",
                             input.path.string(), input.layers, input.path.string());
  }
  return fmt::format("{}: none of its {} weights is a layer for a kernel; 'spjit inspect' says why",
                     input.path.string(), found.left_dense.size());
}

std::string check_input_shape(const std::string& text) {
  const std::size_t equals = text.rfind('=');
  bool is_right = equals != text.npos && equals > 0;
  std::string_view sizes = std::string_view(text).substr(is_right ? equals + 1 : 0);
  while (is_right) {
    const std::size_t end = sizes.find('x');
    const auto size = read_number<std::int64_t>(sizes.substr(0, end));
    is_right = size && *size >= 1;
    if (end == sizes.npos) break;
    sizes.remove_prefix(end + 1);
  }
  return is_right ? ""
                  : fmt::format("expected NAME=SIZES, as x=1x3x640x640, not '{}'", shown(text));
}

}  // namespace

void add_model_options(CLI::App& command, ModelOptions& options) {
  command
      .add_option("--min-zeros", options.min_zeros,
                  "Of a model's file: weights are a layer if so many of them, in percent, are 0. "
                  "Others stay dense.")
      ->transform(real_number(0, 100))
      ->type_name("PERCENT")
      ->capture_default_str();
  command
      .add_option(
          "--layers", options.layers,
          "A JSON document with options of layers of a model, {\"layers\": [{\"name\": name "
          "or glob, \"activation\": \"gelu\", \"conv\": \"64x56x56\", \"stride\": 2, "
          "...}]}: what is computed, as options of the command say it. Of several that "
          "match, the last says it.")
      ->check(not_empty())
      ->type_name("FILE");
  command
      .add_option("--input-shape", options.input_shapes,
                  "Of an .onnx file: the shape of an input, as x=1x3x640x640. Convolutions need "
                  "it where the model has none. Can be given several times.")
      ->check(check_input_shape)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("NAME=SIZES");
}

bool matches(const std::string& pattern, const std::string& name) {
  return pattern == name || ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

void read_rules(ModelOptions& options) {
  if (options.layers.empty()) return;
  const std::vector<std::byte> bytes = read_file(options.layers);
  options.rules = rules_in({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                           options.layers.string());
}

ModelInputs expand_models(std::vector<Input> inputs, const ModelOptions& options,
                          const std::optional<Convolution>& convolution, bool required) {
  ModelInputs all;
  std::vector<NamedWeights> names;
  bool all_are_read = true;
  for (Input& input : inputs) {
    if (!input.problem.empty() || !is_model_file(input.path)) {
      all.inputs.push_back(std::move(input));
      continue;
    }
    ModelInputs found;
    input.problem = attempt(input.path, [&] {
      ModelReader reader(input, options, convolution);
      found = reader.read();
      names.insert(names.end(), reader.names().begin(), reader.names().end());
    });
    all_are_read = all_are_read && input.problem.empty();
    if (input.problem.empty() && found.inputs.empty() && (required || found.left_dense.empty())) {
      input.problem = no_layer_text(input, found);
    }
    if (!input.problem.empty()) all.inputs.push_back(input);
    std::ranges::move(found.inputs, std::back_inserter(all.inputs));
    std::ranges::move(found.left_dense, std::back_inserter(all.left_dense));
    all.damaged += found.damaged;
  }
  if (all_are_read) require_matches(options, names);
  return all;
}

std::string left_dense_note(const ModelInputs& inputs) {
  if (inputs.left_dense.empty()) return "";
  // Others are matrices, and models that have no layer.
  const auto layers = std::ranges::count_if(
      inputs.inputs, [](const Input& input) { return input.layer != nullptr; });
  return fmt::format("{} of {} weights are left dense; 'spjit inspect' says why",
                     inputs.left_dense.size(),
                     std::ssize(inputs.left_dense) + layers + inputs.damaged);
}

Json describe(const std::vector<LeftDense>& left_dense) {
  Json list = Json::array();
  for (const LeftDense& left : left_dense) {
    list.push_back({{"file", left.path.string()},
                    {"shape", left.shape},
                    {"sparsity", left.sparsity ? Json(*left.sparsity) : Json(nullptr)},
                    {"reason", left.reason}});
  }
  return list;
}

Json describe(const ModelOptions& options) {
  return {{"min_zeros", options.min_zeros},
          {"layers", options.layers.empty() ? Json(nullptr) : Json(options.layers.string())},
          {"input_shapes", options.input_shapes}};
}

}  // namespace spjit::cli
