#include "rankmodel/training/rank_training.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "rankmodel/training/lambda_gradients.hpp"
#include "rankmodel/training/training_data.hpp"
#include "rankmodel/training/xgboost_booster.hpp"

namespace spjit {
namespace {

XgboostParameters parameters_of(const TrainingOptions& options) {
  return {
      {"verbosity", "0"},
      {"nthread", "1"},
      {"booster", "gbtree"},
      {"tree_method", "hist"},
      // With our own gradients only the sum of the trees is asked for.
      {"objective", options.objective == RankObjective::ndcg ? "rank:ndcg" : "reg:squarederror"},
      {"base_score", "0"},
      {"seed", fmt::format("{}", options.seed)},
      {"seed_per_iteration", "1"},
      {"max_depth", fmt::format("{}", options.depth)},
      {"eta", fmt::format("{}", options.learning_rate)},
      {"min_child_weight", fmt::format("{}", options.min_child_weight)},
      {"lambda", fmt::format("{}", options.l2)},
      {"subsample", fmt::format("{}", options.subsample)},
      {"colsample_bytree", fmt::format("{}", options.colsample)}};
}

// Of all groups, each by itself.
Gradients all_gradients(const TrainingData& data, std::span<const float> scores) {
  Gradients all;
  std::size_t first = 0;
  for (const std::size_t size : data.group_sizes) {
    const Gradients one = lambda_gradients(k_ndcg_places, scores.subspan(first, size),
                                           std::span(data.grades).subspan(first, size));
    all.first.insert(all.first.end(), one.first.begin(), one.first.end());
    all.second.insert(all.second.end(), one.second.begin(), one.second.end());
    first += size;
  }
  return all;
}

struct Outcome {
  std::vector<RankTree> trees;
  std::optional<double> validation_ndcg;  // at the last of the trees
};

class Training {
 public:
  Training(const TrainingData& data, const TrainingData& validation, const TrainingOptions& options)
      : options_(options), data_(data), validation_(validation), matrix_(data) {
    std::vector<const XgboostMatrix*> matrices{&matrix_};
    if (!validation.grades.empty()) matrices.push_back(&held_out_.emplace(validation));
    booster_.emplace(matrices, parameters_of(options));
  }

  Outcome run() {
    int best_round = -1;  // of a model to go on from, that it is best as it is
    double best = validation_.margin.empty() ? -1 : mean_ndcg(validation_, validation_.margin);
    for (int round = 0; round < options_.rounds; ++round) {
      grow(round);
      if (!held_out_) continue;
      const double ndcg = mean_ndcg(validation_, booster_->predict(*held_out_));
      if (ndcg > best) {
        best = ndcg;
        best_round = round;
      }
      if (round - best_round >= options_.patience) break;
    }
    Outcome outcome{.trees = trees_of_xgboost(booster_->json()), .validation_ndcg = {}};
    if (held_out_) {
      outcome.trees.resize(static_cast<std::size_t>(best_round) + 1);
      outcome.validation_ndcg = best;
    }
    return outcome;
  }

 private:
  void grow(int round) {
    if (options_.objective != RankObjective::truncated) {
      booster_->update(round, matrix_);
      return;
    }
    Gradients gradients = all_gradients(data_, booster_->predict(matrix_));
    booster_->boost(matrix_, std::move(gradients.first), std::move(gradients.second));
  }

  const TrainingOptions& options_;
  const TrainingData& data_;
  const TrainingData& validation_;
  XgboostMatrix matrix_;
  std::optional<XgboostMatrix> held_out_;
  std::optional<XgboostBooster> booster_;
};

std::vector<RankTree> trained_on_all(std::span<const TrainingGroup> groups, TrainingOptions options,
                                     int rounds) {
  options.validation_share = 0;
  options.validation_groups.clear();
  options.rounds = rounds;
  return Training(training_data(groups, options, false), TrainingData(), options).run().trees;
}

/// {feature: [least, most]} of all rows.
nlohmann::json ranges_of(std::span<const TrainingGroup> groups,
                         const std::vector<std::string>& features) {
  nlohmann::json ranges = nlohmann::json::object();
  for (const TrainingGroup& group : groups) {
    for (std::size_t i = 0; i < group.rows.size(); ++i) {
      nlohmann::json& range = ranges[features[i % features.size()]];
      const float value = group.rows[i];
      if (range.is_null()) range = {value, value};
      range[0] = std::min(range[0].get<float>(), value);
      range[1] = std::max(range[1].get<float>(), value);
    }
  }
  return ranges;
}

nlohmann::json provenance_of(const TrainingOptions& options, const TrainingData& data,
                             const TrainingData& validation, const Outcome& outcome) {
  nlohmann::json made = {{"trainer", fmt::format("XGBoost {}", xgboost_version())},
                         {"objective", to_string(options.objective)},
                         {"seed", options.seed},
                         {"rounds", options.rounds},
                         {"trees", outcome.trees.size()},
                         {"depth", options.depth},
                         {"learning_rate", options.learning_rate},
                         {"min_child_weight", options.min_child_weight},
                         {"l2", options.l2},
                         {"subsample", options.subsample},
                         {"colsample", options.colsample},
                         {"top_grade", options.top_grade},
                         {"refit", options.refit},
                         {"training_groups", data.group_sizes.size()},
                         {"training_rows", data.grades.size()},
                         {"validation_groups", validation.group_sizes.size()}};
  if (options.slower_weight < 1) made["slower_weight"] = options.slower_weight;
  if (outcome.validation_ndcg) made["validation_ndcg_at_10"] = *outcome.validation_ndcg;
  if (options.init != nullptr) {
    made["init"] = {{"name", options.init->name},
                    {"trees", options.init->trees.size()},
                    {"provenance", options.init->provenance}};
  }
  return made;
}

}  // namespace

const char* to_string(RankObjective objective) {
  switch (objective) {
    case RankObjective::ndcg:
      return "rank:ndcg";
    case RankObjective::truncated:
      return "truncated";
    case RankObjective::relative_time:
      return "relative-time";
  }
  return "?";
}

RankModel train_rank_model(std::span<const TrainingGroup> groups, const TrainingOptions& options) {
  check_training(groups, options);
  const QuietXgboost quiet;
  const TrainingData data = training_data(groups, options, false);
  const TrainingData validation = training_data(groups, options, true);
  Outcome outcome = Training(data, validation, options).run();
  if (options.refit && outcome.validation_ndcg && !outcome.trees.empty()) {
    outcome.trees = trained_on_all(groups, options, static_cast<int>(outcome.trees.size()));
  }

  RankModel model{.name = options.name,
                  .schema = options.schema,
                  .schema_version = options.schema_version,
                  .features = options.features,
                  .trees = options.init != nullptr ? options.init->trees : std::vector<RankTree>(),
                  .provenance = provenance_of(options, data, validation, outcome)};
  if (options.objective == RankObjective::relative_time) {
    model.provenance["ranges"] = ranges_of(groups, options.features);
  }
  model.trees.insert(model.trees.end(), outcome.trees.begin(), outcome.trees.end());
  check_rank_model(model);
  return model;
}

}  // namespace spjit
