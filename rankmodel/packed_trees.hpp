#pragma once

/// @file
/// Boosted trees laid out for scoring many rows: what a split decides is arithmetic, not a branch.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rankmodel/rank_model.hpp"

namespace spjit {

/// Where a split sends a row.
[[nodiscard]] inline std::size_t child_of(const RankNode& node, std::span<const float> row) {
  const float x = row[static_cast<std::size_t>(node.feature)];
  const bool left = std::isnan(x) ? node.default_left : x < node.value;
  return static_cast<std::size_t>(node.left) + (left ? 0 : 1);
}

/// The trees of a model for one batch of rows. Features that are the same in all rows (those of the
/// matrix, when the rows are its tiles) are decided once, here, and their splits left out.
class PackedTrees {
 public:
  /// `model` is one that `check_rank_model` takes, `rows` are whole rows of its features.
  PackedTrees(const RankModel& model, std::span<const float> rows);

  /// Whether `sums` is right for this row: only NaN in a feature that differs between rows, where
  /// a default direction would be asked for, makes it wrong.
  [[nodiscard]] bool takes(std::span<const float> row) const;

  /// For each row of the same batch the sum of its leaves, in the order of the trees.
  [[nodiscard]] std::vector<double> sums(std::span<const float> rows) const;

 private:
  struct Tree {
    std::uint32_t root;
    std::size_t depth;
  };

  [[nodiscard]] std::size_t decided(const RankTree& tree, std::size_t at) const;
  void pack(const RankTree& tree);
  template <std::size_t Count>
  void add_leaves(const Tree& tree, const std::uint32_t* columns, double* sums) const;

  std::size_t columns_;
  std::vector<float> first_row_;
  std::vector<bool> constant_;  // of each column
  std::vector<Tree> trees_;
  // The nodes of all trees, one array a field. The left child is the one before the right; a leaf
  // leads back to itself.
  std::vector<std::uint16_t> feature_;
  std::vector<std::uint32_t> threshold_;  // as integers in the order of the floats
  std::vector<std::uint32_t> right_;
  std::vector<float> value_;
};

}  // namespace spjit
