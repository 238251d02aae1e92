#include "bench/rank_agreement.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "spjit/error.hpp"

namespace {

using spjit::bench::kendall_tau;
using Values = std::vector<double>;

TEST(KendallTau, IsOneForTheSameOrderAndMinusOneForTheReverse) {
  EXPECT_EQ(kendall_tau(Values{1, 2, 3, 4}, Values{10, 20, 30, 40}), 1);
  EXPECT_EQ(kendall_tau(Values{1, 2, 3, 4}, Values{9, 7, 5, 3}), -1);
}

TEST(KendallTau, CountsPairsByHand) {
  // One of six pairs is swapped: (5 - 1) / 6.
  EXPECT_DOUBLE_EQ(kendall_tau(Values{1, 2, 3, 4}, Values{1, 3, 2, 4}), 4.0 / 6);
  // A tie is neither: (5 - 0) / 6.
  EXPECT_DOUBLE_EQ(kendall_tau(Values{1, 2, 2, 4}, Values{1, 3, 2, 4}), 5.0 / 6);
}

TEST(KendallTau, IsZeroWhereThereIsNoPair) {
  EXPECT_EQ(kendall_tau(Values{}, Values{}), 0);
  EXPECT_EQ(kendall_tau(Values{3}, Values{4}), 0);
}

TEST(KendallTau, RefusesDifferentLengths) {
  EXPECT_THROW(static_cast<void>(kendall_tau(Values{1, 2}, Values{1})), spjit::InvalidArgument);
}

TEST(OrderedPairAccuracy, CountsPairsByHand) {
  EXPECT_EQ(spjit::bench::ordered_pair_accuracy(Values{3, 2, 1}, Values{10, 20, 30}), 1);
  EXPECT_EQ(spjit::bench::ordered_pair_accuracy(Values{1, 2, 3}, Values{10, 20, 30}), 0);
  // Of three pairs one has equal scores, and orders nothing.
  EXPECT_DOUBLE_EQ(spjit::bench::ordered_pair_accuracy(Values{2, 2, 1}, Values{10, 20, 30}),
                   2.0 / 3);
  // The pair of equal times is none: one pair of two is right.
  EXPECT_DOUBLE_EQ(spjit::bench::ordered_pair_accuracy(Values{1, 3, 2}, Values{10, 10, 30}), 0.5);
  EXPECT_EQ(spjit::bench::ordered_pair_accuracy(Values{1, 2}, Values{5, 5}), 1);
}

}  // namespace
