#pragma once

/// @file
/// The matrices that libraries are measured on, and with how many columns of B.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "spjit/matrix.hpp"

namespace spjit::side_by_side {

/// A matrix to be made when its turn comes, so that only one is in memory.
struct MatrixEntry {
  std::string set;    ///< "dlmc", "paper", "tokens" or "weights"
  std::string name;   ///< path below the set's folder; of "paper": id, shape and sparsity; of
                      ///< "tokens": shape and sparsity
  std::string layer;  ///< of "paper": network and layer
  std::function<CsrMatrix()> load;
  std::vector<std::int64_t> n;
};

struct SetOptions {
  std::filesystem::path data;                       ///< with the folders dlmc and weights
  std::filesystem::path paper_set;                  ///< "spjit-paper-set-1"
  std::vector<std::int64_t> n = {1, 32, 128, 512};  ///< not of "paper" and "tokens", which have own
  bool all = false;  ///< of "paper": all sparsities, not only those of paper_host_sparsities()
};

/// A matrix of the generator's pattern `uniform`; the name and n are the caller's.
[[nodiscard]] MatrixEntry uniform_entry(const std::string& set, std::int64_t rows,
                                        std::int64_t cols, double sparsity, std::uint64_t seed = 1);

/// Files below `folder` whose extension is one of these (".npz"), sorted. Throws IoError if there
/// is no such folder.
[[nodiscard]] std::vector<std::filesystem::path> files_below(
    const std::filesystem::path& folder, const std::vector<std::string>& extensions);

/// Columns of B that a ResNet-50 layer of DLMC has for one image of 224 x 224: the pixels of its
/// output, or for a 1x1 convolution with stride 1 the same of its input. Nothing for the last,
/// dense layer and for a name of another form.
[[nodiscard]] std::optional<std::int64_t> resnet50_columns(const std::string& layer);

/// The paper's sparsities that are measured on the host unless all are asked for.
[[nodiscard]] std::vector<double> paper_host_sparsities();

/// The matrices of a set in a fixed order. Of ResNet-50's layers in DLMC, their own n comes on top
/// of the others. Throws IoError if the set's files are not there, InvalidArgument for another
/// name of a set.
[[nodiscard]] std::vector<MatrixEntry> list_matrices(const std::string& set,
                                                     const SetOptions& options);

/// In an order drawn with `seed`, the same everywhere: however far a run gets, what it has is a
/// sample of all.
[[nodiscard]] std::vector<MatrixEntry> in_drawn_order(std::vector<MatrixEntry> entries,
                                                      std::uint64_t seed);

/// Keeps a handful of DLMC's matrices that stand for the others: small, square, wide, tall,
/// transformer and ResNet-50, 50 to 98 % sparse.
[[nodiscard]] std::vector<MatrixEntry> representative(std::vector<MatrixEntry> entries);

}  // namespace spjit::side_by_side
