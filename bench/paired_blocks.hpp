#pragma once

/// @file
/// The matrices with which Figure 6 of LO-SpMM (ACM TACO 2024, section 4.3) shows what regrouping
/// rows gains.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <random>
#include <utility>
#include <vector>

#include "spjit/matrix.hpp"

namespace spjit::bench {

/// 1024 x 1024 with 98 % zeros, in 32 blocks of 32 rows. Rows of a block share its nonzeros evenly.
struct PairedBlocks {
  static constexpr std::int64_t k_rows = 1024;
  static constexpr std::int64_t k_blocks = 32;
  static constexpr double k_density = 0.02;

  double similarity = 0;  ///< share of the positions of block i that block i + 16 has too; 0 .. 1
  double nnz_ratio = 1;   ///< nonzeros of block i to those of block i + 1, for even i; >= 1
  unsigned seed = 1;
};

/// `count` of the columns from `from`, at random.
[[nodiscard]] inline std::vector<std::int32_t> draw_columns(std::vector<std::int32_t> from,
                                                            std::int64_t count,
                                                            std::mt19937& random) {
  std::ranges::shuffle(from, random);
  from.resize(static_cast<std::size_t>(count));
  return from;
}

/// The columns of all rows, each row sorted.
[[nodiscard]] inline std::vector<std::vector<std::int32_t>> columns_of(const PairedBlocks& of) {
  constexpr std::int64_t k_height = PairedBlocks::k_rows / PairedBlocks::k_blocks;
  constexpr std::int64_t k_half = PairedBlocks::k_rows / 2;
  const double of_two_blocks = 2 * k_height * PairedBlocks::k_rows * PairedBlocks::k_density;
  std::mt19937 random(of.seed);
  std::vector<std::int32_t> all(PairedBlocks::k_rows);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int32_t>(i);
  std::vector<std::vector<std::int32_t>> rows(PairedBlocks::k_rows);
  for (std::int64_t row = 0; row < PairedBlocks::k_rows; ++row) {
    const bool is_heavy = row / k_height % 2 == 0;
    const double of_block = of_two_blocks * (is_heavy ? of.nnz_ratio : 1) / (of.nnz_ratio + 1);
    const auto before = std::llround(of_block * static_cast<double>(row % k_height) / k_height);
    const auto count =
        std::llround(of_block * static_cast<double>(row % k_height + 1) / k_height) - before;
    std::vector<std::int32_t>& columns = rows[static_cast<std::size_t>(row)];
    if (row < k_half) {
      columns = draw_columns(all, count, random);
    } else {
      const auto& partner = rows[static_cast<std::size_t>(row - k_half)];
      const auto same = std::llround(of.similarity * static_cast<double>(count));
      columns = draw_columns(partner, same, random);
      std::vector<std::int32_t> others;
      std::ranges::set_difference(all, partner, std::back_inserter(others));
      std::ranges::copy(draw_columns(std::move(others), count - same, random),
                        std::back_inserter(columns));
    }
    std::ranges::sort(columns);
  }
  return rows;
}

/// Values between 0.5 and 1.5.
[[nodiscard]] inline CsrMatrix paired_blocks(const PairedBlocks& of) {
  CsrMatrix matrix;
  matrix.rows = matrix.cols = PairedBlocks::k_rows;
  matrix.row_ptrs = {0};
  std::mt19937 random(of.seed);
  std::uniform_real_distribution<float> value(0.5F, 1.5F);
  for (const std::vector<std::int32_t>& columns : columns_of(of)) {
    for (const std::int32_t column : columns) {
      matrix.col_idxs.push_back(column);
      matrix.values.push_back(value(random));
    }
    matrix.row_ptrs.push_back(std::ssize(matrix.col_idxs));
  }
  return matrix;
}

}  // namespace spjit::bench
