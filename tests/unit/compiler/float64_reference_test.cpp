#include "compiler/float64_reference.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <stop_token>
#include <vector>

#include "spjit/error.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

constexpr float k_infinity = std::numeric_limits<float>::infinity();
constexpr float k_nan = std::numeric_limits<float>::quiet_NaN();
constexpr double k_hopeless = std::numeric_limits<double>::infinity();

std::vector<std::int64_t> numbers_of(const EvenSpread& spread) {
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = 0; i < spread.count; ++i) numbers.push_back(spread.at(i));
  return numbers;
}

std::vector<std::int64_t> rows_of(const ReferenceSample& sample) {
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < sample.row_count(); ++i) rows.push_back(sample.row(i));
  return rows;
}

/// 100 rows of one entry each, but row 38 has 10.
CsrMatrix with_a_full_row() {
  CsrMatrix matrix{100, 10, {0}, {}, {}};
  for (std::int64_t row = 0; row < 100; ++row) {
    for (std::int32_t col = 0; col < (row == 38 ? 10 : 1); ++col) {
      matrix.col_idxs.push_back(col);
      matrix.values.push_back(1);
    }
    matrix.row_ptrs.push_back(static_cast<std::int64_t>(matrix.values.size()));
  }
  return matrix;
}

TEST(EvenSpread, HasBothEndsAndEvenDistances) {
  EXPECT_EQ(numbers_of({10, 4}), (std::vector<std::int64_t>{0, 3, 6, 9}));
  EXPECT_EQ(numbers_of({10, 2}), (std::vector<std::int64_t>{0, 9}));
  EXPECT_EQ(numbers_of({10, 1}), (std::vector<std::int64_t>{0}));
  EXPECT_EQ(numbers_of({0, 0}), std::vector<std::int64_t>());
  EXPECT_EQ((EvenSpread{2147483647, 2147483647}.at(2147483645)), 2147483645);
}

TEST(EvenSpread, IsEveryNumberIfThereAreSoMany) {
  for (const std::int64_t size : {1, 2, 7, 1000}) {
    for (std::int64_t i = 0; i < size; ++i) EXPECT_EQ((EvenSpread{size, size}.at(i)), i);
  }
}

TEST(EvenSpread, KnowsWhatItContains) {
  const EvenSpread spread{100, 7};
  const std::vector<std::int64_t> numbers = numbers_of(spread);
  const std::set<std::int64_t> known(numbers.begin(), numbers.end());

  for (std::int64_t i = 0; i < 100; ++i) EXPECT_EQ(spread.contains(i), known.contains(i)) << i;
}

TEST(ReferenceSample, IsAllOfCWhereThatIsAffordable) {
  const CsrMatrix matrix = with_a_full_row();  // 109 entries

  const ReferenceSample affordable = choose_sample(matrix, 50, 109 * 50);
  const ReferenceSample whole = whole_sample(matrix, 50);

  for (const ReferenceSample& sample : {affordable, whole}) {
    EXPECT_EQ(sample.row_count(), 100);
    EXPECT_EQ(sample.columns.count, 50);
    EXPECT_FALSE(sample.fullest_row);
  }
  EXPECT_LT(choose_sample(matrix, 50, 109 * 50 - 1).columns.count, 50);
}

TEST(ReferenceSample, LeavesOutColumnsFirstAndThenRowsButNotTheFullest) {
  const CsrMatrix matrix = with_a_full_row();

  const ReferenceSample fewer_columns = choose_sample(matrix, 50, 109 * 20);
  const ReferenceSample fewer_rows = choose_sample(matrix, 50, 109 * 4);

  EXPECT_EQ(fewer_columns.row_count(), 100);
  EXPECT_EQ(fewer_columns.columns.count, 20);
  EXPECT_EQ(fewer_columns.columns.at(19), 49);
  EXPECT_EQ(fewer_rows.columns.count, 16);
  EXPECT_EQ(fewer_rows.row_count(), 25 + 1);  // a quarter of the rows at 16 columns
  EXPECT_EQ(rows_of(fewer_rows).back(), 38);
  EXPECT_EQ(fewer_rows.row(24), 99);
}

