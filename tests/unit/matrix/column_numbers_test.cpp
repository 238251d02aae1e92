// Columns as numbers that follow the entries, not the width.

#include "matrix/column_numbers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <stop_token>
#include <vector>

#include "matrix/random.hpp"

namespace spjit {
namespace {

using testing::ElementsAre;

constexpr std::int64_t k_widest = 2147483647;

std::vector<std::int32_t> random_columns(std::int64_t count, std::int64_t cols) {
  std::vector<std::int32_t> columns;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t hash = split_mix(static_cast<std::uint64_t>(i));
    columns.push_back(static_cast<std::int32_t>(hash % static_cast<std::uint64_t>(cols)));
  }
  return columns;
}

std::vector<std::int32_t> expected_numbers(const std::vector<std::int32_t>& columns) {
  std::vector<std::int32_t> used = columns;
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  std::vector<std::int32_t> numbers;
  for (const std::int32_t column : columns) {
    const auto place = std::lower_bound(used.begin(), used.end(), column) - used.begin();
    numbers.push_back(static_cast<std::int32_t>(place));
  }
  return numbers;
}

Cancellation stopped() {
  std::stop_source stop;
  stop.request_stop();
  return {.deadline = {}, .stop = stop.get_token()};
}

TEST(NumberUsedColumns, GivesEachItsPlaceAmongThoseThatOccur) {
  for (const std::int64_t cols : {std::int64_t{40}, std::int64_t{8000}, std::int64_t{8001},
                                  std::int64_t{5'000'000}, k_widest}) {
    SCOPED_TRACE(cols);
    const std::vector<std::int32_t> columns = random_columns(1000, cols);
    std::vector<std::int32_t> numbers = columns;

    const std::int64_t used = number_used_columns(numbers, cols);

    EXPECT_EQ(numbers, expected_numbers(columns));
    EXPECT_EQ(used, *std::ranges::max_element(numbers) + 1);
  }
}

TEST(NumberUsedColumns, TakesTheLastColumnOfTheWidestMatrixAndNoneAtAll) {
  std::vector<std::int32_t> far = {2147483646, 0, 2147483646, 2048, 4194304};
  std::vector<std::int32_t> none;

  EXPECT_EQ(number_used_columns(far, k_widest), 4);
  EXPECT_EQ(number_used_columns(none, k_widest), 0);

  EXPECT_THAT(far, ElementsAre(3, 0, 3, 1, 2));
}

TEST(OrderByColumn, KeepsTheOrderOfEqualColumns) {
  const std::vector<std::int32_t> columns = {7, 2147483646, 7, 0, 2147483646, 2055, 7};

  EXPECT_THAT(order_by_column(columns), ElementsAre(3, 0, 2, 6, 5, 1, 4));
}

TEST(ColumnNumbers, AreTheColumnsWhereThoseAreFew) {
  const std::vector<std::int32_t> columns = {5, 31, 0, 5};

  const ColumnNumbers numbers(columns, 32);

  EXPECT_EQ(numbers.count(), 32);
  EXPECT_EQ(numbers.of_entries().data(), columns.data());
}

TEST(ColumnNumbers, FollowTheEntriesWhereTheMatrixIsWide) {
  const std::vector<std::int32_t> columns = {5, 31, 0, 5};

  const ColumnNumbers numbers(columns, 33);

  EXPECT_EQ(numbers.count(), 3);
  EXPECT_THAT(numbers.of_entries(), ElementsAre(1, 2, 0, 1));
}

TEST(ColumnNumbers, AreGivenUpWhenTheyAreCancelled) {
  std::vector<std::int32_t> columns = {5, 31, 0, 5};

  EXPECT_THROW(number_used_columns(columns, 32, stopped()), Cancelled);
  EXPECT_THROW(number_used_columns(columns, k_widest, stopped()), Cancelled);
  EXPECT_THROW(static_cast<void>(order_by_column(columns, stopped())), Cancelled);
}

}  // namespace
}  // namespace spjit
