#include "rankmodel/training/lambda_gradients.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace {

using spjit::Gradients;
using spjit::lambda_gradients;

TEST(LambdaGradients, PushApartTwoTilesByHand) {
  // Gains 0 and 1; the better is second: d = 1 * (1 - 1 / log2(3)) / 1, p = 1 / (1 + e^(0 - 1)).
  const double d = 1 - 1 / std::log2(3.0);
  const double p = 1 / (1 + std::exp(-1.0));
  const double scale = std::log2(1 + 2 * d * p) / (2 * d * p);

  const Gradients of = lambda_gradients(10, std::vector<float>{1, 0}, std::vector<int>{0, 1});

  ASSERT_EQ(of.first.size(), 2U);
  EXPECT_NEAR(of.first[0], scale * d * p, 1e-6);
  EXPECT_NEAR(of.first[1], -scale * d * p, 1e-6);
  EXPECT_NEAR(of.second[0], scale * d * p * (1 - p), 1e-6);
  EXPECT_NEAR(of.second[1], scale * d * p * (1 - p), 1e-6);
}

TEST(LambdaGradients, LeaveAlonePairsBehindTheFirst) {
  // With k = 1 only pairs with the first count; it is the best, so it pulls away from each.
  const Gradients of = lambda_gradients(1, std::vector<float>{3, 2, 1}, std::vector<int>{2, 0, 1});

  EXPECT_LT(of.first[0], 0);
  EXPECT_GT(of.first[1], 0);
  EXPECT_GT(of.first[2], 0);
  // The grade-1 tile behind gets less of a push than the grade-0 one only by its gain and score:
  // (3 - 0) / (1 + e^1) against (3 - 1) / (1 + e^2).
  EXPECT_NEAR(of.first[1] / of.first[2], 3 / (1 + std::exp(1.0)) / (2 / (1 + std::exp(2.0))), 1e-5);
}

TEST(LambdaGradients, SumUpToNothing) {
  const std::vector<float> scores = {0.3F, 0.1F, 0.7F, 0.1F, -2};
  const std::vector<int> grades = {1, 5, 0, 5, 15};

  const Gradients of = lambda_gradients(2, scores, grades);

  EXPECT_NEAR(std::accumulate(of.first.begin(), of.first.end(), 0.0), 0, 1e-6);
  for (const float second : of.second) EXPECT_GT(second, 0);
}

TEST(LambdaGradients, AreNoneWhereAllTilesAreEqual) {
  const Gradients of = lambda_gradients(10, std::vector<float>{2, 1}, std::vector<int>{3, 3});

  EXPECT_EQ(of.first, (std::vector<float>{0, 0}));
}

}  // namespace