TEST(ReferenceSample, NamesTheFullestRowOnlyOnce) {
  CsrMatrix matrix = with_a_full_row();
  matrix.row_ptrs.assign(101, 0);
  for (std::size_t row = 1; row <= 100; ++row) {
    matrix.row_ptrs[row] = matrix.row_ptrs[row - 1] + (row == 1 ? 10 : 1);
  }

  const ReferenceSample sample = choose_sample(matrix, 50, 1);

  EXPECT_EQ(rows_of(sample), (std::vector<std::int64_t>{0, 99}));
}

TEST(ReferenceSample, HasTwoRowsAndAllOfAFewColumnsAtLeast) {
  const ReferenceSample sample = choose_sample(with_a_full_row(), 3, 1);

  EXPECT_EQ(rows_of(sample), (std::vector<std::int64_t>{0, 99, 38}));
  EXPECT_EQ(sample.columns.count, 3);
}

TEST(ReferenceSample, OfAMatrixWithoutRowsOrEntriesIsAllOfC) {
  EXPECT_EQ(choose_sample({0, 5, {0}, {}, {}}, 3, 1).row_count(), 0);
  EXPECT_EQ(choose_sample({4, 5, {0, 0, 0, 0, 0}, {}, {}}, 3, 3).row_count(), 4);
}

TEST(ErrorBound, IsHighamsGammaTimesTheMagnitude) {
  const double u = 0x1p-24;

  EXPECT_EQ(error_bound(0, 0), 0);
  EXPECT_DOUBLE_EQ(error_bound(1, 8), 8 * u / (1 - u));
  EXPECT_DOUBLE_EQ(error_bound(1000, 8), 8 * 1000 * u / (1 - 1000 * u));
}

TEST(ErrorBound, LetsEachProductLoseHalfOfTheSmallestNumber) {
  EXPECT_EQ(error_bound(3, 0), 3 * static_cast<double>(std::numeric_limits<float>::denorm_min()));
}

TEST(ErrorBound, GrowsWithTheProductsHoweverManyThereAre) {
  double last = 0;
  for (std::int64_t products = 1; products < std::int64_t{1} << 40; products *= 2) {
    EXPECT_GT(error_bound(products, 1), last) << products;
    last = error_bound(products, 1);
    EXPECT_TRUE(std::isfinite(last));
  }
}

TEST(Judge, GivesTheErrorAsAShareOfItsBound) {
  const Reference reference{.value = 1, .bound = 0x1p-20};

  EXPECT_EQ(judge(1, reference), 0);
  EXPECT_EQ(judge(1 + 0x1p-21F, reference), 0.5);
  EXPECT_EQ(judge(1 - 0x1p-20F, reference), 1);  // at the bound
  EXPECT_GT(judge(std::nextafter(1 + 0x1p-20F, 2.0F), reference), 1);
  EXPECT_EQ(judge(3, reference), 2 * 0x1p20);
}

TEST(Judge, AllowsNothingWhereThereIsNothingToLose) {
  EXPECT_EQ(judge(0, {}), 0);
  EXPECT_EQ(judge(std::numeric_limits<float>::denorm_min(), {}), k_hopeless);
}

TEST(Judge, TakesNoNanAndNoInfinityForAFiniteNumber) {
  const Reference reference{.value = 1, .bound = 1};

  for (const float value : {k_nan, k_infinity, -k_infinity}) {
    EXPECT_EQ(judge(value, reference), k_hopeless);
  }
}

TEST(Judge, TakesThemWherePartialSumsMayOverflowAndStillJudgesNumbers) {
  const Reference reference{.value = 1, .bound = 0x1p-3, .may_overflow = true};

  for (const float value : {k_nan, k_infinity, -k_infinity}) EXPECT_EQ(judge(value, reference), 0);
  EXPECT_EQ(judge(1.25F, reference), 2);
}

