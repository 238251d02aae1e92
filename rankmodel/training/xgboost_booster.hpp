#pragma once

/// @file
/// XGBoost's C interface as values. What it reports as failed is thrown as Error.

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rankmodel/rank_model.hpp"
#include "rankmodel/training/training_data.hpp"

namespace spjit {

/// While it lives, XGBoost prints nothing on this thread.
class QuietXgboost {
 public:
  QuietXgboost();
  ~QuietXgboost();
  QuietXgboost(const QuietXgboost&) = delete;
  QuietXgboost& operator=(const QuietXgboost&) = delete;

 private:
  std::string before_;
};

/// The version it is, as "1.7.4".
[[nodiscard]] std::string xgboost_version();

/// XGBoost's copy of the rows, with their grades, groups and margin.
class XgboostMatrix {
 public:
  explicit XgboostMatrix(const TrainingData& data);

  [[nodiscard]] void* handle() const noexcept { return handle_.get(); }

 private:
  struct Free {
    void operator()(void* handle) const noexcept;
  };

  std::unique_ptr<void, Free> handle_;
};

using XgboostParameters = std::vector<std::pair<std::string, std::string>>;

/// Trees under training. The matrices it is made with must live as long as it; it keeps its
/// predictions for them from round to round.
class XgboostBooster {
 public:
  XgboostBooster(std::span<const XgboostMatrix* const> matrices,
                 const XgboostParameters& parameters);

  /// One more tree by the objective among the parameters.
  void update(int round, const XgboostMatrix& matrix);

  /// One more tree from the first and second derivatives of a loss, one for each row.
  void boost(const XgboostMatrix& matrix, std::vector<float> gradients,
             std::vector<float> hessians);

  /// The margin plus the trees' sum, for each row.
  [[nodiscard]] std::vector<float> predict(const XgboostMatrix& matrix) const;

  /// The whole model as XGBoost's JSON.
  [[nodiscard]] std::string json() const;

 private:
  struct Free {
    void operator()(void* handle) const noexcept;
  };

  std::unique_ptr<void, Free> handle_;
};

/// The trees of a model that XGBoost saved as JSON, in the order they were grown; nodes that were
/// pruned are left out. Their sum is the model's margin if its base score is 0. Throws Error for
/// what is no such model, or has categories, vector leaves or another booster than gbtree.
[[nodiscard]] std::vector<RankTree> trees_of_xgboost(std::string_view json);

}  // namespace spjit
