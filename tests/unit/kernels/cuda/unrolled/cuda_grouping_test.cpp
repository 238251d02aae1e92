// How rows are grouped where nobody says it, and the register caps of a tile.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "spjit/generate.hpp"
#include "spjit/matrix_io.hpp"
#include "tests/support/cuda/cuda_grouping_testing.hpp"
#include "tests/support/files/real_matrices.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using spjit::CsrMatrix;
using spjit::CudaCandidate;
using spjit::CudaCap;
using spjit::CudaTileSpace;
using spjit::MatrixPattern;
using spjit::Problem;
using spjit::ReorderAlgorithm;
using spjit::SearchPolicy;
using spjit::testing_support::cuda_limits;
using spjit::testing_support::cuda_policy;
using spjit::testing_support::cuda_problem;
using spjit::testing_support::cuda_space;
using spjit::testing_support::cuda_space_by;
using spjit::testing_support::expect_best_of_both;
using spjit::testing_support::places_left;
using spjit::testing_support::random_matrix;

CsrMatrix generated(MatrixPattern pattern, std::int64_t rows, std::int64_t cols, double sparsity) {
  spjit::GenerateOptions options;
  options.rows = rows;
  options.cols = cols;
  options.sparsity = sparsity;
  options.pattern = pattern;
  return spjit::generate_matrix(options);
}

TEST(CudaGrouping, IsTheDefaultsToChoose) {
  EXPECT_EQ(SearchPolicy{}.reorder, ReorderAlgorithm::automatic);
  EXPECT_EQ(cuda_policy().reorder, ReorderAlgorithm::automatic);
}

TEST(CudaGrouping, IsTheBestOfBothOnGeneratedMatrices) {
  for (const MatrixPattern pattern :
       {MatrixPattern::uniform, MatrixPattern::uneven_rows, MatrixPattern::power_law,
        MatrixPattern::magnitude, MatrixPattern::banded}) {
    for (const double sparsity : {0.6, 0.95}) {
      for (const auto& [rows, cols] : {std::pair{64, 576}, std::pair{512, 512}}) {
        SCOPED_TRACE(std::string(to_string(pattern)) + " " + std::to_string(sparsity) + " " +
                     std::to_string(rows));
        expect_best_of_both(cuda_problem(generated(pattern, rows, cols, sparsity), 512));
      }
    }
  }
}

/// Rows of `kinds` kinds in turn; those of kind i have 8 + 8 i of their own columns.
CsrMatrix rows_of_kinds(std::int64_t rows, std::int64_t kinds) {
  CsrMatrix matrix;
  matrix.rows = rows;
  std::int64_t first = 0;
  std::vector<std::int64_t> starts;
  for (std::int64_t kind = 0; kind < kinds; ++kind) {
    starts.push_back(first);
    first += 8 + 8 * kind;
  }
  matrix.cols = first;
  matrix.row_ptrs = {0};
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t kind = row % kinds;
    for (std::int64_t i = 0; i < 8 + 8 * kind; ++i) {
      matrix.col_idxs.push_back(
          static_cast<std::int32_t>(starts[static_cast<std::size_t>(kind)] + i));
      matrix.values.push_back(1);
    }
    matrix.row_ptrs.push_back(std::ssize(matrix.col_idxs));
  }
  return matrix;
}

TEST(CudaGrouping, IsSimilarityWhereSmsHaveManyBlocksAndItSavesLoads) {
  // 512 rows, n = 4096: at M1 = 8 there are 64 x 128 blocks of one warp for 132 SMs.
  const CudaTileSpace space = cuda_space(cuda_problem(rows_of_kinds(512, 4), 4096));

  for (const CudaCandidate& candidate : space.candidates) {
    if (candidate.tile.m1 != 8) continue;
    EXPECT_EQ(candidate.tile.reorder, ReorderAlgorithm::similarity);
    if (candidate.tile.n1 == 32) {
      EXPECT_TRUE(spjit::unbalanced(candidate));
      EXPECT_FALSE(candidate.dropped);
    }
  }
}

