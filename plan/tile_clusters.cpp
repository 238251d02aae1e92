#include "plan/tile_clusters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <utility>

#include "spjit/error.hpp"

namespace spjit {
namespace {

/// A cluster while clusters are joined; coordinates are scaled.
struct Node {
  double x = 0;
  double y = 0;
  double weight = 0;  ///< tiles; 0: joined to another
  std::vector<std::int64_t> tiles;
};

/// What joining two adds to the sum of squared distances from the means.
double joining_cost(const Node& a, const Node& b) {
  const double dx = a.x - b.x;
  const double dy = a.y - b.y;
  return a.weight * b.weight / (a.weight + b.weight) * (dx * dx + dy * dy);
}

Node join(Node a, Node b) {
  Node joined;
  joined.weight = a.weight + b.weight;
  joined.x = (a.x * a.weight + b.x * b.weight) / joined.weight;
  joined.y = (a.y * a.weight + b.y * b.weight) / joined.weight;
  joined.tiles = std::move(a.tiles);
  joined.tiles.insert(joined.tiles.end(), b.tiles.begin(), b.tiles.end());
  return joined;
}

void check(std::span<const TileCost> tiles, std::int64_t most_clusters) {
  if (most_clusters < 1) {
    throw InvalidArgument(
        fmt::format("at most {} clusters of tiles; expected 1 or more", most_clusters));
  }
  for (const TileCost& tile : tiles) {
    if (tile.loads < 0 || tile.fmas < 0) {
      throw InvalidArgument(
          fmt::format("a tile of {} loads and {} FMAs; expected 0 or more", tile.loads, tile.fmas));
    }
  }
}

using Cell = std::pair<std::int64_t, std::int64_t>;

/// Tiles by their cost in steps of `step`.
std::map<Cell, std::vector<std::int64_t>> bin(std::span<const TileCost> tiles, std::int64_t step) {
  std::map<Cell, std::vector<std::int64_t>> cells;
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    cells[{tiles[i].loads / step, tiles[i].fmas / step}].push_back(static_cast<std::int64_t>(i));
  }
  return cells;
}

struct Scale {
  double loads = 1;
  double fmas = 1;
};

Scale scale_of(std::span<const TileCost> tiles) {
  double loads = 0;
  double fmas = 0;
  for (const TileCost& tile : tiles) {
    loads += static_cast<double>(tile.loads);
    fmas += static_cast<double>(tile.fmas);
  }
  const auto count = static_cast<double>(std::max<std::size_t>(tiles.size(), 1));
  return {.loads = std::max(loads / count, 1.0), .fmas = std::max(fmas / count, 1.0)};
}

std::vector<Node> first_nodes(std::span<const TileCost> tiles) {
  std::int64_t step = 1;
  auto cells = bin(tiles, step);
  while (std::ssize(cells) > k_most_distinct_costs) {
    step *= 2;
    cells = bin(tiles, step);
  }
  const Scale scale = scale_of(tiles);
  std::vector<Node> nodes;
  for (auto& [cell, members] : cells) {
    Node node;
    node.weight = static_cast<double>(members.size());
    for (const std::int64_t tile : members) {
      const TileCost& cost = tiles[static_cast<std::size_t>(tile)];
      node.x += static_cast<double>(cost.loads) / scale.loads / node.weight;
      node.y += static_cast<double>(cost.fmas) / scale.fmas / node.weight;
    }
    node.tiles = std::move(members);
    nodes.push_back(std::move(node));
  }
  return nodes;
}

/// The nearest other node of each, kept while nodes are joined: the cheapest pair is found in
/// linear time, and few entries change with a join.
class Joiner {
 public:
  explicit Joiner(std::vector<Node> nodes) : nodes_(std::move(nodes)), nearest_(nodes_.size()) {
    for (std::size_t i = 0; i < nodes_.size(); ++i) find_nearest(i);
    left_ = std::ssize(nodes_);
  }

  [[nodiscard]] std::int64_t left() const { return left_; }

  void join_cheapest() {
    std::size_t best = nodes_.size();
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].weight == 0) continue;
      if (best == nodes_.size() || nearest_[i].cost < nearest_[best].cost) best = i;
    }
    const std::size_t other = nearest_[best].node;
    const std::size_t kept = std::min(best, other);
    const std::size_t gone = std::max(best, other);
    nodes_[kept] = join(std::move(nodes_[kept]), std::move(nodes_[gone]));
    nodes_[gone] = {};
    --left_;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].weight == 0) continue;
      const bool changed = i == kept || nearest_[i].node == kept || nearest_[i].node == gone;
      if (changed) {
        find_nearest(i);
      } else if (const double cost = joining_cost(nodes_[i], nodes_[kept]);
                 cost < nearest_[i].cost) {
        nearest_[i] = {kept, cost};
      }
    }
  }

  [[nodiscard]] std::vector<Node> take() && {
    std::erase_if(nodes_, [](const Node& node) { return node.weight == 0; });
    return std::move(nodes_);
  }

 private:
  struct Neighbour {
    std::size_t node = 0;
    double cost = std::numeric_limits<double>::infinity();
  };

  void find_nearest(std::size_t i) {
    nearest_[i] = {};
    for (std::size_t j = 0; j < nodes_.size(); ++j) {
      if (j == i || nodes_[j].weight == 0) continue;
      const double cost = joining_cost(nodes_[i], nodes_[j]);
      if (cost < nearest_[i].cost) nearest_[i] = {j, cost};
    }
  }

  std::vector<Node> nodes_;
  std::vector<Neighbour> nearest_;
  std::int64_t left_ = 0;
};

TileCluster describe(Node node, std::span<const TileCost> tiles) {
  TileCluster cluster;
  cluster.tiles = std::move(node.tiles);
  std::ranges::sort(cluster.tiles);
  for (const std::int64_t tile : cluster.tiles) {
    cluster.loads += static_cast<double>(tiles[static_cast<std::size_t>(tile)].loads);
    cluster.fmas += static_cast<double>(tiles[static_cast<std::size_t>(tile)].fmas);
  }
  cluster.loads /= static_cast<double>(cluster.tiles.size());
  cluster.fmas /= static_cast<double>(cluster.tiles.size());
  return cluster;
}

}  // namespace

std::vector<TileCluster> cluster_tiles(std::span<const TileCost> tiles,
                                       std::int64_t most_clusters) {
  check(tiles, most_clusters);
  Joiner joiner(first_nodes(tiles));
  while (joiner.left() > most_clusters) joiner.join_cheapest();
  std::vector<TileCluster> clusters;
  for (Node& node : std::move(joiner).take()) clusters.push_back(describe(std::move(node), tiles));
  std::ranges::sort(clusters, {}, [](const TileCluster& cluster) { return cluster.tiles.front(); });
  return clusters;
}

}  // namespace spjit
