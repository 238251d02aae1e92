#include "rankmodel/rank_model.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <random>

#include "spjit/error.hpp"

namespace {

using spjit::RankModel;
using spjit::RankNode;
using spjit::RankTree;
using Row = std::vector<float>;

constexpr float k_nan = std::numeric_limits<float>::quiet_NaN();

// One split at x < 0.5 into 1 and 2, and one constant tree of 10.
RankModel stump() {
  return {.name = "stump",
          .schema = "test",
          .schema_version = 3,
          .features = {"x", "y"},
          .trees = {{{{.value = 0.5F, .feature = 0, .left = 1, .default_left = true},
                      {.value = 1},
                      {.value = 2}}},
                    {{{.value = 10}}}}};
}

class TreeMaker {
 public:
  explicit TreeMaker(unsigned seed) : random_(seed) {}

  RankTree tree(std::size_t columns, std::size_t depth) {
    RankTree made;
    const std::size_t splits = (std::size_t{1} << depth) - 1;
    for (std::size_t i = 0; i < splits; ++i) {
      made.nodes.push_back({.value = number(),
                            .feature = static_cast<std::int32_t>(random_() % columns),
                            .left = static_cast<std::int32_t>(2 * i + 1),
                            .default_left = random_() % 2 == 0});
    }
    for (std::size_t i = 0; i <= splits; ++i) made.nodes.push_back({.value = number()});
    return made;
  }

  RankModel model(std::size_t columns, std::size_t trees, std::size_t depth) {
    RankModel made{.name = "random", .schema = "test"};
    for (std::size_t i = 0; i < columns; ++i) made.features.push_back(fmt::format("f{}", i));
    for (std::size_t i = 0; i < trees; ++i) made.trees.push_back(tree(columns, depth));
    return made;
  }

  Row numbers(std::size_t count) {
    Row row;
    for (std::size_t i = 0; i < count; ++i) row.push_back(number());
    return row;
  }

 private:
  float number() { return static_cast<float>(random_() % 2001) / 1000.0F - 1; }

  std::mt19937 random_;
};

TEST(RankModel, AddsTheLeavesThatARowReaches) {
  EXPECT_EQ(stump().score(Row{0.4F, 0}), 11);
  EXPECT_EQ(stump().score(Row{0.5F, 0}), 12);  // less, not less or equal
}

TEST(RankModel, FollowsTheDefaultDirectionForNan) {
  RankModel model = stump();

  EXPECT_EQ(model.score(Row{k_nan, 0}), 11);
  model.trees[0].nodes[0].default_left = false;
  EXPECT_EQ(model.score(Row{k_nan, 0}), 12);
}

TEST(RankModel, ScoresManyRowsExactlyAsOneByOne) {
  TreeMaker maker(1);
  const RankModel model = maker.model(7, 20, 5);
  Row rows = maker.numbers(std::size_t{7} * 101);
  for (std::size_t row = 0; row < 101; ++row) rows[row * 7 + 2] = k_nan;  // in all rows
  for (std::size_t row = 0; row < 101; ++row) rows[row * 7 + 4] = 0.25F;
  for (std::size_t row = 0; row < 101; row += 10) rows[row * 7 + 5] = k_nan;
  rows[6] = std::numeric_limits<float>::infinity();

  const std::vector<double> scores = model.scores(rows);

  ASSERT_EQ(scores.size(), 101U);
  for (std::size_t row = 0; row < 101; ++row) {
    EXPECT_EQ(scores[row], model.score(std::span(rows).subspan(row * 7, 7))) << row;
  }
}

// Every pair of a threshold and a number that a change of their order could hide in.
TEST(RankModel, ScoresManyRowsAlikeAtZerosSignsAndLimits) {
  using Limits = std::numeric_limits<float>;
  const Row numbers = {-Limits::infinity(),
                       Limits::lowest(),
                       -1,
                       std::nextafter(-1.0F, 0.0F),
                       -Limits::min(),
                       -Limits::denorm_min(),
                       -0.0F,
                       0.0F,
                       Limits::denorm_min(),
                       Limits::min(),
                       std::nextafter(1.0F, 0.0F),
                       1,
                       Limits::max(),
                       Limits::infinity()};
  Row rows;
  for (const float x : numbers) rows.insert(rows.end(), {x, 0});

  for (const float threshold : numbers) {
    if (!std::isfinite(threshold)) continue;  // no model has such
    RankModel model = stump();
    model.trees[0].nodes[0].value = threshold;
    const std::vector<double> scores = model.scores(rows);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      EXPECT_EQ(scores[i], numbers[i] < threshold ? 11 : 12) << numbers[i] << " < " << threshold;
    }
  }
}

