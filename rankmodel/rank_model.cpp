#include "rankmodel/rank_model.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/printable.hpp"
#include "base/refusal.hpp"
#include "rankmodel/packed_trees.hpp"
#include "rankmodel/time_kind.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

float leaf_of(const RankTree& tree, std::span<const float> row) {
  std::size_t at = 0;
  while (!tree.nodes[at].is_leaf()) at = child_of(tree.nodes[at], row);
  return tree.nodes[at].value;
}

// Whether a node is right by itself.
Refusal fault_of(const RankNode& node, std::size_t index, const RankModel& model,
                 std::size_t nodes) {
  if (!std::isfinite(node.value)) return Refusal("its value is not finite");
  if (node.is_leaf()) {
    if (node.feature == -1 && !node.default_left) return Refusal::none();
    return Refusal("a leaf (left 0) has a split's fields");
  }
  if (node.feature < 0 || static_cast<std::size_t>(node.feature) >= model.features.size()) {
    return Refusal(
        fmt::format("feature {} is not among the {}", node.feature, model.features.size()));
  }
  if (node.left < 0 || static_cast<std::size_t>(node.left) <= index ||
      static_cast<std::size_t>(node.left) + 1 >= nodes) {
    return Refusal(fmt::format("its children {} and {} must come after it and before {}", node.left,
                               std::int64_t{node.left} + 1, nodes));
  }
  return Refusal::none();
}

Refusal fault_of(const RankTree& tree, const RankModel& model) {
  const std::size_t count = tree.nodes.size();
  if (count == 0 || count > k_most_rank_nodes) {
    return Refusal(fmt::format("has {} nodes; expected 1 to {}", count, k_most_rank_nodes));
  }
  std::vector<std::size_t> depth(count, 0);  // 0: no parent seen, as for the root
  for (std::size_t i = 0; i < count; ++i) {
    const RankNode& node = tree.nodes[i];
    const Refusal fault = fault_of(node, i, model, count);
    if (fault) return Refusal(fmt::format("node {}: {}", i, fault.reason()));
    if (i > 0 && depth[i] == 0) {
      return Refusal(fmt::format("node {} is no child of one before it", i));
    }
    if (node.is_leaf()) continue;
    if (depth[i] >= k_deepest_rank_tree) {
      return Refusal(fmt::format("is deeper than {} splits", k_deepest_rank_tree));
    }
    const auto left = static_cast<std::size_t>(node.left);
    if (depth[left] != 0 || depth[left + 1] != 0) {
      return Refusal(fmt::format("node {}: another node has its children", i));
    }
    depth[left] = depth[left + 1] = depth[i] + 1;
  }
  return Refusal::none();
}

void check_features(const RankModel& model) {
  if (model.features.empty() || model.features.size() > k_most_rank_features) {
    throw Error(fmt::format("rank model '{}': {} features; expected 1 to {}", printable(model.name),
                            model.features.size(), k_most_rank_features));
  }
  std::set<std::string_view> seen;
  for (const std::string& feature : model.features) {
    if (feature.empty() || !seen.insert(feature).second) {
      throw Error(fmt::format("rank model '{}': feature '{}' is empty or there twice",
                              printable(model.name), printable(feature)));
    }
  }
}

}  // namespace

double RankModel::score(std::span<const float> row) const {
  if (row.size() != features.size()) {
    throw InvalidArgument(fmt::format("rank model '{}': a row of {} features; expected {}",
                                      printable(name), row.size(), features.size()));
  }
  double sum = 0;
  for (const RankTree& tree : trees) sum += leaf_of(tree, row);
  return sum;
}

