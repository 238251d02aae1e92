#include "bench/model/layer_operands.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "bench/model/tests/three_layers.hpp"

namespace {

using namespace spjit;
using namespace spjit::bench;
using namespace spjit::testing_support;

TEST(LayerOperands, ALayerReadsWhatTheLatestOfItsWidthWrote) {
  LayerOperands operands(three_layers(), 5, false);

  EXPECT_EQ(operands.problem(1, 1).b, operands.problem(0, 1).c);
  EXPECT_EQ(operands.problem(2, 1).b, operands.problem(1, 1).c);
  EXPECT_NE(operands.problem(2, 1).c, operands.problem(0, 1).b);
  EXPECT_EQ(operands.problem(0, 1).dense, nullptr);
}

TEST(LayerOperands, HasTheZerosOfEveryLayerIfTheyAreWanted) {
  LayerOperands operands(three_layers(), 5, true);
  EXPECT_EQ(std::vector<float>(operands.problem(1, 1).dense, operands.problem(1, 1).dense + 900),
            dense_of(three_layers()[1].matrix));
}

}  // namespace
