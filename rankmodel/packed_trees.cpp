#include "rankmodel/packed_trees.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace spjit {
namespace {

// So many rows go down a tree together, to hide each other's latency.
constexpr std::size_t k_together = 8;
// So many rows go through all trees before the next, to stay in the first cache.
constexpr std::size_t k_block = 128;

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
  const std::size_t first = nodes_.size();
  for (std::size_t i = 0; i < queue.size(); ++i) {
    const auto [at, depth] = queue[i];
    const RankNode& node = tree.nodes[at];
    values_.push_back(node.value);
    if (node.is_leaf()) {
      nodes_.push_back({std::numeric_limits<float>::quiet_NaN(), 0,
                        static_cast<std::int16_t>(static_cast<std::int64_t>(i) - 1)});
      continue;
    }
    nodes_.push_back({node.value, static_cast<std::int16_t>(node.feature),
                      static_cast<std::int16_t>(queue.size())});
    const auto left = static_cast<std::size_t>(node.left);
    queue.push_back({decided(tree, left), depth + 1});
    queue.push_back({decided(tree, left + 1), depth + 1});
  }
  trees_.push_back({first, queue.back().depth});  // breadth first: the last is the deepest
}

// With the number of rows known, the compiler keeps their places in registers.
template <std::size_t Count>
void PackedTrees::add_leaves(const Tree& tree, const float* rows, double* sums) const {
  const Node* const nodes = nodes_.data() + tree.first;
  std::array<std::int64_t, Count> at{};
  for (std::size_t level = 0; level < tree.depth; ++level) {
    for (std::size_t r = 0; r < Count; ++r) {
      const Node node = nodes[at[r]];
      const float x = rows[r * columns_ + static_cast<std::size_t>(node.feature)];
      at[r] = node.left + static_cast<std::int64_t>(!(x < node.threshold));
    }
  }
  const float* const values = values_.data() + tree.first;
  for (std::size_t r = 0; r < Count; ++r) sums[r] += values[at[r]];
}

std::vector<double> PackedTrees::sums(std::span<const float> rows) const {
  std::vector<double> sums(rows.size() / columns_, 0.0);
  for (std::size_t first = 0; first < sums.size(); first += k_block) {
    const std::size_t end = std::min(first + k_block, sums.size());
    for (const Tree& tree : trees_) {
      std::size_t row = first;
      for (; row + k_together <= end; row += k_together) {
        add_leaves<k_together>(tree, rows.data() + row * columns_, sums.data() + row);
      }
      for (; row < end; ++row) {
        add_leaves<1>(tree, rows.data() + row * columns_, sums.data() + row);
      }
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
