#include "bench/model/network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <utility>

#include "base/arithmetic.hpp"
#include "bench/model/resnet50.hpp"
#include "bench/side_by_side/case_sets.hpp"
#include "spjit/error.hpp"
#include "spjit/generate.hpp"
#include "spjit/matrix_io.hpp"

namespace spjit::bench {
namespace {

namespace fs = std::filesystem;

/// None if there is no such folder.
std::vector<fs::path> matrix_files(const fs::path& folder) {
  if (!fs::is_directory(folder)) return {};
  return side_by_side::files_below(folder, {".npz", ".smtx"});
}

/// Those with matrices that are no convolutions.
std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> folders;
  if (!fs::is_directory(folder)) return folders;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const bool has_images = fs::exists(entry.path() / k_convolutions_file);
    if (entry.is_directory() && !has_images && !matrix_files(entry.path()).empty()) {
      folders.push_back(entry.path());
    }
  }
  std::ranges::sort(folders);
  return folders;
}

std::vector<NetworkLayer> load_layers(const std::vector<fs::path>& files) {
  std::vector<NetworkLayer> layers;
  layers.reserve(files.size());
  for (const fs::path& file : files) {
    layers.push_back({file.stem().string(), load_matrix(file)});
  }
  return layers;
}

/// MiniLM-L6 and BERT-base have the same layers; BERT's are twice as high and wide, and twice as
/// many. The blocks of one matrix come from neighbouring blocks of the network.
std::vector<NetworkLayer> bert_of(const std::vector<NetworkLayer>& small) {
  constexpr std::size_t k_layers_a_block = 6;
  constexpr std::size_t k_blocks = 12;
  std::vector<NetworkLayer> layers;
  for (std::size_t block = 0; block < k_blocks; ++block) {
    for (std::size_t part = 0; part < k_layers_a_block; ++part) {
      std::vector<const CsrMatrix*> blocks;
      blocks.reserve(4);
      for (std::size_t i = 0; i < 4; ++i) {
        blocks.push_back(&small[((block + i) * k_layers_a_block + part) % small.size()].matrix);
      }
      layers.push_back({fmt::format("{:02}", layers.size()), tiled(blocks, 2)});
    }
  }
  return layers;
}

/// DLMC's 512 x 512 and, where there are any, 2048 x 512 and 512 x 2048 matrices.
std::vector<NetworkLayer> transformer_of(const std::vector<fs::path>& files) {
  constexpr std::int64_t k_width = 512;
  constexpr std::size_t k_blocks = 6;
  NetworkLayer square;
  NetworkLayer up;
  NetworkLayer down;
  for (NetworkLayer& layer : load_layers(files)) {
    const CsrMatrix& a = layer.matrix;
    if (a.rows == k_width && a.cols == k_width)
      square = std::move(layer);
    else if (a.rows == 4 * k_width && a.cols == k_width)
      up = std::move(layer);
    else if (a.rows == k_width && a.cols == 4 * k_width)
      down = std::move(layer);
  }
  const std::vector<const CsrMatrix*> four(4, &square.matrix);
  if (up.matrix.rows == 0) up = {"four high", tiled(four, 1)};
  if (down.matrix.rows == 0) down = {"four wide", tiled(four, 4)};
  std::vector<NetworkLayer> layers;
  const auto add = [&](std::size_t attention) {
    layers.insert(layers.end(), 4 * attention, square);
    layers.push_back(up);
    layers.push_back(down);
  };
  for (std::size_t block = 0; block < k_blocks; ++block) add(1);
  for (std::size_t block = 0; block < k_blocks; ++block) add(2);
  return layers;
}

struct Shape {
  std::int64_t rows;  ///< output channels
  std::int64_t cols;  ///< input channels times the kernel's area
};

/// ResNet-50's convolutions and its dense layer.
std::vector<Shape> rn50_shapes() {
  std::vector<Shape> shapes;
  for (const Resnet50Layer& layer : resnet50_layers()) {
    shapes.push_back({layer.filters, layer.weights_of_filter()});
  }
  shapes.push_back({1000, 2048});
  return shapes;
}

