#include "matrix/rows_of_b.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <stop_token>
#include <vector>

#include "spjit/error.hpp"

namespace {

using spjit::RowRange;
using Columns = std::vector<std::int32_t>;
using Ranges = std::vector<RowRange>;

Ranges rows_of_b(const Columns& columns, std::int64_t cols) {
  const spjit::RowRanges rows = spjit::rows_of_b(columns, cols);
  return {rows.ranges().begin(), rows.ranges().end()};
}

TEST(RowsOfB, AreAllRowsOfANarrowMatrix) {
  EXPECT_EQ(rows_of_b(Columns{700, 3, 700}, 1000), (Ranges{{0, 1000}}));
}

TEST(RowsOfB, AreWholeBlocksThatHaveEntries) {
  EXPECT_EQ(rows_of_b(Columns{5000, 1023, 4096}, 10'000), (Ranges{{0, 1024}, {4096, 5120}}));
}

TEST(RowsOfB, AreOneRangeWhereBlocksTouch) {
  EXPECT_EQ(rows_of_b(Columns{1024, 2048, 0}, 10'000), (Ranges{{0, 3072}}));
}

TEST(RowsOfB, EndAtTheLastRow) {
  constexpr std::int32_t k_last = 2147483646;
  EXPECT_EQ(rows_of_b(Columns{k_last}, std::int64_t{k_last} + 1),
            (Ranges{{2147482624, std::int64_t{k_last} + 1}}));
}

TEST(RowsOfB, AreGivenUpWhenToldTo) {
  std::stop_source stop;
  stop.request_stop();
  spjit::Cancellation stopped;
  stopped.stop = stop.get_token();

  EXPECT_THROW(static_cast<void>(spjit::rows_of_b(Columns{3}, 1000, stopped)), spjit::Cancelled);
}

TEST(RowsOfB, AreNoneWithoutEntries) {
  EXPECT_TRUE(rows_of_b(Columns{}, 5000).empty());
  EXPECT_TRUE(rows_of_b(Columns{}, 0).empty());
}

}  // namespace
