#include "runtime/packing.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <vector>

#include "tests/support/spmm_testing.hpp"

namespace {

using spjit::PanelLayout;
using spjit::testing_support::dense_values;
using spjit::testing_support::GuardedFloats;
using spjit::testing_support::index;

TEST(PanelLayout, CountsPanelsAndKeepsASpareLineBetweenThem) {
  const PanelLayout layout{10, 33, 16};

  EXPECT_EQ(layout.panels(), 3);
  EXPECT_EQ(layout.stride(), 10 * 16 + 16);
  EXPECT_EQ(layout.size(), 3 * layout.stride());
}

TEST(PanelLayout, AFullLastPanelIsNotCountedTwice) {
  EXPECT_EQ((PanelLayout{10, 32, 16}).panels(), 2);
  EXPECT_EQ((PanelLayout{0, 1, 16}).panels(), 1);
}

/// Every width a kernel has, each with a tail and without.
TEST(Packing, CopiesColumnsAndPadsWithZeros) {
  constexpr std::int64_t k_rows = 13;
  for (const std::int64_t width : {4, 8, 12, 16, 32, 48, 128}) {
    for (const std::int64_t n : {width - 1, width, width + 1, 3 * width, 3 * width + 2}) {
      const std::int64_t ld = n + 5;
      const PanelLayout layout{k_rows, n, width};
      const std::vector<float> dense = dense_values(k_rows * ld);
      for (std::int64_t panel = 0; panel < layout.panels(); ++panel) {
        std::vector<float> packed(index(layout.stride()), -7.0F);

        spjit::pack_panel(layout, panel, {dense.data(), ld}, packed.data());

        for (std::int64_t i = 0; i < layout.stride(); ++i) {
          const std::int64_t row = i / width;
          const std::int64_t column = panel * width + i % width;
          const float expected = row >= k_rows ? -7.0F
                                 : column < n  ? dense[index(row * ld + column)]
                                               : 0.0F;
          ASSERT_EQ(std::bit_cast<std::uint32_t>(packed[index(i)]),
                    std::bit_cast<std::uint32_t>(expected))
              << "width " << width << " n " << n << " panel " << panel << " float " << i;
        }
      }
    }
  }
}

TEST(Packing, ReadsAndWritesNothingBeyondTheArrays) {
  constexpr std::int64_t k_rows = 40;  // more than the rows that are asked for ahead
  for (const std::int64_t n : {1, 15, 16, 17, 48, 50}) {
    const PanelLayout layout{k_rows, n, 16};
    GuardedFloats dense(k_rows * n);
    const auto last = layout.panels() - 1;
    GuardedFloats packed(k_rows * layout.width);

    spjit::pack_panel(layout, last, {dense.data(), n}, packed.data());

    EXPECT_TRUE(packed.intact());
    EXPECT_EQ(packed.span().back(), 0.0F);
  }
}

TEST(Packing, NoRowsCopyNothing) {
  const PanelLayout layout{0, 20, 16};
  float untouched = -7.0F;

  spjit::pack_panel(layout, 1, {nullptr, 20}, &untouched);

  EXPECT_EQ(untouched, -7.0F);
}

}  // namespace
