// Groups of columns: each column once, sizes alike, as many a thread.

#include "kernels/host/layer/column_cut.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "tests/support/draw.hpp"

namespace {

using spjit::ColumnCut;
using spjit::RowRange;
using spjit::testing_support::Draw;

TEST(ColumnCut, HasEveryColumnOnceInGroupsOfWholePanels) {
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    Draw draw(seed);
    const std::int64_t n = draw.between(1, draw.chance(50) ? 100 : 3000);
    const std::int64_t panel = draw.between(1, 40);
    const std::int64_t columns = panel * draw.between(1, 20);
    const bool whole = draw.chance(50);
    const int threads = static_cast<int>(draw.between(1, 5));
    const ColumnCut cut(n, {columns, panel, whole, threads});

    std::int64_t next = 0;
    std::int64_t most = 0;
    for (std::int64_t index = 0; index < cut.groups(); ++index) {
      const RowRange group = cut.group(index);
      const std::int64_t size = group.end - group.begin;
      ASSERT_EQ(group.begin, next) << seed;
      ASSERT_EQ(group.begin % panel, 0) << seed;
      ASSERT_GE(size, whole ? std::min(n, panel) : 1) << seed;
      ASSERT_LE(size, whole ? columns + panel - 1 : columns) << seed;
      most = std::max(most, size);
      next = group.end;
    }
    ASSERT_EQ(next, n) << seed;
    ASSERT_GE(cut.most(), most) << seed;
    ASSERT_LT(cut.most(), most + panel) << seed;
  }
}

TEST(ColumnCut, GroupsAreAlikeAndAsManyAThread) {
  const ColumnCut one(784, {.columns = 256});
  const ColumnCut two(3136, {.columns = 256, .threads = 2});
  const ColumnCut few(196, {.columns = 256, .threads = 2});

  EXPECT_EQ(one.groups(), 4);
  EXPECT_EQ(one.most(), 208);  // not 256 three times and 16
  EXPECT_EQ(two.groups(), 14);
  EXPECT_EQ(two.most(), 224);
  EXPECT_EQ(few.groups(), 1);  // threads share it
}

TEST(ColumnCut, TakesTheMostColumnsThatThereCanBe) {
  constexpr std::int64_t k_most = std::numeric_limits<std::int64_t>::max() / 2;
  const ColumnCut one(std::int64_t{1} << 40, {.columns = k_most});
  const ColumnCut many(std::int64_t{1} << 40, {.columns = 16, .threads = 4096});

  EXPECT_EQ(one.groups(), 1);
  EXPECT_EQ(many.groups(), std::int64_t{1} << 36);
  EXPECT_EQ(many.group(many.groups() - 1).end, std::int64_t{1} << 40);
}

}  // namespace
