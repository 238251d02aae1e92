#include "bench/search_cost/cost_cases.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "spjit/error.hpp"
#include "spjit/generate.hpp"
#include "spjit/matrix_io.hpp"

namespace spjit::bench {
namespace {

struct Layer {
  const char* name;
  std::int64_t rows;
  std::int64_t cols;
  double sparsity;
};

constexpr Layer k_layers[] = {
    {"rn50/magnitude_pruning/0.95/bottleneck_2_block_group2_1_1", 128, 1152, 0.95},
    {"transformer/magnitude_pruning/0.8/"
     "body_encoder_layer_0_self_attention_multihead_attention_q_fully_connected",
     512, 512, 0.8},
    {"transformer/magnitude_pruning/0.9/body_decoder_layer_0_ffn_conv1_fully_connected", 2048, 512,
     0.9}};

/// Without n.
CostCase uniform_case(std::int64_t rows, std::int64_t cols, double sparsity) {
  CostCase item;
  item.name = fmt::format("uniform/{}x{}/{:g}", rows, cols, sparsity);
  GenerateOptions options;
  options.rows = rows;
  options.cols = cols;
  options.sparsity = sparsity;
  item.matrix = generate_matrix(options);
  return item;
}

/// In the place of a layer; without n.
CostCase stand_in(const std::string& name) {
  const Layer* layer = std::ranges::find(k_layers, name, [](const Layer& of) { return of.name; });
  if (layer == std::ranges::end(k_layers)) {
    throw InvalidArgument(name + ": has no file; expected one below --data");
  }
  return uniform_case(layer->rows, layer->cols, layer->sparsity);
}

}  // namespace

std::vector<std::string> default_cost_matrices() {
  std::vector<std::string> names;
  for (const Layer& layer : k_layers) names.emplace_back(layer.name);
  return names;
}

std::vector<CostCase> load_cost_cases(const std::filesystem::path& folder,
                                      std::span<const std::string> names,
                                      std::span<const std::int64_t> ns) {
  std::vector<CostCase> cases;
  for (const std::string& name : names) {
    CostCase item;
    if (std::filesystem::is_directory(folder)) {
      item.name = name;
      item.matrix = load_matrix(folder / (name + ".smtx"));
      item.matrix.sort_columns();
    } else {
      item = stand_in(name);
    }
    for (const std::int64_t n : ns) {
      item.n = n;
      cases.push_back(item);
    }
  }
  return cases;
}

std::vector<CostCase> rehearsal_cost_cases() {
  std::vector<CostCase> cases = {uniform_case(24, 16, 0.75)};
  cases.front().n = 64;
  return cases;
}

}  // namespace spjit::bench