TEST(CudaGrouping, IsAlgorithm1WhereOnlyThatIsWithinTheRules) {
  // At M1 = 16 there are 8 x 16 blocks at most for 132 SMs: the longest is the time.
  const Problem problem = cuda_problem(generated(MatrixPattern::uneven_rows, 128, 512, 0.9), 512);
  const auto balanced = places_left(cuda_space_by(problem, ReorderAlgorithm::balanced));
  const auto similar = places_left(cuda_space_by(problem, ReorderAlgorithm::similarity));

  std::int64_t found = 0;
  for (const CudaCandidate& candidate : cuda_space(problem).candidates) {
    const auto place = spjit::testing_support::place_of(candidate);
    if (!balanced.contains(place) || similar.contains(place)) continue;
    ++found;
    EXPECT_EQ(candidate.tile.reorder, ReorderAlgorithm::balanced);
    EXPECT_FALSE(candidate.dropped);
  }
  EXPECT_GT(found, 0);
}

TEST(CudaGrouping, IsTheGivenOneWhereItIsGiven) {
  const Problem problem = cuda_problem(random_matrix(200, 100, 0.8), 256);
  for (const ReorderAlgorithm given :
       {ReorderAlgorithm::none, ReorderAlgorithm::balanced, ReorderAlgorithm::similarity}) {
    for (const CudaCandidate& candidate : cuda_space_by(problem, given).candidates) {
      EXPECT_EQ(candidate.tile.reorder, given);
    }
  }
}

TEST(CudaGrouping, IsTheBestOfBothOnSmallRealLayers) {
  constexpr std::uintmax_t k_small_bytes = 20 << 10;
  const auto files = spjit::testing_support::matrix_files("dlmc");
  if (files.empty()) GTEST_SKIP() << "there are no DLMC layers: set SPJIT_TEST_DATA";
  for (const auto& file : files) {
    if (std::filesystem::file_size(file) > k_small_bytes) continue;
    SCOPED_TRACE(file.string());
    expect_best_of_both(cuda_problem(spjit::load_matrix(file), 512));
  }
}

TEST(CudaCaps, OfTheGridComeAfterThoseOfTheDeviceAndAllowMore) {
  const CudaTileSpace space = cuda_space(cuda_problem(random_matrix(512, 512, 0.9), 512));

  std::int64_t of_grid = 0;
  for (std::size_t i = 0; i < space.candidates.size(); ++i) {
    const CudaCandidate& candidate = space.candidates[i];
    const std::int64_t brought = (candidate.blocks + 131) / 132;
    const std::int64_t held = candidate.occupancy.active_blocks;
    EXPECT_EQ(candidate.register_cap,
              register_cap(cuda_limits(), candidate.tile.threads(), candidate.min_blocks));
    if (candidate.tile.cap == CudaCap::device) {
      EXPECT_EQ(candidate.min_blocks, std::max<std::int64_t>(held, 1));
      continue;
    }
    ++of_grid;
    ASSERT_GT(i, 0U);
    spjit::CudaTile before = space.candidates[i - 1].tile;
    EXPECT_EQ(before.cap, CudaCap::device);
    before.cap = CudaCap::grid;
    EXPECT_EQ(candidate.tile, before);
    EXPECT_EQ(candidate.min_blocks, std::min(held, brought));
    EXPECT_GT(candidate.register_cap, space.candidates[i - 1].register_cap);
  }
  EXPECT_GT(of_grid, 20);
}

TEST(CudaCaps, AreOneWhereTheGridFillsTheSms) {
  const CudaTileSpace space = cuda_space(cuda_problem(random_matrix(4096, 64, 0.9), 4096));

  for (const CudaCandidate& candidate : space.candidates) {
    if (candidate.tile.m1 == 16 && candidate.tile.n1 == 128) {
      EXPECT_EQ(candidate.tile.cap, CudaCap::device);
    }
  }
}

}  // namespace