/// The largest matrix that fills the shape, as often as it takes.
NetworkLayer filled(const Shape& shape, const std::vector<NetworkLayer>& layers) {
  const NetworkLayer* largest = nullptr;
  for (const NetworkLayer& layer : layers) {
    const CsrMatrix& a = layer.matrix;
    if (shape.rows % a.rows != 0 || shape.cols % a.cols != 0) continue;
    const bool larger =
        largest == nullptr || a.rows * a.cols > largest->matrix.rows * largest->matrix.cols;
    if (larger) largest = &layer;
  }
  if (largest == nullptr) {
    throw NotSupported(fmt::format("rn50: no matrix of DLMC's that is there fills {} x {}",
                                   shape.rows, shape.cols));
  }
  const CsrMatrix& a = largest->matrix;
  const std::int64_t across = shape.cols / a.cols;
  const std::vector<const CsrMatrix*> blocks(to_size(shape.rows / a.rows * across), &a);
  return {largest->name, tiled(blocks, to_size(across))};
}

std::vector<NetworkLayer> rn50_of(const std::vector<fs::path>& files) {
  const std::vector<NetworkLayer> there = load_layers(files);
  std::vector<NetworkLayer> layers;
  for (const Shape& shape : rn50_shapes()) layers.push_back(filled(shape, there));
  return layers;
}

/// Layers that no rule of the choice among families was made from: of other networks, and DLMC's
/// other ways to prune a Transformer.
std::vector<NetworkLayer> unseen_of(const fs::path& data) {
  std::vector<NetworkLayer> layers;
  side_by_side::SetOptions set;
  set.data = data;
  for (const auto& entry : side_by_side::list_matrices("weights", set)) {
    layers.push_back({fs::path(entry.name).stem().string(), entry.load()});
  }
  for (const char* pruning : {"l0_regularization", "variational_dropout"}) {
    std::ranges::move(load_layers(matrix_files(data / "dlmc" / "transformer" / pruning)),
                      std::back_inserter(layers));
  }
  return layers;
}

/// Again and again, so that the caches do not hold them from pass to pass.
std::vector<NetworkLayer> repeated(const std::vector<NetworkLayer>& some) {
  constexpr std::int64_t k_enough_nnz = std::int64_t{1} << 22;
  constexpr int k_most_times = 16;
  std::vector<NetworkLayer> layers;
  std::int64_t nnz = 0;
  for (int times = 0; times < k_most_times && nnz < k_enough_nnz; ++times) {
    for (const NetworkLayer& layer : some) {
      layers.push_back(layer);
      nnz += layer.matrix.nnz();
    }
  }
  return layers;
}

bool has_square(const std::vector<fs::path>& files) {
  return std::ranges::any_of(files, [](const fs::path& file) {
    return file.stem().string().find("self_attention") != std::string::npos;
  });
}

}  // namespace

std::vector<Network> list_networks(const NetworkOptions& options) {
  std::vector<Network> networks;
  const std::vector<fs::path> folders = folders_in(options.networks);
  networks.reserve(2 * folders.size());
  for (const fs::path& folder : folders) {
    networks.push_back(
        {folder.filename().string(), [folder] { return load_layers(matrix_files(folder)); }});
  }
  const std::string small = "minilm-";
  for (const fs::path& folder : folders) {
    const std::string name = folder.filename().string();
    if (!name.starts_with(small)) continue;
    networks.push_back({"bert-" + name.substr(small.size()),
                        [folder] { return bert_of(load_layers(matrix_files(folder))); }});
  }
  const fs::path dlmc = options.data / "dlmc";
  for (const fs::path& folder : folders_in(dlmc / "transformer" / "magnitude_pruning")) {
    const std::vector<fs::path> files = matrix_files(folder);
    if (!has_square(files)) continue;
    const double sparsity = std::stod(folder.filename().string());
    networks.push_back({fmt::format("transformer-{}", std::llround(100 * sparsity)),
                        [files] { return transformer_of(files); }});
  }
  const std::vector<fs::path> rn50 = matrix_files(dlmc / "rn50");
  if (!rn50.empty()) {
    networks.push_back({"rn50", [rn50] { return rn50_of(rn50); }});
  }
  if (fs::is_directory(options.data / "weights")) {
    const fs::path data = options.data;
    networks.push_back({"unseen", [data] { return repeated(unseen_of(data)); }});
  }
  return networks;
}

