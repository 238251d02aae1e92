#pragma once

/// @file
/// A decision tree that names a tile outright, in microseconds, from the matrix alone (as
/// STuning-DL, IEEE Access 2024, does): what instant mode is compared with in
/// docs/design/ranking.md.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "kernels/host/unrolled/host_samples.hpp"

namespace spjit {

/// Properties that tiles of different matrices share. Rows follow from registers and matrix.
struct TileClass {
  std::int64_t nv = 1;
  std::int64_t form = 0;
  std::int64_t k_block = 0;
  std::int64_t panel_group = 1;
  bool row_groups = false;
  bool pack_b = true;

  friend bool operator==(const TileClass&, const TileClass&) = default;
  friend bool operator<(const TileClass& left, const TileClass& right) {
    const auto all = [](const TileClass& of) {
      return std::tie(of.nv, of.form, of.k_block, of.panel_group, of.row_groups, of.pack_b);
    };
    return all(left) < all(right);
  }
};

[[nodiscard]] TileClass class_of(const HostTile& tile);

struct TileTreeOptions {
  int depth = 8;                 ///< splits from root to leaf at most
  std::size_t least_groups = 4;  ///< of a leaf
};

/// Splits by features of matrix and run; a leaf has all classes, the one with the least mean
/// relative time over its groups first. A class that a group has no tile of counts as
/// k_missing_cost. Deterministic.
class TileTree {
 public:
  /// Throws InvalidArgument for no groups with times, a depth below 0 or leaves below 1.
  TileTree(std::span<const HostSampleGroup> groups, const TileTreeOptions& options);

  /// Of the tiles that the rules leave the first of the best class there is: an index; none if
  /// there are no tiles.
  [[nodiscard]] std::optional<std::size_t> choose(const Workload& work,
                                                  std::span<const HostTile> tiles) const;

  [[nodiscard]] std::size_t leaves() const;

  static constexpr double k_missing_cost = 2;  ///< relative time

 private:
  struct Node {
    int feature = -1;  ///< -1: a leaf
    double threshold = 0;
    std::size_t left = 0;                   ///< features below the threshold; the other is the next
    std::vector<std::uint16_t> order = {};  ///< of a leaf: classes, best first
  };
  struct Case {
    std::vector<double> features;
    std::vector<double> costs;  ///< by class
  };

  void grow(std::size_t node, std::vector<Case*> cases, int depth);

  TileTreeOptions options_;
  std::vector<TileClass> classes_;
  std::vector<Node> nodes_;
};

}  // namespace spjit