std::vector<double> RankModel::scores(std::span<const float> rows) const {
  const std::size_t columns = features.size();
  if (columns == 0 || rows.size() % columns != 0) {
    throw InvalidArgument(fmt::format("rank model '{}': {} numbers are no rows of {} features",
                                      printable(name), rows.size(), columns));
  }
  const PackedTrees packed(*this, rows);
  std::vector<double> sums = packed.sums(rows);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const std::span<const float> row = rows.subspan(i * columns, columns);
    if (!packed.takes(row)) sums[i] = score(row);
  }
  return sums;
}

void check_rank_model(const RankModel& model) {
  check_features(model);
  if (model.schema_version < 0) {
    throw Error(fmt::format("rank model '{}': schema version {} is negative", printable(model.name),
                            model.schema_version));
  }
  if (!model.provenance.is_object()) {
    throw Error(
        fmt::format("rank model '{}': provenance is no JSON object", printable(model.name)));
  }
  if (model.trees.size() > k_most_rank_trees) {
    throw Error(fmt::format("rank model '{}': {} trees; expected at most {}", printable(model.name),
                            model.trees.size(), k_most_rank_trees));
  }
  for (std::size_t i = 0; i < model.trees.size(); ++i) {
    if (const Refusal fault = fault_of(model.trees[i], model)) {
      throw Error(
          fmt::format("rank model '{}': tree {} {}", printable(model.name), i, fault.reason()));
    }
  }
}

void check_schema(const RankModel& model, std::string_view schema, int version,
                  std::span<const std::string> features) {
  if (model.schema != schema || model.schema_version != version) {
    throw Error(fmt::format(
        "rank model '{}' is for features {} version {}; this is {} version {}: "
        "train it again, or take one that fits",
        printable(model.name), printable(model.schema), model.schema_version, schema, version));
  }
  const auto [mine, theirs] = std::ranges::mismatch(model.features, features);
  const bool end_of_mine = mine == model.features.end();
  const bool end_of_theirs = theirs == features.end();
  if (end_of_mine && end_of_theirs) return;
  throw Error(
      fmt::format("rank model '{}': feature {} is {}, expected {} ({} version {}): train it again",
                  printable(model.name), mine - model.features.begin(),
                  end_of_mine ? "missing" : "'" + printable(*mine) + "'",
                  end_of_theirs ? "none" : "'" + *theirs + "'", schema, version));
}

std::string label_of(const RankModel& model) {
  const nlohmann::json& made = model.provenance;
  if (made.value("times", nlohmann::json()) != to_string(TimeKind::modelled)) return {};
  std::set<std::string> devices;
  if (made.contains("samples") && made["samples"].is_array()) {
    for (const nlohmann::json& file : made["samples"]) {
      if (!file.is_object() || !file.contains("devices")) continue;
      for (const auto& device : file["devices"].items()) devices.insert(printable(device.key()));
    }
  }
  return fmt::format("trained on modelled times{}{}", devices.empty() ? "" : ", ",
                     fmt::join(devices, ", "));
}

bool has_seen(const RankModel& model, std::span<const float> row,
              std::span<const std::string_view> features) {
  constexpr float k_margin = 0.01F;
  const auto ranges = model.provenance.find("ranges");
  if (ranges == model.provenance.end() || !ranges->is_object()) return true;
  for (std::size_t i = 0; i < row.size() && i < model.features.size(); ++i) {
    if (!features.empty() && std::ranges::find(features, model.features[i]) == features.end()) {
      continue;
    }
    const auto range = ranges->find(model.features[i]);
    if (range == ranges->end() || !range->is_array() || range->size() != 2) continue;
    if (!range->front().is_number() || !range->back().is_number()) continue;
    if (row[i] < range->front().get<float>() - k_margin) return false;
    if (row[i] > range->back().get<float>() + k_margin) return false;
  }
  return true;
}

std::string ranked_by(const LoadedRankModel* loaded) {
  if (loaded == nullptr) return k_prior_name;
  const RankModel& model = loaded->model;
  const std::string label = label_of(model);
  return label.empty() ? model.name : fmt::format("{} ({})", model.name, label);
}

}  // namespace spjit