TEST(Judge, WantsTheInfinityOrNanOfTheReference) {
  const Reference plus{.value = k_hopeless, .bound = k_hopeless};
  const Reference minus{.value = -k_hopeless, .bound = k_hopeless};
  const Reference nan{.value = std::nan(""), .bound = k_hopeless};

  EXPECT_EQ(judge(k_infinity, plus), 0);
  EXPECT_EQ(judge(k_nan, plus), 0);
  EXPECT_EQ(judge(-k_infinity, plus), k_hopeless);
  EXPECT_EQ(judge(1, plus), k_hopeless);
  EXPECT_EQ(judge(-k_infinity, minus), 0);
  EXPECT_EQ(judge(k_infinity, minus), k_hopeless);
  EXPECT_EQ(judge(k_nan, nan), 0);
  EXPECT_EQ(judge(k_infinity, nan), k_hopeless);
  EXPECT_EQ(judge(1, nan), k_hopeless);
}

TEST(ReferenceRows, AddUpARowInFloat64AtTheColumnsAskedFor) {
  const CsrMatrix matrix = small_matrix();  // row 0 is 1 at column 0 and 2 at column 3
  const Cancellation none;
  CancelPace pace(none);
  std::vector<float> b(5 * 7, -1000);  // 4 columns, 7 floats apart
  for (std::size_t row = 0; row < 5; ++row) {
    for (std::size_t j = 0; j < 4; ++j) b[row * 7 + j] = static_cast<float>(row * 10 + j) - 20;
  }
  ReferenceRows rows(matrix, b.data(), {{.ld = 7}}, {4, 2});

  const auto first = rows.row(0, pace);

  ASSERT_EQ(first.size(), 2U);
  EXPECT_EQ(first[0].value, 1 * -20 + 2 * 10);
  EXPECT_EQ(first[1].value, 1 * -17 + 2 * 13);
  EXPECT_EQ(first[0].bound, error_bound(2, 20 + 20));
  EXPECT_EQ(first[1].bound, error_bound(2, 17 + 26));
  EXPECT_FALSE(first[0].may_overflow);
  const auto empty = rows.row(1, pace);
  EXPECT_EQ(empty[0].value, 0);
  EXPECT_EQ(empty[0].bound, 0);
}

TEST(ReferenceRows, SayWhereAPartialSumMayOverflowThoughTheSumDoesNot) {
  const CsrMatrix matrix{1, 3, {0, 3}, {0, 1, 2}, {3e38F, 3e38F, -3e38F}};
  const Cancellation none;
  CancelPace pace(none);
  const std::vector<float> b(3, 1);
  ReferenceRows rows(matrix, b.data(), {{.ld = 1}}, {1, 1});

  const auto row = rows.row(0, pace);

  EXPECT_LT(row[0].value, 3.1e38);
  EXPECT_TRUE(row[0].may_overflow);
}

TEST(ReferenceRows, AreGivenUpWithinALongRow) {
  constexpr std::int32_t k_entries = 1 << 20;
  CsrMatrix matrix{1, k_entries, {0, k_entries}, {}, std::vector<float>(k_entries, 1)};
  for (std::int32_t col = 0; col < k_entries; ++col) matrix.col_idxs.push_back(col);
  std::stop_source stop;
  stop.request_stop();
  Cancellation stopped;
  stopped.stop = stop.get_token();
  CancelPace pace(stopped);
  ReferenceRows rows(matrix, matrix.values.data(), {{.ld = 1}}, {1, 1});

  EXPECT_THROW(static_cast<void>(rows.row(0, pace)), Cancelled);
}

TEST(ReferenceSample, IsGivenUpWhileTheFullestRowIsLookedFor) {
  std::stop_source stop;
  stop.request_stop();
  Cancellation stopped;
  stopped.stop = stop.get_token();

  EXPECT_THROW(static_cast<void>(choose_sample(with_a_full_row(), 3, 1, stopped)), Cancelled);
}

}  // namespace
