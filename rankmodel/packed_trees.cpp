#include "rankmodel/packed_trees.hpp"

#include <algorithm>
#include <array>
#include <bit>

namespace spjit {
namespace {

// So many rows go down a tree together, to hide each other's latency.
constexpr std::size_t k_together = 8;
// So many rows go through all trees before the next, to stay in the first cache.
constexpr std::size_t k_block = 128;

// Numbers that compare as integers the way the floats do, NaN aside: -0 is 0, and of negative ones
// all bits are turned, of others the sign.
std::uint32_t in_order(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x + 0.0F);
  return bits ^ ((bits >> 31) != 0 ? 0xffff'ffffU : 0x8000'0000U);
}

std::vector<bool> constant_columns(std::span<const float> rows, std::size_t columns) {
  std::vector<bool> constant(columns, true);
  for (std::size_t column = 0; column < columns; ++column) {
    const float first = rows.empty() ? 0 : rows[column];
    for (std::size_t i = column; i < rows.size() && constant[column]; i += columns) {
      constant[column] = rows[i] == first || (std::isnan(rows[i]) && std::isnan(first));
    }
  }
  return constant;
}

}  // namespace

PackedTrees::PackedTrees(const RankModel& model, std::span<const float> rows)
    : columns_(model.features.size()), constant_(constant_columns(rows, columns_)) {
  if (rows.empty()) return;
  first_row_.assign(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(columns_));
  for (const RankTree& tree : model.trees) pack(tree);
}

// The node that all rows of the batch reach from `at`: a leaf, or a split they differ at.
std::size_t PackedTrees::decided(const RankTree& tree, std::size_t at) const {
  while (!tree.nodes[at].is_leaf() && constant_[static_cast<std::size_t>(tree.nodes[at].feature)]) {
    at = child_of(tree.nodes[at], first_row_);
  }
  return at;
}

void PackedTrees::pack(const RankTree& tree) {
  struct Item {
    std::size_t node;
    std::size_t depth;
  };
  std::vector<Item> queue{{decided(tree, 0), 0}};
  const std::size_t first = value_.size();
  for (std::size_t i = 0; i < queue.size(); ++i) {
    const auto [at, depth] = queue[i];
    const RankNode& node = tree.nodes[at];
    value_.push_back(node.value);
    if (node.is_leaf()) {
      feature_.push_back(0);
      threshold_.push_back(0);  // nothing is less
      right_.push_back(static_cast<std::uint32_t>(first + i));
      continue;
    }
    feature_.push_back(static_cast<std::uint16_t>(node.feature));
    threshold_.push_back(in_order(node.value));
    right_.push_back(static_cast<std::uint32_t>(first + queue.size() + 1));
    const auto left = static_cast<std::size_t>(node.left);
    queue.push_back({decided(tree, left), depth + 1});
    queue.push_back({decided(tree, left + 1), depth + 1});
  }
  // Breadth first: the last is the deepest.
  trees_.push_back({static_cast<std::uint32_t>(first), queue.back().depth});
}

// `columns`: the features of a block, one after the other, from the first of the rows on. With the
// distances of rows and of columns known, places and addresses stay in registers.
template <std::size_t Count>
void PackedTrees::add_leaves(const Tree& tree, const std::uint32_t* columns, double* sums) const {
  std::array<std::uint32_t, Count> at{};
  at.fill(tree.root);
  for (std::size_t level = 0; level < tree.depth; ++level) {
    for (std::size_t r = 0; r < Count; ++r) {
      const std::uint32_t x = columns[std::size_t{feature_[at[r]]} * k_block + r];
      at[r] = right_[at[r]] - (x < threshold_[at[r]] ? 1 : 0);
    }
  }
  for (std::size_t r = 0; r < Count; ++r) sums[r] += value_[at[r]];
}

std::vector<double> PackedTrees::sums(std::span<const float> rows) const {
  std::vector<double> sums(rows.size() / columns_, 0.0);
  std::vector<std::uint32_t> block(columns_ * k_block);
  for (std::size_t first = 0; first < sums.size(); first += k_block) {
    const std::size_t count = std::min(k_block, sums.size() - first);
    for (std::size_t row = 0; row < count; ++row) {
      for (std::size_t column = 0; column < columns_; ++column) {
        block[column * k_block + row] = in_order(rows[(first + row) * columns_ + column]);
      }
    }
    double* const of_block = sums.data() + first;
    for (const Tree& tree : trees_) {
      std::size_t row = 0;
      for (; row + k_together <= count; row += k_together) {
        add_leaves<k_together>(tree, block.data() + row, of_block + row);
      }
      for (; row < count; ++row) add_leaves<1>(tree, block.data() + row, of_block + row);
    }
  }
  return sums;
}

bool PackedTrees::takes(std::span<const float> row) const {
  for (std::size_t column = 0; column < columns_; ++column) {
    if (std::isnan(row[column]) && !constant_[column]) return false;
  }
  return true;
}

}  // namespace spjit
