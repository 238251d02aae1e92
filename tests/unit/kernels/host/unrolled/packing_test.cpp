#include "kernels/host/operands/packing.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/support/spmm_testing.hpp"

namespace {

using spjit::PanelLayout;
using spjit::RowRange;
using spjit::testing_support::dense_values;
using spjit::testing_support::Guarded;
using spjit::testing_support::GuardedFloats;
using spjit::testing_support::GuardPlacement;
using spjit::testing_support::index;
using spjit::testing_support::k_placements;
using spjit::testing_support::same_bits;

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

constexpr float k_unwritten_place = -7.0F;

/// What panels [begin, end) must be, floats nobody writes at k_unwritten_place.
std::vector<float> expected_panels(const PanelLayout& layout, spjit::PanelRange panels,
                                   spjit::DenseSource source) {
  std::vector<float> expected(index((panels.end - panels.begin) * layout.stride()),
                              k_unwritten_place);
  for (std::int64_t panel = panels.begin; panel < panels.end; ++panel) {
    float* const to = expected.data() + (panel - panels.begin) * layout.stride();
    for (std::int64_t i = 0; i < layout.rows * layout.width; ++i) {
      const std::int64_t row = i / layout.width;
      const std::int64_t column = panel * layout.width + i % layout.width;
      to[i] = column < layout.n ? source.data[row * source.ld + column] : 0.0F;
    }
  }
  return expected;
}

/// Every width a kernel has, each with a tail and without, panels alone and together.
TEST(Packing, CopiesColumnsAndPadsWithZeros) {
  constexpr std::int64_t k_rows = 13;
  const std::vector<RowRange> all_rows = {{0, k_rows}};
  for (const std::int64_t width : {4, 8, 12, 16, 32, 48, 128}) {
    for (const std::int64_t n : {width - 1, width, width + 1, 3 * width, 3 * width + 2}) {
      const std::int64_t ld = n + 5;
      const PanelLayout layout{k_rows, n, width};
      const std::vector<float> dense = dense_values(k_rows * ld);
      for (std::int64_t begin = 0; begin < layout.panels(); ++begin) {
        for (std::int64_t end = begin + 1; end <= layout.panels(); ++end) {
          for (const GuardPlacement placement : k_placements) {
            const GuardedFloats packed((end - begin) * layout.stride(), placement);
            std::ranges::fill(packed.span(), k_unwritten_place);

            spjit::pack_panels(layout, {begin, end}, {dense.data(), ld}, all_rows, packed.data());

            ASSERT_TRUE(
                same_bits(packed.span(), expected_panels(layout, {begin, end}, {dense.data(), ld})))
                << "width " << width << " n " << n << " panels " << begin << " to " << end;
            ASSERT_TRUE(packed.intact());
          }
        }
      }
    }
  }
}

TEST(Packing, ReadsAndWritesNothingBeyondTheArrays) {
  constexpr std::int64_t k_rows = 40;  // more than the rows that are asked for ahead
  const std::vector<RowRange> all_rows = {{0, k_rows}};
  for (const std::int64_t n : {1, 15, 16, 17, 48, 50}) {
    const PanelLayout layout{k_rows, n, 16};
    const std::vector<float> values = dense_values(k_rows * n);
    for (const GuardPlacement placement : k_placements) {
      const Guarded<float> dense(values, placement);
      const GuardedFloats packed(layout.size() - PanelLayout::k_spare_floats, placement);

      spjit::pack_panels(layout, {0, layout.panels()}, {dense.data(), n}, all_rows, packed.data());

      EXPECT_TRUE(packed.intact());
      EXPECT_EQ(packed.span().front(), values.front());
    }
  }
}

TEST(Packing, CopiesOnlyTheRowsItIsAskedFor) {
  const std::vector<RowRange> rows = {{2, 5}, {9, 10}, {12, 13}};
  for (const std::int64_t width : {8, 16}) {
    const PanelLayout layout{13, 2 * width + 3, width};
    const std::vector<float> dense = dense_values(13 * layout.n);
    std::vector<float> packed(index(layout.size()), k_unwritten_place);

    spjit::pack_panels(layout, {0, 3}, {dense.data(), layout.n}, rows, packed.data());

    std::vector<float> expected(packed.size(), k_unwritten_place);
    const std::vector<float> all = expected_panels(layout, {0, 3}, {dense.data(), layout.n});
    for (const RowRange& range : rows) {
      for (std::int64_t panel = 0; panel < 3; ++panel) {
        const std::int64_t begin = panel * layout.stride() + range.begin * width;
        std::copy_n(all.begin() + begin, (range.end - range.begin) * width,
                    expected.begin() + begin);
      }
    }
    EXPECT_TRUE(same_bits(packed, expected)) << "width " << width;
  }
}

TEST(Packing, NoRowsCopyNothing) {
  const PanelLayout layout{0, 20, 16};
  std::vector<float> untouched(32, k_unwritten_place);

  spjit::pack_panels(layout, {0, 2}, {nullptr, 20}, {}, untouched.data());

  EXPECT_EQ(untouched, std::vector<float>(32, k_unwritten_place));
}

}  // namespace
