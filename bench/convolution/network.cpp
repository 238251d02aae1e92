#include "bench/convolution/network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "bench/json_file.hpp"
#include "bench/model/network.hpp"
#include "bench/model/resnet50.hpp"
#include "bench/side_by_side/case_sets.hpp"
#include "plan/convolution.hpp"
#include "spjit/error.hpp"
#include "spjit/generate.hpp"
#include "spjit/matrix_io.hpp"

namespace spjit::bench {
namespace {

namespace fs = std::filesystem;

constexpr const char* k_schema = "spjit-convolutions-1";

/// Mean squares of what a layer reads: a ReLU halves those of sums whose sign is as often one as
/// the other.
constexpr double k_squares_of_row = 2;

/// Of "dlmc/rn50/magnitude_pruning/0.9/NAME.smtx" and the like; pruning by magnitude first.
std::optional<fs::path> dlmc_file(const fs::path& data, const std::string& layer, int sparsity) {
  const fs::path folder = data / "dlmc" / "rn50";
  if (!fs::is_directory(folder)) return {};
  std::vector<fs::path> found;
  for (const auto& pruning : fs::directory_iterator(folder)) {
    const fs::path file =
        pruning.path() / fmt::format("{:.4g}", sparsity / 100.0) / (layer + ".smtx");
    if (fs::exists(file)) found.push_back(file);
  }
  if (found.empty()) return {};
  std::ranges::sort(found);
  const auto best = std::ranges::find_if(found, [](const fs::path& file) {
    return file.parent_path().parent_path().filename() == "magnitude_pruning";
  });
  return best == found.end() ? found.front() : *best;
}

/// Of "weights/sparsert_rn50_3x3/90/filter_bg1.npy": one of the 3x3 of a group, taken for that of
/// its second block.
std::optional<fs::path> sparsert_file(const fs::path& data, const std::string& layer,
                                      int sparsity) {
  const std::string begin = "bottleneck_2_block_group";
  const std::string end = "_1_1";
  if (!layer.starts_with(begin) || !layer.ends_with(end)) return {};
  const std::string group = layer.substr(begin.size(), layer.size() - begin.size() - end.size());
  fs::path file = data / "weights" / "sparsert_rn50_3x3" / fmt::format("{}", sparsity) /
                  fmt::format("filter_bg{}.npy", group);
  if (!fs::exists(file)) return {};
  return file;
}

/// The pattern of that file if it has the layer's shape and is nearly as sparse as its name says:
/// other ways to prune have the sparsity in the mean of a network only.
std::optional<CsrMatrix> pattern_of(const std::optional<fs::path>& file, const Resnet50Layer& layer,
                                    int sparsity) {
  constexpr double k_tolerance = 0.02;
  if (!file) return {};
  CsrMatrix matrix = load_matrix(*file);
  const double places = static_cast<double>(matrix.rows) *
                        static_cast<double>(std::max<std::int64_t>(1, matrix.cols));
  const double found = 1 - static_cast<double>(matrix.nnz()) / places;
  const bool fits = matrix.rows == layer.filters && matrix.cols == layer.weights_of_filter() &&
                    std::abs(found - sparsity / 100.0) <= k_tolerance;
  if (!fits) return {};
  return matrix;
}

ConvLayer resnet50_layer(const Resnet50Layer& layer, std::uint64_t seed,
                         const ConvNetworkOptions& options, int sparsity) {
  ConvLayer made{layer.name, layer.shape, {}, {}};
  for (const auto& file : {dlmc_file(options.data, layer.name, sparsity),
                           sparsert_file(options.data, layer.name, sparsity)}) {
    std::optional<CsrMatrix> pattern = pattern_of(file, layer, sparsity);
    if (!pattern) continue;
    made.weights = *std::move(pattern);
    made.origin = fs::relative(*file, options.data).string();
    break;
  }
  if (made.origin.empty()) {
    GenerateOptions generate;
    generate.rows = layer.filters;
    generate.cols = layer.weights_of_filter();
    generate.sparsity = sparsity / 100.0;
    generate.pattern = MatrixPattern::magnitude;
    generate.seed = seed;
    made.weights = generate_matrix(generate);
    made.origin = fmt::format("generated, seed {}", seed);
  }
  normalize(made.weights, k_squares_of_row);
  return made;
}

std::vector<ConvLayer> resnet50_of(const ConvNetworkOptions& options, int sparsity) {
  constexpr std::uint64_t k_seeds = 1000;
  std::vector<ConvLayer> layers;
  for (const Resnet50Layer& layer : resnet50_layers()) {
    const std::uint64_t seed = k_seeds * static_cast<std::uint64_t>(sparsity) + layers.size();
    layers.push_back(resnet50_layer(layer, seed, options, sparsity));
  }
  return layers;
}

/// "rapidocr-det-90": rapidocr-det, 90. Nothing for another form.
std::optional<std::pair<std::string, int>> name_and_sparsity(const std::string& folder) {
  const std::size_t dash = folder.rfind('-');
  const std::string digits = dash == std::string::npos ? "" : folder.substr(dash + 1);
  const bool is_number = !digits.empty() && digits.size() <= 2 &&
                         digits.find_first_not_of("0123456789") == std::string::npos;
  if (!is_number) return {};
  return std::pair(folder.substr(0, dash), std::stoi(digits));
}

ConvLayer layer_of(const nlohmann::json& record, const fs::path& folder) {
  const fs::path file = folder / record.at("file").get<std::string>();
  ConvLayer layer{record.at("name").get<std::string>(), read_convolution(record.at("convolution")),
                  load_matrix(file), file.filename().string()};
  check_weights(layer.shape, layer.weights.rows, layer.weights.cols);
  normalize(layer.weights, k_squares_of_row);
  return layer;
}

}  // namespace

std::string to_string(const ConvNetwork& network) {
  return fmt::format("{}-{}", network.name, network.sparsity);
}

std::vector<ConvLayer> load_conv_layers(const fs::path& folder) {
  const fs::path file = folder / k_convolutions_file;
  const auto document = load_json(file, k_schema);
  std::vector<ConvLayer> layers;
  try {
    for (const nlohmann::json& record : document.at("layers")) {
      layers.push_back(layer_of(record, folder));
    }
  } catch (const std::exception& error) {
    throw IoError(fmt::format("{}: layer {}: {}", file.string(), layers.size(), error.what()));
  }
  if (layers.empty()) throw IoError(fmt::format("{}: has no layers", file.string()));
  return layers;
}

std::vector<ConvNetwork> list_conv_networks(const ConvNetworkOptions& options) {
  std::vector<ConvNetwork> networks;
  networks.reserve(options.sparsities.size());
  for (const int sparsity : options.sparsities) {
    networks.push_back(
        {"resnet50", sparsity, [options, sparsity] { return resnet50_of(options, sparsity); }});
  }
  std::vector<fs::path> folders;
  if (fs::is_directory(options.networks)) {
    for (const auto& entry : fs::directory_iterator(options.networks)) {
      if (fs::exists(entry.path() / k_convolutions_file)) folders.push_back(entry.path());
    }
  }
  std::ranges::sort(folders);
  for (const fs::path& folder : folders) {
    const auto parts = name_and_sparsity(folder.filename().string());
    if (!parts || std::ranges::count(options.sparsities, parts->second) == 0) continue;
    networks.push_back(
        {parts->first, parts->second, [folder] { return load_conv_layers(folder); }});
  }
  return networks;
}

std::vector<ConvLayer> generated_convolutions() {
  std::vector<ConvLayer> layers;
  const auto add = [&](std::int64_t filters, const Convolution& shape, double sparsity) {
    GenerateOptions options;
    options.rows = filters;
    options.cols = shape.channels / shape.groups * shape.kernel_height * shape.kernel_width;
    options.sparsity = sparsity;
    options.seed = layers.size() + 1;
    layers.push_back({fmt::format("{}", layers.size()), shape, generate_matrix(options),
                      fmt::format("generated, seed {}", options.seed)});
  };
  const auto shape = [](std::int64_t channels, std::int64_t size, std::int64_t kernel,
                        std::int64_t stride, std::int64_t groups) {
    const std::int64_t pad = kernel / 2;
    return Convolution{channels, size, size, kernel, kernel, stride, stride,
                       pad,      pad,  pad,  pad,    1,      1,      groups};
  };
  add(16, shape(3, 20, 7, 2, 1), 0.5);
  add(16, shape(16, 10, 3, 1, 1), 0.8);
  add(32, shape(16, 10, 1, 1, 1), 0.8);
  add(32, shape(32, 10, 3, 1, 32), 0.3);
  add(32, shape(32, 10, 3, 2, 2), 0.8);
  add(64, shape(32, 10, 1, 2, 1), 0.9);
  return layers;
}

}  // namespace spjit::bench
