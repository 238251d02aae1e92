#include "bench/gpu/tile_way.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "spjit/error.hpp"
#include "spjit/generate.hpp"

namespace {

using namespace spjit::bench;
using testing::ElementsAre;

TEST(TileWay, ASampleHasTheFirstAndTheLast) {
  const std::vector<int> all = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};

  EXPECT_THAT(spread_sample(all, 4), ElementsAre(0, 3, 6, 9));
  EXPECT_THAT(spread_sample(all, 1), ElementsAre(0));
  EXPECT_EQ(spread_sample(all, 0), all);
  EXPECT_EQ(spread_sample(all, 10), all);
}

TEST(TileWay, OfAnUnknownNameIsRefused) {
  spjit::Problem problem;
  problem.a = spjit::generate_matrix({});
  problem.n = 32;

  EXPECT_THROW(static_cast<void>(run_tile_way(problem, {.way = "fastest"})),
               spjit::InvalidArgument);
}

}  // namespace
