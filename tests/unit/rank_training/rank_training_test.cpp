#include "rankmodel/training/rank_training.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <span>

#include "rankmodel/rank_metrics.hpp"
#include "spjit/error.hpp"
#include "tests/unit/rank_training/made_up_groups.hpp"

namespace {

using spjit::RankModel;
using spjit::RankObjective;
using spjit::train_rank_model;
using spjit::TrainingGroup;
using spjit::TrainingOptions;
using spjit_test::made_up_groups;
using spjit_test::made_up_options;
using testing::HasSubstr;

struct Quality {
  double ndcg = 0;
  double regret = 0;
};

// Means over groups; without a model, of the order the tiles come in, which is random.
Quality quality_of(const RankModel* model, const std::vector<TrainingGroup>& groups) {
  Quality quality;
  for (const TrainingGroup& group : groups) {
    const std::vector<double> scores = model != nullptr
                                           ? model->scores(group.rows)
                                           : std::vector<double>(group.times_us.size(), 0.0);
    quality.ndcg += spjit::ndcg_at(10, scores, spjit::relevance_grades(group.times_us, 15));
    quality.regret += spjit::regret_of_top(1, scores, group.times_us);
  }
  quality.ndcg /= static_cast<double>(groups.size());
  quality.regret /= static_cast<double>(groups.size());
  return quality;
}

std::string refusal(const std::vector<TrainingGroup>& groups, const TrainingOptions& options) {
  try {
    static_cast<void>(train_rank_model(groups, options));
  } catch (const spjit::InvalidArgument& error) {
    return error.what();
  }
  return "taken";
}

class RankTraining : public testing::TestWithParam<RankObjective> {
 protected:
  static TrainingOptions options() {
    TrainingOptions options = made_up_options();
    options.objective = GetParam();
    return options;
  }
};

TEST_P(RankTraining, LearnsWhatMakesATileFast) {
  const std::vector<TrainingGroup> unseen = made_up_groups(50, 99);

  TrainingOptions many = options();
  many.rounds = 250;

  const RankModel model = train_rank_model(made_up_groups(100, 1), many);

  const Quality learned = quality_of(&model, unseen);
  const Quality random = quality_of(nullptr, unseen);
  fmt::print("NDCG@10 {:.3f}, regret {:.4f}; in random order {:.3f}, {:.4f}; {} trees\n",
             learned.ndcg, learned.regret, random.ndcg, random.regret, model.trees.size());
  EXPECT_GT(learned.ndcg, 0.9);
  EXPECT_GT(learned.ndcg, random.ndcg + 0.2);
  EXPECT_LT(learned.regret, 0.05);
  EXPECT_LT(learned.regret, random.regret / 5);
}

TEST_P(RankTraining, GivesTheSameBytesTwice) {
  const std::vector<TrainingGroup> groups = made_up_groups(20, 1);
  TrainingOptions sampled = options();
  sampled.subsample = 0.7;
  sampled.colsample = 0.5;

  const std::string first = spjit::write_rank_model(train_rank_model(groups, sampled));
  const std::string second = spjit::write_rank_model(train_rank_model(groups, sampled));
  sampled.seed = 2;
  const std::string other = spjit::write_rank_model(train_rank_model(groups, sampled));

  EXPECT_EQ(first, second);
  EXPECT_NE(first, other);
}

TEST_P(RankTraining, GoesOnFromAnotherModel) {
  const RankModel source = train_rank_model(made_up_groups(100, 1), options());
  const std::vector<TrainingGroup> unseen = made_up_groups(50, 99, 0.6);
  TrainingOptions more = options();
  more.init = &source;

  const RankModel moved = train_rank_model(made_up_groups(20, 2, 0.6), more);

  ASSERT_GT(moved.trees.size(), source.trees.size());
  EXPECT_TRUE(std::equal(source.trees.begin(), source.trees.end(), moved.trees.begin()));
  EXPECT_EQ(moved.provenance["init"]["trees"], source.trees.size());
  EXPECT_GT(quality_of(&moved, unseen).ndcg, quality_of(&source, unseen).ndcg);
}

TEST_P(RankTraining, StopsEarlyWhereNothingCanBeLearned) {
  std::vector<TrainingGroup> groups = made_up_groups(10, 1);
  for (TrainingGroup& group : groups) std::ranges::fill(group.times_us, 5.0);
  TrainingOptions few = options();
  few.patience = 3;

  const RankModel model = train_rank_model(groups, few);

  EXPECT_EQ(model.trees.size(), 1U);  // every order is the best from the first round on
  EXPECT_EQ(model.provenance["validation_ndcg_at_10"], 1.0);
}

TEST_P(RankTraining, TakesAllRoundsWithNothingHeldOut) {
  TrainingOptions all = options();
  all.validation_share = 0;

  const RankModel model = train_rank_model(made_up_groups(5, 1), all);

  EXPECT_EQ(model.trees.size(), 40U);
  EXPECT_FALSE(model.provenance.contains("validation_ndcg_at_10"));
}

INSTANTIATE_TEST_SUITE_P(Objectives, RankTraining,
                         testing::Values(RankObjective::ndcg, RankObjective::truncated),
                         [](const auto& chosen) {
                           return chosen.param == RankObjective::ndcg ? "Ndcg" : "Truncated";
                         });

/// Mean distance of predictions from log2(best / time); without a model, from one number for all.
double distance(const RankModel* model, const std::vector<TrainingGroup>& groups) {
  double sum = 0;
  double count = 0;
  for (const TrainingGroup& group : groups) {
    const double best = *std::ranges::min_element(group.times_us);
    for (std::size_t i = 0; i < group.times_us.size(); ++i) {
      const double faster = std::max(std::log2(best / group.times_us[i]), -spjit::k_slowest_log2);
      const std::span<const float> rows = group.rows;
      const double predicted =
          model == nullptr ? -0.7 : model->score(rows.subspan(i * group.columns, group.columns));
      sum += std::abs(predicted - faster);
      ++count;
    }
  }
  return sum / count;
}

TEST(RankTrainingModel, PredictsRelativeTimes) {
  TrainingOptions options = made_up_options();
  options.objective = RankObjective::relative_time;
  options.validation_share = 0;
  const std::vector<TrainingGroup> unseen = made_up_groups(50, 99);

  const RankModel model = train_rank_model(made_up_groups(100, 1), options);

  EXPECT_EQ(model.provenance["objective"], "relative-time");
  EXPECT_LT(distance(&model, unseen), 0.7 * distance(nullptr, unseen));
}

TEST(RankTrainingModel, OfRelativeTimesSaysWhichRowsItHasSeen) {
  TrainingOptions options = made_up_options();
  const std::vector<TrainingGroup> groups = made_up_groups(20, 1);
  EXPECT_FALSE(train_rank_model(groups, options).provenance.contains("ranges"));
  options.objective = RankObjective::relative_time;

  const RankModel model = train_rank_model(groups, options);

  for (std::size_t column = 0; column < groups.front().columns; ++column) {
    float least = std::numeric_limits<float>::infinity();
    float most = -least;
    for (const TrainingGroup& group : groups) {
      for (std::size_t i = column; i < group.rows.size(); i += group.columns) {
        least = std::min(least, group.rows[i]);
        most = std::max(most, group.rows[i]);
      }
    }
    const nlohmann::json& range = model.provenance["ranges"][options.features[column]];
    EXPECT_EQ(range[0].get<float>(), least);
    EXPECT_EQ(range[1].get<float>(), most);
  }
}

/// Of one feature that says nothing every row gets the weighted mean.
TEST(RankTrainingModel, SlowerTilesMayWeighLess) {
  TrainingGroup group{"one", std::vector<float>(2, 0.0F), 1, {1, 2}};
  TrainingGroup other = group;
  other.name = "two";
  TrainingOptions options = made_up_options();
  options.features = {"nothing"};
  options.objective = RankObjective::relative_time;
  options.validation_share = 0;
  options.l2 = 0;
  options.min_child_weight = 0;
  options.rounds = 50;
  options.learning_rate = 0.5;
  const auto predicted = [&] {
    return train_rank_model(std::vector{group, other}, options).score(std::vector<float>{0});
  };

  EXPECT_NEAR(predicted(), -0.5, 1e-3);
  options.slower_weight = 0.25;
  EXPECT_NEAR(predicted(), -0.2, 1e-3);  // (1 x 0 + 0.25 x -1) / 1.25
  options.slower_weight = 0;
  EXPECT_THROW(static_cast<void>(predicted()), spjit::InvalidArgument);
}

TEST(RankTrainingModel, SaysWhatItWasMadeFor) {
  TrainingOptions options = made_up_options();
  options.name = "mine";

  const RankModel model = train_rank_model(made_up_groups(10, 1), options);

  EXPECT_EQ(model.name, "mine");
  EXPECT_NO_THROW(spjit::check_schema(model, "made-up", 1, spjit_test::k_made_up_features));
  EXPECT_EQ(model.provenance["objective"], "rank:ndcg");
  EXPECT_EQ(spjit::read_rank_model(spjit::write_rank_model(model)), model);
}

TEST(RankTrainingModel, GradesTilesThatDoNotRunLast) {
  std::vector<TrainingGroup> groups = made_up_groups(30, 1);
  for (TrainingGroup& group : groups) {
    for (std::size_t tile = 0; tile < group.times_us.size(); ++tile) {
      const bool runs = group.rows[tile * 4 + 2] < 0.5F;
      if (!runs) group.times_us[tile] = std::numeric_limits<double>::infinity();
    }
  }

  const RankModel model = train_rank_model(groups, made_up_options());

  const std::vector<TrainingGroup> unseen = made_up_groups(20, 7);
  for (const TrainingGroup& group : unseen) {
    const std::vector<double> scores = model.scores(group.rows);
    const std::size_t best = spjit::order_by_score(scores).front();
    EXPECT_LT(group.rows[best * 4 + 2], 0.5F) << group.name;
  }
}

TEST(ValidationGroups, AreChosenByNameWhateverElseThereIs) {
  TrainingOptions options = made_up_options();
  int held_out = 0;

  for (int i = 0; i < 1000; ++i) {
    if (spjit::is_validation_group(fmt::format("group-{}", i), options)) ++held_out;
  }

  EXPECT_NEAR(held_out, 200, 50);
}

TEST(ValidationGroups, AreThoseThatAreNamed) {
  TrainingOptions options = made_up_options();
  options.validation_groups = {"b"};

  EXPECT_TRUE(spjit::is_validation_group("b", options));
  EXPECT_FALSE(spjit::is_validation_group("a", options));
}

TEST(RankTrainingRefusals, NameTheGroup) {
  std::vector<TrainingGroup> groups = made_up_groups(3, 1);
  groups[1].times_us[7] = 0;
  EXPECT_THAT(refusal(groups, made_up_options()),
              HasSubstr("training group 'group-1-1': a time is not positive"));

  groups = made_up_groups(3, 1);
  groups[1].rows[7] = std::numeric_limits<float>::infinity();
  EXPECT_THAT(refusal(groups, made_up_options()),
              HasSubstr("training group 'group-1-1': a feature is infinite"));

  groups = made_up_groups(3, 1);
  groups[2].rows.pop_back();
  EXPECT_THAT(refusal(groups, made_up_options()),
              HasSubstr("'group-1-2': 159 numbers in 4 columns for 40 times; expected 4 columns"));

  groups = made_up_groups(3, 1);
  groups[2].name = groups[0].name;
  EXPECT_THAT(refusal(groups, made_up_options()), HasSubstr("'group-1-0' is there twice"));
}

TEST(RankTrainingRefusals, NameTheOption) {
  const std::vector<TrainingGroup> groups = made_up_groups(3, 1);
  TrainingOptions options = made_up_options();
  options.depth = 0;
  EXPECT_THAT(refusal(groups, options), HasSubstr("training option depth: expected 1 to 12"));

  options = made_up_options();
  options.validation_groups = {"other"};
  EXPECT_THAT(refusal(groups, options), HasSubstr("there is no validation group 'other'"));

  options.validation_groups = {"group-1-0", "group-1-1", "group-1-2"};
  EXPECT_THAT(refusal(groups, options), HasSubstr("of 3 groups none is left to train on"));
  EXPECT_THAT(refusal({}, made_up_options()), HasSubstr("of 0 groups none is left to train on"));
}

TEST(RankTrainingRefusals, TellOfAModelForOtherFeatures) {
  const RankModel source{.name = "old", .schema = "made-up", .features = {"size"}};
  TrainingOptions options = made_up_options();
  options.init = &source;

  EXPECT_THROW(static_cast<void>(train_rank_model(made_up_groups(3, 1), options)), spjit::Error);
}

}  // namespace
