#pragma once

/// @file
/// Layers of a model's file as inputs: which of its weights they are, and with what options.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "matrix/model_weights.hpp"
#include "spjit/convolution.hpp"
#include "tools/options/inputs.hpp"
#include "tools/report/terminal.hpp"

namespace spjit::cli {

/// Makes a `.safetensors` file of an `.onnx` file and gives its path: weights NAME.weight, biases
/// NAME.bias, and as text `spjit` of its metadata a document as --layers has it. `shapes`: what
/// --input-shape says. Throws IoError. Empty: there is none.
using ModelConverter = std::function<std::filesystem::path(const std::filesystem::path& model,
                                                           const std::vector<std::string>& shapes)>;

/// The name of that text.
inline constexpr const char* k_model_metadata = "spjit";

/// Whether a layer's name is this one, or matches this glob.
[[nodiscard]] bool matches(const std::string& pattern, const std::string& name);

/// Options of layers whose names match, as a command line has them: "--activation=gelu".
struct LayerRule {
  std::string pattern;  ///< a name or a glob
  std::vector<std::string> arguments;
};

struct ModelOptions {
  double min_zeros = 50;                  ///< share of zeros that makes weights a layer [%]
  std::filesystem::path layers;           ///< a document of rules; empty: none
  std::vector<std::string> input_shapes;  ///< for `convert`
  std::vector<LayerRule> rules;           ///< of `layers`, once prepare() has run
  ModelConverter convert;
};

/// --min-zeros, --layers and --input-shape.
void add_model_options(CLI::App& command, ModelOptions& options);

/// Reads --layers. Throws IoError.
void read_rules(ModelOptions& options);

/// Weights of an open file that become a kernel.
struct ModelLayer {
  std::shared_ptr<const TensorFile> file;
  StoredWeights weights;
  std::vector<LayerRule> rules;  ///< that match, the weakest first
};

/// Weights that stay dense.
struct LeftDense {
  std::filesystem::path path;  ///< FILE/NAME
  std::vector<std::int64_t> shape;
  std::optional<double> sparsity;  ///< share of zeros, 0 to 1; none where they were not counted
  std::string reason;
};

struct ModelInputs {
  std::vector<Input> inputs;
  std::vector<LeftDense> left_dense;
  std::int64_t damaged = 0;  ///< of `inputs`, weights that cannot be read
};

/// Puts the layers of a model's file in its place, if they are zeros enough and all that they need
/// is known; reads the weights once to count zeros. `convolution`: what the command says that
/// convolutions are. A file without such a layer is an input with a problem if `required`.
/// Throws IoError for a rule that no weights match.
[[nodiscard]] ModelInputs expand_models(std::vector<Input> inputs, const ModelOptions& options,
                                        const std::optional<Convolution>& convolution,
                                        bool required);

/// "24 of 36 weights are left dense ...", a note; empty if there are none.
[[nodiscard]] std::string left_dense_note(const ModelInputs& inputs);
[[nodiscard]] Json describe(const std::vector<LeftDense>& left_dense);
[[nodiscard]] Json describe(const ModelOptions& options);

}  // namespace spjit::cli
