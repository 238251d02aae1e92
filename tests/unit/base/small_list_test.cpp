#include "base/small_list.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace spjit {
namespace {

TEST(SmallList, HoldsValuesInTheirOrder) {
  SmallList<int, 3> list = {1, 2};
  list.push_back(3);

  EXPECT_EQ(std::vector<int>(list.begin(), list.end()), (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(list.size(), 3U);
  EXPECT_EQ(list.back(), 3);
  EXPECT_EQ(list[1], 2);
}

TEST(SmallList, IsEmptyAtFirst) {
  const SmallList<int, 3> list;

  EXPECT_TRUE(list.empty());
  EXPECT_EQ(list.begin(), list.end());
}

TEST(SmallList, RefusesOneTooMany) {
  SmallList<int, 2> list = {1, 2};

  EXPECT_THROW(list.push_back(3), Error);
  EXPECT_EQ(list.size(), 2U);
}

}  // namespace
}  // namespace spjit