CsrMatrix tiled(const std::vector<const CsrMatrix*>& blocks, std::size_t across) {
  const bool fill = across > 0 && !blocks.empty() && blocks.size() % across == 0;
  const bool same = std::ranges::all_of(blocks, [&](const CsrMatrix* block) {
    return block->rows == blocks.front()->rows && block->cols == blocks.front()->cols;
  });
  if (!fill || !same) {
    throw InvalidArgument(
        fmt::format("{} blocks, {} in a row; expected blocks of one shape that fill a rectangle",
                    blocks.size(), across));
  }
  const std::int64_t rows = blocks.front()->rows;
  const std::int64_t cols = blocks.front()->cols;
  CsrMatrix whole;
  whole.rows = rows * std::ssize(blocks) / static_cast<std::int64_t>(across);
  whole.cols = cols * static_cast<std::int64_t>(across);
  whole.row_ptrs.assign(1, 0);
  for (std::size_t first = 0; first < blocks.size(); first += across) {
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::size_t i = 0; i < across; ++i) {
        const CsrMatrix& block = *blocks[first + i];
        const std::int64_t shift = cols * static_cast<std::int64_t>(i);
        for (auto at = block.row_ptrs[to_size(row)]; at < block.row_ptrs[to_size(row + 1)]; ++at) {
          whole.col_idxs.push_back(static_cast<std::int32_t>(block.col_idxs[to_size(at)] + shift));
          whole.values.push_back(block.values[to_size(at)]);
        }
      }
      whole.row_ptrs.push_back(std::ssize(whole.values));
    }
  }
  return whole;
}

void normalize(std::vector<NetworkLayer>& layers) {
  for (NetworkLayer& layer : layers) normalize(layer.matrix, 1);
}

void normalize(CsrMatrix& matrix, double squares) {
  double given = 0;
  for (const float value : matrix.values) given += double{value} * double{value};
  if (given == 0) return;
  const double scale = std::sqrt(squares * static_cast<double>(matrix.rows) / given);
  for (float& value : matrix.values) value = static_cast<float>(value * scale);
}

std::int64_t nnz_of(const std::vector<NetworkLayer>& layers) {
  std::int64_t nnz = 0;
  for (const NetworkLayer& layer : layers) nnz += layer.matrix.nnz();
  return nnz;
}

double sparsity_of(const std::vector<NetworkLayer>& layers) {
  double places = 0;
  for (const NetworkLayer& layer : layers) {
    places += static_cast<double>(layer.matrix.rows) * static_cast<double>(layer.matrix.cols);
  }
  return places > 0 ? 1 - static_cast<double>(nnz_of(layers)) / places : 0;
}

std::vector<NetworkLayer> generated_layers() {
  std::vector<NetworkLayer> layers;
  const auto add = [&](std::int64_t rows, std::int64_t cols, double sparsity) {
    GenerateOptions options;
    options.rows = rows;
    options.cols = cols;
    options.sparsity = sparsity;
    options.seed = layers.size() + 1;
    layers.push_back({fmt::format("{}", layers.size()), generate_matrix(options)});
  };
  add(96, 64, 0.8);
  add(96, 96, 0.3);
  add(64, 96, 0.95);
  add(96, 64, 0.7);
  return layers;
}

}  // namespace spjit::bench
