#pragma once

/// @file
/// Convolutional networks: their layers in the order in which a pass runs them.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "spjit/convolution.hpp"
#include "spjit/matrix.hpp"

namespace spjit::bench {

struct ConvLayer {
  std::string name;
  Convolution shape;   ///< of one image
  CsrMatrix weights;   ///< [filters x channels / groups * taps]
  std::string origin;  ///< the file of the pattern, or "generated, seed 7"
};

/// A network to be made when its turn comes, so that only one is in memory.
struct ConvNetwork {
  std::string name;  ///< "resnet50"
  int sparsity = 0;  ///< in percent, of each layer that is pruned
  std::function<std::vector<ConvLayer>()> load;
};

struct ConvNetworkOptions {
  std::filesystem::path data;      ///< with dlmc/rn50 and weights/sparsert_rn50_3x3, if any
  std::filesystem::path networks;  ///< of scripts/data/make_networks.sh
  std::vector<int> sparsities = {80, 90, 95};
};

/// In a fixed order:
/// - `resnet50`: its 53 convolutions (resnet50.hpp), the stem too. A pattern is DLMC's of that
/// layer
///   and sparsity, pruned by magnitude if there is one, else in another way; else of the 3x3 of
///   SparseRT; else generated: MatrixPattern::magnitude, the seed 1000 * sparsity + the layer's
///   number;
/// - each folder NAME-SPARSITY of these with the file convolutions.json of
/// scripts/data/prune_convolutions.py. Values are scaled so that activations stay about as large as
/// they are.
[[nodiscard]] std::vector<ConvNetwork> list_conv_networks(const ConvNetworkOptions& options);

/// Layers of a folder of scripts/data/prune_convolutions.py. Throws IoError for a file that is not
/// as it writes it.
[[nodiscard]] std::vector<ConvLayer> load_conv_layers(const std::filesystem::path& folder);

/// For a quick run: a stem, strides, groups, a depthwise and a 1x1 layer.
[[nodiscard]] std::vector<ConvLayer> generated_convolutions();

/// "resnet50-90".
[[nodiscard]] std::string to_string(const ConvNetwork& network);

}  // namespace spjit::bench
