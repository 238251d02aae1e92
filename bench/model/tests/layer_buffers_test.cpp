#include "bench/model/layer_buffers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "base/arithmetic.hpp"
#include "bench/model/tests/three_layers.hpp"

namespace {

using namespace spjit;
using namespace spjit::bench;
using namespace spjit::testing_support;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

/// Every layer's product, plus `row` of each row.
void compute(const std::vector<NetworkLayer>& layers, LayerBuffers& buffers, float row_term = 0) {
  const TokenShape& shape = buffers.shape();
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const CsrMatrix& a = layers[i].matrix;
    for (std::int64_t row = 0; row < a.rows; ++row) {
      for (std::int64_t token = 0; token < shape.n; ++token) {
        float sum = row_term * static_cast<float>(row);
        for (auto at = a.row_ptrs[to_size(row)]; at < a.row_ptrs[to_size(row + 1)]; ++at) {
          sum += a.values[to_size(at)] *
                 buffers.input(i)[shape.offset(a.cols, a.col_idxs[to_size(at)], token)];
        }
        buffers.output(i)[shape.offset(a.rows, row, token)] = sum;
      }
    }
  }
}

/// The first layer that is wrong.
std::string check_layers(const std::vector<NetworkLayer>& layers, const LayerBuffers& buffers,
                         const LayerCheck& check) {
  for (std::size_t i = 0; i < layers.size(); ++i) {
    std::string found = check_layer(layers, i, buffers, check);
    if (!found.empty()) return found;
  }
  return {};
}

const std::vector<TokenShape> k_shapes = {
    {40}, {40, Layout::tokens_major}, {40, Layout::row_major, 2}, {40, Layout::tokens_major, 2}};

TEST(TokenShape, HasAPlaceForEachElement) {
  for (const TokenShape& shape : k_shapes) {
    std::set<std::int64_t> places;
    for (std::int64_t feature = 0; feature < 3; ++feature) {
      for (std::int64_t token = 0; token < 40; ++token) {
        places.insert(shape.offset(3, feature, token));
      }
    }
    EXPECT_EQ(places.size(), 120U);
    EXPECT_EQ(*places.begin(), 0);
    EXPECT_EQ(*places.rbegin(), 119);
  }
}

TEST(TokenShape, PutsProductsAfterEachOther) {
  EXPECT_EQ((TokenShape{40, Layout::row_major, 2}.offset(3, 1, 25)), 60 + 20 + 5);
  EXPECT_EQ((TokenShape{40, Layout::row_major}.offset(3, 1, 25)), 40 + 25);
  EXPECT_EQ((TokenShape{40, Layout::tokens_major, 2}.offset(3, 1, 25)), 75 + 1);
}

TEST(LayerBuffers, ALayerReadsWhatTheLatestOfItsWidthWrote) {
  LayerBuffers buffers(three_layers(), {5});

  EXPECT_EQ(buffers.input(1), std::as_const(buffers).output(0));
  EXPECT_EQ(buffers.input(2), std::as_const(buffers).output(1));
  EXPECT_NE(buffers.output(2), buffers.input(0));
}

TEST(LayerBuffers, InputsHaveTheSameValuesInEveryLayout) {
  const LayerBuffers rows(three_layers(), k_shapes.front());
  for (const TokenShape& shape : k_shapes) {
    const LayerBuffers buffers(three_layers(), shape);
    for (std::int64_t feature = 0; feature < 20; ++feature) {
      for (std::int64_t token = 0; token < 40; ++token) {
        ASSERT_EQ(buffers.input(0)[shape.offset(20, feature, token)],
                  rows.input(0)[feature * 40 + token]);
      }
    }
  }
}

TEST(CheckLayers, TakesProductsInEveryLayout) {
  const std::vector<NetworkLayer> layers = three_layers();
  for (const TokenShape& shape : k_shapes) {
    LayerBuffers buffers(layers, shape);
    buffers.spoil();
    compute(layers, buffers);
    EXPECT_EQ(check_layers(layers, buffers, {}), "");
  }
}

TEST(CheckLayers, SaysWhichElementIsOffOrWasNotWritten) {
  const std::vector<NetworkLayer> layers = three_layers();
  const TokenShape shape{40, Layout::row_major, 2};
  LayerBuffers buffers(layers, shape);
  compute(layers, buffers);
  // The last of the first product.
  float& element = buffers.output(2)[shape.offset(20, 7, 19)];
  element += 0.001F;
  EXPECT_THAT(check_layers(layers, buffers, {}), StartsWith("wrong: layer 2 (down): C[7][19]"));

  buffers.spoil();

  EXPECT_THAT(check_layers(layers, buffers, {}),
              AllOf(StartsWith("wrong: layer 0 (up): C[0][0]"), HasSubstr("inf")));
}

TEST(CheckLayers, FinishesWhatIsExpected) {
  const std::vector<NetworkLayer> layers = three_layers();
  LayerBuffers buffers(layers, {5});
  compute(layers, buffers, 0.5F);
  const auto finish = [](std::int64_t row, ExpectedElement sum) {
    return ExpectedElement{sum.value + 0.5 * static_cast<double>(row), 1e-4};
  };

  EXPECT_EQ(check_layers(layers, buffers, {1, finish}), "");
  EXPECT_THAT(check_layers(layers, buffers, {}), StartsWith("wrong"));
}

TEST(CompareBits, FindsThemWhereverTheyLie) {
  const std::vector<NetworkLayer> layers = three_layers();
  LayerBuffers rows(layers, {40});
  LayerBuffers tokens(layers, {40, Layout::tokens_major});
  compute(layers, rows);
  compute(layers, tokens);
  EXPECT_EQ(compare_bits(layers, tokens, rows), "");

  tokens.output(1)[25 * 30 + 3] = -tokens.output(1)[25 * 30 + 3];

  EXPECT_THAT(compare_bits(layers, tokens, rows), StartsWith("wrong: layer 1 (square): C[3][25]"));
}

TEST(CompareBits, KnowsTheSignOfZero) {
  const std::vector<NetworkLayer> layers = {{"no entries", {2, 3, {0, 0, 0}, {}, {}}}};
  LayerBuffers some(layers, {4});
  const LayerBuffers others(layers, {4});
  some.output(0)[5] = -0.0F;
  EXPECT_THAT(compare_bits(layers, some, others), HasSubstr("C[1][1] is -0"));
}

}  // namespace
