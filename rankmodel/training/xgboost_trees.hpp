#pragma once

/// @file
/// XGBoost's trees as ours.

#include <string_view>
#include <vector>

#include "rankmodel/rank_model.hpp"

namespace spjit {

/// The trees of a model that XGBoost saved as JSON, in the order they were grown; nodes that were
/// pruned are left out. Their sum is the model's margin if its base score is 0. Throws Error for
/// what is no such model, or has categories, vector leaves or another booster than gbtree.
[[nodiscard]] std::vector<RankTree> trees_of_xgboost(std::string_view json);

}  // namespace spjit
