#pragma once

/// @file
/// Whole models: their layers in the order in which a pass runs them.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "spjit/matrix.hpp"

namespace spjit::bench {

struct NetworkLayer {
  std::string name;
  CsrMatrix matrix;
};

/// A model to be made when its turn comes, so that only one is in memory.
struct Network {
  std::string name;  ///< "minilm-80"
  std::function<std::vector<NetworkLayer>()> load;
};

struct NetworkOptions {
  std::filesystem::path data;      ///< with the folders dlmc and weights
  std::filesystem::path networks;  ///< of scripts/data/make_networks.sh: a folder of matrices each
};

/// Describes the layers of a folder of convolutions, which are benchmarked as such.
inline constexpr const char* k_convolutions_file = "convolutions.json";

/// Networks that there are files for, in a fixed order:
/// - `minilm-S`: the 36 Linear layers of MiniLM-L6, S percent pruned, from `networks`;
/// - `bert-S`: BERT-base's 72 layers: each is four of those of minilm-S side by side (2 x 2);
/// - `transformer-S`: the 96 layers of a base Transformer from DLMC's matrices of that sparsity;
///   a feed-forward layer that DLMC has no file for here is four square ones in a row;
/// - `rn50`: ResNet-50's 54 layers, each of the largest of DLMC's matrices that fills its shape, as
///   often as it takes, whatever the sparsity: there is a file a shape at most;
/// - `unseen`: layers of other networks and other ways to prune, again and again. No rule was made
///   from them: they test the choice among families.
[[nodiscard]] std::vector<Network> list_networks(const NetworkOptions& options);

/// The matrices as blocks of one, `across` in a row of blocks. All have the same shape. Throws
/// InvalidArgument if they do not, or fill no rectangle.
[[nodiscard]] CsrMatrix tiled(const std::vector<const CsrMatrix*>& blocks, std::size_t across);

/// Scales each matrix so that activations stay about as large as they are: a product with
/// B of variance 1 has variance 1 in the mean of its rows. Times do not depend on values, but
/// infinities, NaN and denormals are no activations.
void normalize(std::vector<NetworkLayer>& layers);
/// One of them, so that the squares of a row's values are `squares` in the mean.
void normalize(CsrMatrix& matrix, double squares);

/// Of all layers.
[[nodiscard]] std::int64_t nnz_of(const std::vector<NetworkLayer>& layers);
[[nodiscard]] double sparsity_of(const std::vector<NetworkLayer>& layers);

/// For a quick run: layers that every family takes, up to 64 entries a row.
[[nodiscard]] std::vector<NetworkLayer> generated_layers();

}  // namespace spjit::bench
