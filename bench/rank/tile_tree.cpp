#include "bench/rank/tile_tree.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "spjit/error.hpp"

namespace spjit {
namespace {

std::vector<double> features_of(const Workload& work) {
  const auto log2_of = [](double value) { return std::log2(std::max(value, 1e-6)); };
  const auto rows = static_cast<double>(work.rows);
  const auto cols = static_cast<double>(work.cols);
  const auto nnz = static_cast<double>(work.nnz);
  return {log2_of(rows),
          log2_of(cols),
          log2_of(static_cast<double>(work.n)),
          log2_of(nnz / std::max(rows * cols, 1.0)),
          log2_of(nnz),
          work.row_nnz_cv,
          static_cast<double>(work.threads)};
}

double least_time(const HostSampleGroup& group) {
  double least = 0;
  for (const HostSample& sample : group.samples) {
    if (sample.us > 0 && (least == 0 || sample.us < least)) least = sample.us;
  }
  return least;
}

void add(std::vector<double>& sums, const std::vector<double>& costs, double sign) {
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += sign * costs[i];
}

/// Cost of a leaf with these sums over its groups: that of its best class.
double leaf_cost(const std::vector<double>& sums) { return *std::ranges::min_element(sums); }

}  // namespace

TileClass class_of(const HostTile& tile) {
  return {tile.nv,
          static_cast<std::int64_t>(tile.form),
          tile.k_block,
          tile.panel_group,
          tile.row_group > 0,
          tile.pack_b};
}

TileTree::TileTree(std::span<const HostSampleGroup> groups, const TileTreeOptions& options)
    : options_(options) {
  if (options.depth < 0 || options.least_groups < 1) {
    throw InvalidArgument(
        fmt::format("a tree of depth {} with leaves of {} groups; expected 0 and "
                    "1 at least",
                    options.depth, options.least_groups));
  }
  std::set<TileClass> classes;
  for (const HostSampleGroup& group : groups) {
    for (const HostSample& sample : group.samples) classes.insert(class_of(sample.candidate.tile));
  }
  classes_.assign(classes.begin(), classes.end());
  std::vector<Case> cases;
  cases.reserve(groups.size());
  for (const HostSampleGroup& group : groups) {
    const double least = least_time(group);
    if (least == 0) continue;
    Case one{features_of(group.work), std::vector<double>(classes_.size(), k_missing_cost)};
    for (const HostSample& sample : group.samples) {
      if (sample.us <= 0) continue;
      const auto at =
          std::lower_bound(classes_.begin(), classes_.end(), class_of(sample.candidate.tile));
      double& cost = one.costs[static_cast<std::size_t>(at - classes_.begin())];
      cost = std::min(cost, sample.us / least);
    }
    cases.push_back(std::move(one));
  }
  if (cases.empty()) throw InvalidArgument("no group has a time; expected one at least");
  std::vector<Case*> all;
  all.reserve(cases.size());
  for (Case& one : cases) all.push_back(&one);
  nodes_.emplace_back();
  grow(0, std::move(all), 0);
}

void TileTree::grow(std::size_t node, std::vector<Case*> cases, int depth) {
  std::vector<double> sums(classes_.size(), 0);
  for (const Case* one : cases) add(sums, one->costs, 1);
  double best = leaf_cost(sums) - 1e-9;
  int feature = -1;
  double threshold = 0;
  const std::size_t features = cases.front()->features.size();
  for (std::size_t f = 0; f < features && depth < options_.depth; ++f) {
    std::ranges::stable_sort(cases, {}, [f](const Case* one) { return one->features[f]; });
    std::vector<double> left(classes_.size(), 0);
    std::vector<double> right = sums;
    for (std::size_t i = 0; i + 1 < cases.size(); ++i) {
      add(left, cases[i]->costs, 1);
      add(right, cases[i]->costs, -1);
      const double here = cases[i]->features[f];
      const double next = cases[i + 1]->features[f];
      const std::size_t least = std::min(i + 1, cases.size() - i - 1);
      if (here == next || least < options_.least_groups) continue;
      const double cost = leaf_cost(left) + leaf_cost(right);
      if (cost >= best) continue;
      best = cost;
      feature = static_cast<int>(f);
      threshold = (here + next) / 2;
    }
  }
  if (feature < 0) {
    std::vector<std::uint16_t> order(classes_.size());
    std::iota(order.begin(), order.end(), std::uint16_t{0});
    std::ranges::stable_sort(order, {}, [&](std::uint16_t at) { return sums[at]; });
    nodes_[node].order = std::move(order);
    return;
  }
  const auto middle = std::stable_partition(cases.begin(), cases.end(), [&](const Case* one) {
    return one->features[static_cast<std::size_t>(feature)] < threshold;
  });
  const std::size_t left = nodes_.size();
  nodes_[node] = {feature, threshold, left};
  nodes_.resize(left + 2);
  grow(left, {cases.begin(), middle}, depth + 1);
  grow(left + 1, {middle, cases.end()}, depth + 1);
}

std::optional<std::size_t> TileTree::choose(const Workload& work,
                                            std::span<const HostTile> tiles) const {
  if (tiles.empty()) return std::nullopt;
  const std::vector<double> features = features_of(work);
  std::size_t at = 0;
  while (nodes_[at].feature >= 0) {
    const Node& node = nodes_[at];
    at = features[static_cast<std::size_t>(node.feature)] < node.threshold ? node.left
                                                                           : node.left + 1;
  }
  for (const std::uint16_t wanted : nodes_[at].order) {
    for (std::size_t i = 0; i < tiles.size(); ++i) {
      if (class_of(tiles[i]) == classes_[wanted]) return i;
    }
  }
  return 0;  // classes that no group of the training had
}

std::size_t TileTree::leaves() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(nodes_, [](const Node& node) { return node.feature < 0; }));
}

}  // namespace spjit
