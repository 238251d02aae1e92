#include "bench/lab/table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "bench/lab/tests/made_up_case.hpp"

namespace {

using namespace spjit::bench;
using spjit::testing_support::layer_case;
using testing::Contains;
using testing::HasSubstr;

TEST(RowOf, HoldsWaysAgainstTheFirstOverAllCases) {
  std::vector<Case> cases = {layer_case("layout", {{"a", 10}, {"b", 10}, {"c", 30}}),
                             layer_case("layout", {{"a", 20}, {"b", 80}, {"c", 10}})};
  cases[1].timings[2].failed = "no such layer";

  const std::vector<Cell> row = row_of(cases);

  EXPECT_EQ(row.front(), (Cell{"workload", "minilm-80"}));
  EXPECT_THAT(row, Contains(Cell{"a us", "30.00"}));
  EXPECT_THAT(row, Contains(Cell{"x b", "2.00 (1.00-4.00)"}));
  EXPECT_THAT(row, Contains(Cell{"x c", "3.00 (3.00-3.00) 1/2"}));
  EXPECT_EQ(reasons_of(cases), "  not timed: c: no such layer\n");
}

TEST(RowOf, HasNoFigureWithoutATime) {
  std::vector<Case> cases = {layer_case("layout", {{"a", 10}, {"b", 10}})};
  for (WayTiming& timing : cases[0].timings) {
    timing.failed = "wrong";
    timing.time = {};
  }
  EXPECT_THAT(row_of(cases), Contains(Cell{"a us", "-"}));
  EXPECT_THAT(row_of(cases), Contains(Cell{"x b", "-"}));
}

TEST(Table, HasAHeaderWhereColumnsChange) {
  Table table;
  EXPECT_EQ(table.add({{"workload", "one"}, {"x b", "1.00"}}),
            "workload           x b\none               1.00\n");
  EXPECT_EQ(table.add({{"workload", "two"}, {"x b", "10.00"}}), "two               10.00\n");
  EXPECT_THAT(table.add({{"workload", "two"}, {"x c", "2.00"}}), HasSubstr("x c\n"));
}

TEST(Shortened, KeepsTheEnd) {
  EXPECT_EQ(shortened("a/b/c", 5), "a/b/c");
  EXPECT_EQ(shortened("layers/of/query", 8), "...query");
}

}  // namespace