TEST(RankModel, ScoresNoRows) { EXPECT_TRUE(stump().scores({}).empty()); }

TEST(RankModel, RefusesRowsOfAnotherLength) {
  EXPECT_THROW(static_cast<void>(stump().score(Row{1})), spjit::InvalidArgument);
  EXPECT_THROW(static_cast<void>(stump().scores(Row{1, 2, 3})), spjit::InvalidArgument);
}

TEST(RankModel, SaysHowLongAThousandRowsTake) {
  TreeMaker maker(2);
  const RankModel model = maker.model(30, 200, 6);
  const Row rows = maker.numbers(std::size_t{30} * 1000);
  double best_us = std::numeric_limits<double>::max();

  for (int i = 0; i < 20; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const std::vector<double> scores = model.scores(rows);
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    best_us = std::min(best_us, took.count());
    ASSERT_EQ(scores.size(), 1000U);
  }

  fmt::print("1000 rows x 30 features x 200 trees of depth 6: {:.0f} us\n", best_us);
}

std::string what_is_wrong(const RankModel& model) {
  try {
    spjit::check_rank_model(model);
  } catch (const spjit::Error& error) {
    return error.what();
  }
  return "";
}

TEST(RankModel, IsNamedInOneLineWhateverItIsCalled) {
  RankModel model = stump();
  model.name = "a\n\tb";
  model.provenance = "mine";

  EXPECT_EQ(what_is_wrong(model), "rank model 'a??b': provenance is no JSON object");
  try {
    static_cast<void>(model.score(Row{1}));
    FAIL() << "a row that is too short was taken";
  } catch (const spjit::InvalidArgument& error) {
    EXPECT_STREQ(error.what(), "rank model 'a??b': a row of 1 features; expected 2");
  }
  try {
    static_cast<void>(model.scores(Row{1, 2, 3}));
    FAIL() << "a row and a half were taken";
  } catch (const spjit::InvalidArgument& error) {
    EXPECT_STREQ(error.what(), "rank model 'a??b': 3 numbers are no rows of 2 features");
  }
}

TEST(CheckRankModel, TakesAGoodOne) { EXPECT_EQ(what_is_wrong(stump()), ""); }

TEST(CheckRankModel, NamesTheNodeThatIsWrong) {
  const auto broken = [](std::size_t node, RankNode with) {
    RankModel model = stump();
    model.trees[0].nodes[node] = with;
    return what_is_wrong(model);
  };

  EXPECT_EQ(broken(0, {.value = k_nan, .feature = 0, .left = 1}),
            "rank model 'stump': tree 0 node 0: its value is not finite");
  EXPECT_EQ(broken(0, {.value = 0, .feature = 2, .left = 1}),
            "rank model 'stump': tree 0 node 0: feature 2 is not among the 2");
  EXPECT_EQ(broken(0, {.value = 0, .feature = 0, .left = 2}),
            "rank model 'stump': tree 0 node 0: its children 2 and 3 must come after it and "
            "before 3");
  EXPECT_EQ(broken(1, {.value = 0, .feature = 0, .left = 1}),
            "rank model 'stump': tree 0 node 1: its children 1 and 2 must come after it and "
            "before 3");
  EXPECT_EQ(broken(0, {.value = 0}),
            "rank model 'stump': tree 0 node 1 is no child of one before it");
  EXPECT_EQ(broken(2, {.value = 0, .feature = 1}),
            "rank model 'stump': tree 0 node 2: a leaf (left 0) has a split's fields");
}

TEST(CheckRankModel, RefusesANodeWithTwoParents) {
  RankModel model = stump();
  model.trees[0].nodes = {{.value = 0, .feature = 0, .left = 1},
                          {.value = 0, .feature = 0, .left = 3},
                          {.value = 0, .feature = 0, .left = 3},
                          {.value = 1},
                          {.value = 2}};

  EXPECT_EQ(what_is_wrong(model),
            "rank model 'stump': tree 0 node 2: another node has its children");
}

TEST(CheckRankModel, RefusesAChainThatIsTooDeep) {
  RankModel model = stump();
  std::vector<RankNode> chain;
  for (std::int32_t i = 0; i <= static_cast<std::int32_t>(spjit::k_deepest_rank_tree); ++i) {
    // Splits are the first of every pair: 0, 1, 3, 5, ...
    chain.push_back({.value = 0, .feature = 0, .left = 2 * i + 1});
    if (i > 0) chain.push_back({});
  }
  chain.resize(chain.size() + 2);
  model.trees[0].nodes = chain;

  EXPECT_EQ(what_is_wrong(model), "rank model 'stump': tree 0 is deeper than 64 splits");
}

