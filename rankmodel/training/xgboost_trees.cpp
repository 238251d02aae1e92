#include "rankmodel/training/xgboost_trees.hpp"

#include <fmt/format.h>

#include "spjit/error.hpp"

namespace spjit {
namespace {

using nlohmann::json;

struct XgboostTree {
  std::vector<std::int32_t> left;  // -1: a leaf
  std::vector<std::int32_t> right;
  std::vector<std::int32_t> feature;
  std::vector<float> condition;  // threshold, or what a leaf adds
  std::vector<int> default_left;
  std::vector<int> type;  // 1: a set of categories
};

XgboostTree fields_of(const json& tree) {
  XgboostTree fields;
  tree.at("left_children").get_to(fields.left);
  tree.at("right_children").get_to(fields.right);
  tree.at("split_indices").get_to(fields.feature);
  tree.at("split_conditions").get_to(fields.condition);
  tree.at("default_left").get_to(fields.default_left);
  tree.at("split_type").get_to(fields.type);
  return fields;
}

// Breadth first from the root, so that children follow their parent and each other.
RankTree tree_of(const json& value) {
  const XgboostTree from = fields_of(value);
  RankTree tree;
  std::vector<std::int32_t> queue{0};
  for (std::size_t i = 0; i < queue.size(); ++i) {
    const auto at = static_cast<std::size_t>(queue[i]);
    const std::int32_t left = from.left.at(at);
    if (left < 0) {
      tree.nodes.push_back({.value = from.condition.at(at)});
      continue;
    }
    if (from.type.at(at) != 0) throw Error("XGBoost split on categories, which spjit has none of");
    if (queue.size() > k_most_rank_nodes) throw Error("a tree of XGBoost's is too large");
    tree.nodes.push_back({.value = from.condition.at(at),
                          .feature = from.feature.at(at),
                          .left = static_cast<std::int32_t>(queue.size()),
                          .default_left = from.default_left.at(at) != 0});
    queue.push_back(left);
    queue.push_back(from.right.at(at));
  }
  return tree;
}

}  // namespace

std::vector<RankTree> trees_of_xgboost(std::string_view text) {
  try {
    const json model = json::parse(text);
    const json& booster = model.at("learner").at("gradient_booster");
    if (booster.at("name") != "gbtree") throw Error("XGBoost's booster is not gbtree");
    std::vector<RankTree> trees;
    for (const json& tree : booster.at("model").at("trees")) trees.push_back(tree_of(tree));
    return trees;
  } catch (const json::exception& error) {
    throw Error(fmt::format("not a model of XGBoost's: {}", error.what()));
  } catch (const std::out_of_range& error) {
    throw Error(fmt::format("a tree of XGBoost's is not whole: {}", error.what()));
  }
}

}  // namespace spjit
