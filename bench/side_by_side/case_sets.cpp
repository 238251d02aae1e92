#include "bench/side_by_side/case_sets.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "spjit/error.hpp"
#include "spjit/generate.hpp"
#include "spjit/matrix_io.hpp"

namespace spjit::side_by_side {
namespace {

namespace fs = std::filesystem;

std::vector<MatrixEntry> list_dlmc(const SetOptions& options) {
  const fs::path folder = options.data / "dlmc";
  std::vector<MatrixEntry> entries;
  for (const fs::path& file : files_below(folder, {".smtx"})) {
    MatrixEntry entry{"dlmc", fs::relative(file, folder).string(), "",
                      [file] { return load_matrix(file); }, options.n};
    const auto own = resnet50_columns(file.stem().string());
    const bool rn50 = entry.name.rfind("rn50/", 0) == 0;
    if (rn50 && own && std::find(entry.n.begin(), entry.n.end(), *own) == entry.n.end()) {
      entry.n.push_back(*own);
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

/// Dense operands lie beside the weights; they are no matrices to be multiplied by.
std::vector<MatrixEntry> list_weights(const SetOptions& options) {
  const fs::path folder = options.data / "weights";
  std::vector<MatrixEntry> entries;
  for (const fs::path& file : files_below(folder, {".npy", ".npz", ".mtx"})) {
    if (file.filename() == "BC.npy" || file.filename() == "ref.npy") continue;
    entries.push_back({"weights", fs::relative(file, folder).string(), "",
                       [file] { return load_matrix(file); }, options.n});
  }
  return entries;
}

MatrixEntry paper_entry(const nlohmann::json& shape, double sparsity) {
  const auto rows = shape.at("m").get<std::int64_t>();
  const auto cols = shape.at("k").get<std::int64_t>();
  const auto id = shape.at("id").get<std::int64_t>();
  MatrixEntry entry =
      uniform_entry("paper", rows, cols, sparsity,
                    static_cast<std::uint64_t>(1000 * id + std::llround(1000 * sparsity)));
  entry.name = fmt::format("{:02}-{}x{}/{}", id, rows, cols, sparsity);
  entry.layer = fmt::format("{} {}", shape.at("network").get<std::string>(),
                            shape.at("layer").get<std::string>());
  entry.n = {shape.at("n").get<std::int64_t>()};
  return entry;
}

std::vector<MatrixEntry> list_paper(const SetOptions& options) {
  std::ifstream file(options.paper_set);
  const auto document = nlohmann::json::parse(file, nullptr, false);
  if (document.is_discarded() || document.value("schema", "") != "spjit-paper-set-1") {
    throw IoError(fmt::format("{}: expected a JSON file of schema spjit-paper-set-1",
                              options.paper_set.string()));
  }
  const std::vector<double> chosen = paper_host_sparsities();
  std::vector<MatrixEntry> entries;
  for (const auto& shape : document.at("shapes")) {
    for (const double sparsity : document.at("sparsities").get<std::vector<double>>()) {
      const bool wanted =
          options.all || std::find(chosen.begin(), chosen.end(), sparsity) != chosen.end();
      if (wanted) entries.push_back(paper_entry(shape, sparsity));
    }
  }
  return entries;
}

/// Layers of language models, for one token and for few.
std::vector<MatrixEntry> list_tokens() {
  constexpr std::pair<std::int64_t, std::int64_t> k_shapes[] = {
      {4096, 4096}, {11008, 4096}, {768, 3072}};
  std::vector<MatrixEntry> entries;
  for (const auto& [rows, cols] : k_shapes) {
    for (const int percent : {50, 70, 90}) {
      entries.push_back(uniform_entry("tokens", rows, cols, percent / 100.0,
                                      static_cast<std::uint64_t>(percent)));
      entries.back().name = fmt::format("{}x{}/{}", rows, cols, percent / 100.0);
      entries.back().n = {1, 4, 16, 64};
    }
  }
  return entries;
}

}  // namespace

MatrixEntry uniform_entry(const std::string& set, std::int64_t rows, std::int64_t cols,
                          double sparsity, std::uint64_t seed) {
  GenerateOptions options;
  options.rows = rows;
  options.cols = cols;
  options.sparsity = sparsity;
  options.seed = seed;
  return {set, "", "", [options] { return generate_matrix(options); }, {}};
}

std::vector<fs::path> files_below(const fs::path& folder,
                                  const std::vector<std::string>& extensions) {
  if (!fs::is_directory(folder)) {
    throw IoError(
        fmt::format("{}: no such folder; expected one with matrices (--data)", folder.string()));
  }
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string extension = entry.path().extension().string();
    if (std::find(extensions.begin(), extensions.end(), extension) != extensions.end()) {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::optional<std::int64_t> resnet50_columns(const std::string& layer) {
  if (layer == "initial_conv") return 12544;  // 112 x 112
  // 56 x 56, twice, 28 x 28, 14 x 14 and 7 x 7.
  constexpr std::array<std::int64_t, 5> k_pixels = {3136, 3136, 784, 196, 49};
  const std::string group_word = "block_group";
  // "bottleneck_1_block_group_projection_block_group2": the last number is the group's.
  const std::size_t at = layer.rfind(group_word);
  if (at == std::string::npos || at + group_word.size() >= layer.size()) return std::nullopt;
  const char digit = layer[at + group_word.size()];
  if (digit < '1' || digit > '4') return std::nullopt;
  // The first convolution of a group's first block still sees the pixels of the group before: the
  // second one, 3x3, has the stride.
  const bool before_stride = layer.rfind("bottleneck_1_block_group_projection", 0) == 0;
  const auto group = static_cast<std::size_t>(digit - '0');
  return k_pixels[before_stride ? group - 1 : group];
}

std::vector<double> paper_host_sparsities() { return {0.7, 0.9, 0.98}; }

std::vector<MatrixEntry> list_matrices(const std::string& set, const SetOptions& options) {
  if (set == "dlmc") return list_dlmc(options);
  if (set == "paper") return list_paper(options);
  if (set == "tokens") return list_tokens();
  if (set == "weights") return list_weights(options);
  throw InvalidArgument(fmt::format("no set '{}'; there are dlmc, paper, tokens, weights", set));
}

std::vector<MatrixEntry> in_drawn_order(std::vector<MatrixEntry> entries, std::uint64_t seed) {
  // std::shuffle draws differently from one standard library to another.
  std::mt19937_64 random(seed);
  for (std::size_t i = entries.size(); i > 1; --i) std::swap(entries[i - 1], entries[random() % i]);
  return entries;
}

std::vector<MatrixEntry> representative(std::vector<MatrixEntry> entries) {
  constexpr const char* k_names[] = {
      "rn50/magnitude_pruning/0.8/bottleneck_1_block_group1_1_1.smtx",
      "rn50/magnitude_pruning/0.95/final_dense.smtx",
      "transformer/magnitude_pruning/0.5/"
      "body_encoder_layer_0_self_attention_multihead_attention_q_fully_connected.smtx",
      "transformer/magnitude_pruning/0.9/body_decoder_layer_0_ffn_conv1_fully_connected.smtx",
      "transformer/magnitude_pruning/0.9/body_decoder_layer_0_ffn_conv2_fully_connected.smtx",
      "transformer/magnitude_pruning/0.9/"
      "body_encoder_layer_0_self_attention_multihead_attention_q_fully_connected.smtx",
      "transformer/magnitude_pruning/0.98/"
      "body_encoder_layer_0_self_attention_multihead_attention_q_fully_connected.smtx",
  };
  const auto unwanted = [&](const MatrixEntry& entry) {
    return std::find(std::begin(k_names), std::end(k_names), entry.name) == std::end(k_names);
  };
  entries.erase(std::remove_if(entries.begin(), entries.end(), unwanted), entries.end());
  return entries;
}

}  // namespace spjit::side_by_side
