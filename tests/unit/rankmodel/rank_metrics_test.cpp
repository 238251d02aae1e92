#include "rankmodel/rank_metrics.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "spjit/error.hpp"

namespace {

using Values = std::vector<double>;
using Grades = std::vector<int>;

constexpr double k_never = std::numeric_limits<double>::infinity();

TEST(OrderByScore, PutsTheGreatestFirstAndKeepsEqualsInPlace) {
  EXPECT_EQ(spjit::order_by_score(Values{1, 3, 2, 3}), (std::vector<std::size_t>{1, 3, 2, 0}));
}

TEST(RelevanceGrades, AreEqualWithinTwoPercentOfTheBest) {
  EXPECT_EQ(spjit::relevance_grades(Values{100, 102, 102.1}), (Grades{30, 30, 29}));
}

TEST(RelevanceGrades, AreTheRelativeSpeedByHand) {
  // 10 * 0.5 / 0.98 = 5.1; 10 * 0.25 / 0.98 = 2.55; 10 * 0.01 / 0.98 = 0.1.
  EXPECT_EQ(spjit::relevance_grades(Values{2, 1, 4, 100}, 10), (Grades{5, 10, 2, 0}));
}

TEST(RelevanceGrades, AreZeroForWhatDoesNotRun) {
  EXPECT_EQ(spjit::relevance_grades(Values{k_never, 3}), (Grades{0, 30}));
  EXPECT_EQ(spjit::relevance_grades(Values{k_never, k_never}), (Grades{0, 0}));
  EXPECT_EQ(spjit::relevance_grades(Values{}), Grades{});
}

TEST(RelevanceGrades, RefuseWhatIsNoTimeAndTooManyGrades) {
  EXPECT_THROW(static_cast<void>(spjit::relevance_grades(Values{1, 0})), spjit::InvalidArgument);
  EXPECT_THROW(static_cast<void>(spjit::relevance_grades(Values{1, std::nan("")})),
               spjit::InvalidArgument);
  EXPECT_THROW(static_cast<void>(spjit::relevance_grades(Values{1}, 31)), spjit::InvalidArgument);
  EXPECT_THROW(static_cast<void>(spjit::relevance_grades(Values{1}, 0)), spjit::InvalidArgument);
}

TEST(NdcgAt, IsOneForTheBestOrderAndWhereThereIsNothingToGain) {
  EXPECT_EQ(spjit::ndcg_at(3, Grades{2, 1, 0}), 1);
  EXPECT_EQ(spjit::ndcg_at(3, Grades{0, 0}), 1);
  EXPECT_EQ(spjit::ndcg_at(3, Grades{}), 1);
}

TEST(NdcgAt, DiscountsGainsByHand) {
  // Gains 0, 1, 3: (1 / log2(3) + 3 / 2) / (3 + 1 / log2(3)).
  EXPECT_DOUBLE_EQ(spjit::ndcg_at(3, Grades{0, 1, 2}),
                   (1 / std::log2(3.0) + 1.5) / (3 + 1 / std::log2(3.0)));
  // Only the first two count, and at best they are 2 and 1.
  EXPECT_DOUBLE_EQ(spjit::ndcg_at(2, Grades{0, 1, 2}),
                   (1 / std::log2(3.0)) / (3 + 1 / std::log2(3.0)));
}

TEST(NdcgAt, TakesTheOrderOfScores) {
  EXPECT_EQ(spjit::ndcg_at(3, Values{0.1, 0.3, 0.2}, Grades{0, 1, 2}),
            spjit::ndcg_at(3, Grades{1, 2, 0}));
}

TEST(NdcgAt, RefusesWhatHasNoMeaning) {
  EXPECT_THROW(static_cast<void>(spjit::ndcg_at(0, Grades{1})), spjit::InvalidArgument);
  EXPECT_THROW(static_cast<void>(spjit::ndcg_at(1, Grades{-1})), spjit::InvalidArgument);
  EXPECT_THROW(static_cast<void>(spjit::ndcg_at(1, Grades{61})), spjit::InvalidArgument);
  EXPECT_THROW(static_cast<void>(spjit::ndcg_at(1, Values{1}, Grades{1, 2})),
               spjit::InvalidArgument);
}

TEST(RegretOfTop, IsWhatTheBestScoredCostOverTheBest) {
  const Values scores = {4, 3, 2, 1};
  const Values times = {15, 12, 10, 11};

  EXPECT_DOUBLE_EQ(spjit::regret_of_top(1, scores, times), 0.5);
  EXPECT_DOUBLE_EQ(spjit::regret_of_top(2, scores, times), 0.2);
  EXPECT_EQ(spjit::regret_of_top(3, scores, times), 0);
  EXPECT_EQ(spjit::regret_of_top(99, scores, times), 0);
}

TEST(RegretOfTop, IsInfiniteWhereNoneOfThemRuns) {
  EXPECT_EQ(spjit::regret_of_top(1, Values{2, 1}, Values{k_never, 3}), k_never);
  EXPECT_EQ(spjit::regret_of_top(2, Values{2, 1}, Values{k_never, 3}), 0);
  EXPECT_EQ(spjit::regret_of_top(1, Values{2, 1}, Values{k_never, k_never}), 0);
}

TEST(RegretOfTop, RefusesNothing) {
  EXPECT_THROW(static_cast<void>(spjit::regret_of_top(0, Values{1}, Values{1})),
               spjit::InvalidArgument);
  EXPECT_THROW(static_cast<void>(spjit::regret_of_top(1, Values{}, Values{})),
               spjit::InvalidArgument);
}

TEST(Percentiles, AreByNearestRank) {
  Values values;
  for (int i = 40; i >= 1; --i) values.push_back(i);

  const spjit::Percentiles of = spjit::percentiles(values);

  EXPECT_DOUBLE_EQ(of.mean, 20.5);
  EXPECT_EQ(of.p95, 38);  // 0.95 * 40
  EXPECT_EQ(of.worst, 40);
  EXPECT_EQ(spjit::percentiles(Values{3, 1}).p95, 3);
  EXPECT_THROW(static_cast<void>(spjit::percentiles({})), spjit::InvalidArgument);
}

}  // namespace
