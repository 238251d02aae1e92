#include "bench/gpu/fetch_fit.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace {

using namespace spjit::bench;

TEST(FetchFit, FindsWhatFallsAsN1Grows) {
  // 10 us, and 640 us columns: 20 us at N1 = 32.
  const std::vector<N1Time> times = {{32, 30}, {64, 20}, {128, 15}, {256, 12.5}};

  const auto fit = fit_fetch(times);

  ASSERT_TRUE(fit);
  EXPECT_NEAR(fit->other_us, 10, 1e-9);
  EXPECT_NEAR(fit->fetch_us_columns, 640, 1e-9);
  EXPECT_NEAR(fit->relative_error, 0, 1e-9);
  EXPECT_NEAR(fit->share_at(32), 2.0 / 3, 1e-9);
  EXPECT_NEAR(fit->share_at(128), 1.0 / 3, 1e-9);
}

TEST(FetchFit, HasNoNegativePart) {
  const auto rising = fit_fetch(std::vector<N1Time>{{32, 10}, {64, 11}, {128, 12}});
  const auto steep = fit_fetch(std::vector<N1Time>{{32, 100}, {64, 30}, {128, 5}});

  ASSERT_TRUE(rising && steep);
  EXPECT_EQ(rising->share_at(32), 0);
  EXPECT_EQ(rising->other_us, 11);
  EXPECT_GT(rising->relative_error, 0.05);
  EXPECT_EQ(steep->other_us, 0);
  EXPECT_EQ(steep->share_at(256), 1);
}

TEST(FetchFit, SaysNothingOfTooFewOrWrongTimes) {
  EXPECT_FALSE(fit_fetch({}));
  EXPECT_FALSE(fit_fetch(std::vector<N1Time>{{32, 30}, {64, 20}, {64, 21}}));
  EXPECT_FALSE(fit_fetch(std::vector<N1Time>{{32, 30}, {64, 20}, {128, 0}}));
  EXPECT_FALSE(fit_fetch(std::vector<N1Time>{{0, 30}, {64, 20}, {128, 10}}));
}

}  // namespace
