#include "bench/paired_blocks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <vector>

namespace {

using spjit::CsrMatrix;
using spjit::bench::columns_of;
using spjit::bench::paired_blocks;
using spjit::bench::PairedBlocks;

constexpr std::int64_t k_height = 32;

/// Nonzeros of a block of 32 rows.
std::int64_t nonzeros(const CsrMatrix& matrix, std::int64_t block) {
  const auto at = [&](std::int64_t row) { return matrix.row_ptrs[static_cast<std::size_t>(row)]; };
  return at((block + 1) * k_height) - at(block * k_height);
}

TEST(PairedBlocks, AreAsSparseAsThePapers) {
  for (const double ratio : {1.0, 2.0, 3.0}) {
    const CsrMatrix matrix = paired_blocks({.similarity = 0.5, .nnz_ratio = ratio});

    EXPECT_EQ(matrix.rows, 1024);
    EXPECT_EQ(matrix.cols, 1024);
    EXPECT_NEAR(static_cast<double>(matrix.nnz()), 0.02 * 1024 * 1024, 64);
  }
}

TEST(PairedBlocks, OfAdjacentNumbersHaveTheRatioOfNonzeros) {
  const CsrMatrix even = paired_blocks({.nnz_ratio = 1});
  const CsrMatrix uneven = paired_blocks({.nnz_ratio = 3});

  for (std::int64_t block = 0; block < 32; block += 2) {
    EXPECT_EQ(nonzeros(even, block), nonzeros(even, block + 1));
    EXPECT_NEAR(static_cast<double>(nonzeros(uneven, block)),
                3 * static_cast<double>(nonzeros(uneven, block + 1)), 3);
  }
}

TEST(PairedBlocks, ShareTheGivenPartOfTheirPositions) {
  for (const double similarity : {0.0, 0.3, 0.9}) {
    const auto rows = columns_of({.similarity = similarity, .nnz_ratio = 2});
    std::size_t all = 0;
    std::size_t same = 0;
    for (std::size_t row = 0; row < 512; ++row) {
      std::vector<std::int32_t> common;
      std::ranges::set_intersection(rows[row], rows[row + 512], std::back_inserter(common));
      EXPECT_EQ(rows[row].size(), rows[row + 512].size());
      EXPECT_TRUE(std::ranges::adjacent_find(rows[row + 512]) == rows[row + 512].end());
      all += rows[row].size();
      same += common.size();
    }

    EXPECT_NEAR(static_cast<double>(same) / static_cast<double>(all), similarity, 0.02);
  }
}

}  // namespace
