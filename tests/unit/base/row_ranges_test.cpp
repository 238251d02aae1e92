#include "base/row_ranges.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spjit {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(RowRanges, JoinNeighbours) {
  RowRanges rows;
  rows.add(3, 4);
  rows.add(4, 6);
  rows.add(7, 8);

  EXPECT_THAT(rows.ranges(), ElementsAre(RowRange{3, 6}, RowRange{7, 8}));
  EXPECT_EQ(rows.count(), 4);
}

TEST(RowRanges, ListRowsFromAnyPlace) {
  RowRanges rows;
  rows.add(3, 6);
  rows.add(7, 8);
  rows.add(10, 13);

  EXPECT_THAT(rows.list(0, 100), ElementsAre(3, 4, 5, 7, 10, 11, 12));
  EXPECT_THAT(rows.list(1, 3), ElementsAre(4, 5, 7));
  EXPECT_THAT(rows.list(3, 2), ElementsAre(7, 10));
  EXPECT_THAT(rows.list(6, 2), ElementsAre(12));
  EXPECT_THAT(rows.list(7, 2), IsEmpty());
  EXPECT_THAT(RowRanges().list(0, 2), IsEmpty());
}

TEST(RowRanges, AreCutToAWindow) {
  RowRanges rows;
  rows.add(3, 6);
  rows.add(7, 8);
  rows.add(10, 13);
  const auto within = [&](std::int64_t begin, std::int64_t end) {
    std::vector<RowRange> result;
    rows.for_each_within({begin, end}, [&](const RowRange& part) { result.push_back(part); });
    return result;
  };

  EXPECT_THAT(within(0, 20), ElementsAre(RowRange{3, 6}, RowRange{7, 8}, RowRange{10, 13}));
  EXPECT_THAT(within(4, 11), ElementsAre(RowRange{4, 6}, RowRange{7, 8}, RowRange{10, 11}));
  EXPECT_THAT(within(4, 5), ElementsAre(RowRange{4, 5}));
  EXPECT_THAT(within(6, 7), IsEmpty());
  EXPECT_THAT(within(13, 20), IsEmpty());
}

TEST(RowRanges, HoldTheRowsOfATallMatrixInOneRange) {
  RowRanges rows;
  rows.add(1, 2147483647);

  EXPECT_EQ(rows.ranges().size(), 1U);
  EXPECT_THAT(rows.list(2147483645, 9), ElementsAre(2147483646));
}

}  // namespace
}  // namespace spjit