TEST(CheckRankModel, RefusesFeaturesWithoutANameOfTheirOwn) {
  RankModel model = stump();
  model.features = {"x", "x"};
  EXPECT_EQ(what_is_wrong(model), "rank model 'stump': feature 'x' is empty or there twice");
  model.features = {};
  EXPECT_EQ(what_is_wrong(model), "rank model 'stump': 0 features; expected 1 to 1000");
}

TEST(CheckSchema, TakesTheSameFeatures) {
  const std::vector<std::string> features = {"x", "y"};

  EXPECT_NO_THROW(spjit::check_schema(stump(), "test", 3, features));
}

TEST(CheckSchema, NamesBothVersionsOrTheFirstFeatureThatDiffers) {
  const auto wrong = [](const char* schema, int version, std::vector<std::string> features) {
    try {
      spjit::check_schema(stump(), schema, version, features);
    } catch (const spjit::Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };

  EXPECT_EQ(wrong("test", 4, {"x", "y"}),
            "rank model 'stump' is for features test version 3; this is test version 4: train it "
            "again, or take one that fits");
  EXPECT_EQ(wrong("test", 3, {"x", "z"}),
            "rank model 'stump': feature 1 is 'y', expected 'z' (test version 3): train it again");
  EXPECT_EQ(wrong("test", 3, {"x", "y", "z"}),
            "rank model 'stump': feature 2 is missing, expected 'z' (test version 3): train it "
            "again");
  EXPECT_EQ(wrong("test", 3, {"x"}),
            "rank model 'stump': feature 1 is 'y', expected none (test version 3): train it again");
}

TEST(RankModelLabel, SaysThatTimesWereModelledAndOfWhichDevices) {
  spjit::LoadedRankModel loaded{stump(), "id"};
  EXPECT_EQ(label_of(loaded.model), "");
  EXPECT_EQ(ranked_by(&loaded), "stump");
  EXPECT_EQ(spjit::ranked_by(nullptr), "prior");

  nlohmann::json& made = loaded.model.provenance;
  made["times"] = "measured";
  made["samples"] = {{{"devices", {{"sm_75:t4", 3}, {"sm_75:rtx2080ti", 1}}}},
                     {{"devices", {{"sm_75:t4", 2}}}}};
  EXPECT_EQ(ranked_by(&loaded), "stump");

  made["times"] = "modelled";
  EXPECT_EQ(label_of(loaded.model), "trained on modelled times, sm_75:rtx2080ti, sm_75:t4");
  EXPECT_EQ(ranked_by(&loaded), "stump (trained on modelled times, sm_75:rtx2080ti, sm_75:t4)");
}

/// Provenance is anybody's.
TEST(RankModelLabel, OfStrangeProvenanceIsStillOne) {
  RankModel model = stump();
  model.provenance = {{"times", "modelled"}, {"samples", {3, {{"devices", nullptr}}, "x"}}};

  EXPECT_EQ(label_of(model), "trained on modelled times");
}

/// A stump's model has one feature or more; the ranges are anybody's.
TEST(RankModelRanges, SayWhichRowsItHasSeen) {
  RankModel model = stump();
  model.features = {"n", "nnz", "m1"};
  const std::vector<std::string_view> looked_at = {"n", "nnz"};
  const auto seen = [&](float n, float nnz, float m1) {
    return has_seen(model, std::vector<float>{n, nnz, m1}, looked_at);
  };
  EXPECT_TRUE(seen(-9, 9, 0));  // it does not say

  model.provenance["ranges"] = {{"n", {1, 4.5}}, {"m1", {2, 2}}, {"k", {0, 0}}};
  EXPECT_TRUE(seen(1, 1000, 7));  // of nnz it does not say, and nobody asked of m1
  EXPECT_TRUE(seen(4.505F, 0, 2));
  EXPECT_FALSE(seen(4.52F, 0, 2));
  EXPECT_FALSE(seen(0.98F, 0, 2));

  for (const nlohmann::json& strange :
       {nlohmann::json(3), nlohmann::json{{"n", 1}}, nlohmann::json{{"n", {1, "x"}}},
        nlohmann::json{{"n", {1, 2, 3}}}, nlohmann::json{{"n", nullptr}}}) {
    model.provenance["ranges"] = strange;
    EXPECT_TRUE(seen(99, 0, 0)) << strange;
  }
}

}  // namespace
