#include "kernels/cuda/unrolled/cuda_features.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "kernels/cuda/unrolled/cuda_prior.hpp"
#include "reorder/row_grouping.hpp"
#include "tests/support/cuda/cuda_space_testing.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using spjit::cuda_feature_rows;
using spjit::cuda_feature_schema;

TEST(CudaFeatures, BeginWithThoseOfThePaper) {
  spjit::CudaCandidate candidate;
  candidate.tile.m1 = 16;
  candidate.tile.n1 = 64;
  candidate.work = {.rows = 64, .cols = 128, .nnz = 2048, .n = 256, .m = 64};
  candidate.row_tiles = 4;
  candidate.column_tiles = 4;
  candidate.blocks = 16;
  candidate.grouping.nnc_sum = 256;
  candidate.grouping.tile_nnz_max = 512;
  candidate.occupancy = {.active_blocks = 4, .active_warps = 8};

  const std::vector<float> row =
      cuda_feature_rows({&candidate, 1}, spjit::testing_support::cuda_limits());

  ASSERT_EQ(row.size(), cuda_feature_schema().features.size());
  // row tiles, column tiles, log2 blocks, sparsity, log2 nnc, log2 largest nnz, M1, N1, log2 k
  EXPECT_EQ(std::vector<float>(row.begin(), row.begin() + 9),
            (std::vector<float>{4, 4, 4, 0.75F, 8, 9, 16, 64, 7}));
}

/// Of one candidate, by name.
std::map<std::string, float> named(const std::vector<float>& rows, std::size_t candidate = 0) {
  const std::vector<std::string> names = cuda_feature_schema().names();
  std::map<std::string, float> result;
  for (std::size_t i = 0; i < names.size(); ++i) {
    result[names[i]] = rows.at(candidate * names.size() + i);
  }
  return result;
}

/// Eight rows of eight columns; rows 2 i and 2 i + 1 have the columns 2 i and 2 i + 1, so that a
/// tile of two rows has two columns and four entries.
spjit::CsrMatrix pairs_of_rows() {
  spjit::CsrMatrix matrix;
  matrix.rows = matrix.cols = 8;
  matrix.row_ptrs = {0};
  for (std::int32_t row = 0; row < 8; ++row) {
    for (const std::int32_t col : {row / 2 * 2, row / 2 * 2 + 1}) {
      matrix.col_idxs.push_back(col);
      matrix.values.push_back(1);
    }
    matrix.row_ptrs.push_back(matrix.nnz());
  }
  return matrix;
}

TEST(CudaFeatures, AreThoseCountedByHandOfAPlantedMatrix) {
  const spjit::CudaDeviceInfo limits = spjit::testing_support::cuda_limits(3);
  const spjit::Problem problem = spjit::testing_support::cuda_problem(pairs_of_rows(), 48);
  spjit::CudaTile tile;
  tile.m1 = 2;
  tile.n1 = 32;
  const spjit::RowGrouping grouping =
      spjit::group_rows(*problem.a, 2, spjit::ReorderAlgorithm::similarity);
  const spjit::CudaCandidate candidate = spjit::examine_cuda_tile(
      problem, tile, spjit::testing_support::cuda_policy(), limits, grouping);

  std::map<std::string, float> features = named(cuda_feature_rows({&candidate, 1}, limits));

  EXPECT_EQ(features["row_tiles"], 4);
  EXPECT_EQ(features["column_tiles"], 2);
  EXPECT_EQ(features["blocks"], 3);  // log2 of 8
  EXPECT_EQ(features["sparsity"], 0.75F);
  EXPECT_EQ(features["nnc_sum"], 3);       // log2 of 4 x 2
  EXPECT_EQ(features["tile_nnz_max"], 2);  // log2 of 4
  EXPECT_EQ(features["fmas_per_load"], 2);
  EXPECT_EQ(features["nnc_mean"], 0.25F);
  EXPECT_EQ(features["nnc_max"], 1);
  EXPECT_EQ(features["tile_nnz_cv"], 0);
  EXPECT_FLOAT_EQ(features["column_padding"], 16.0F / 48);
  EXPECT_EQ(features["rows"], 3);
  EXPECT_EQ(features["nnz"], 4);
  EXPECT_FLOAT_EQ(features["n"], std::log2(48.0F));
  EXPECT_EQ(features["row_nnz_cv"], 0);
  EXPECT_EQ(features["threads"], 5);
  EXPECT_EQ(features["cap_of_grid"], 0);
  EXPECT_EQ(features["spare_registers"], features["register_cap"] - features["registers"]);
  EXPECT_EQ(features["blocks_an_sm"], 3);  // 8 over 3
  EXPECT_FLOAT_EQ(features["uneven_sms"], 9.0F / 8);
  EXPECT_EQ(features["resident_blocks"], 3);
  EXPECT_EQ(features["resident_warps"], 3);
  EXPECT_EQ(features["prior_largest"], 0);  // all tiles are alike
  EXPECT_EQ(features["prior_over_best"], 0);
}

TEST(CudaFeatures, OfThePriorSayHowFarATileIsFromTheBest) {
  const auto limits = spjit::testing_support::cuda_limits();
  const std::vector<spjit::CudaCandidate> tiles =
      spjit::rank_by_prior(spjit::testing_support::cuda_space(
                               spjit::testing_support::cuda_problem(
                                   spjit::testing_support::random_matrix(256, 128, 0.9), 256))
                               .survivors(),
                           limits);

  const std::vector<float> rows = cuda_feature_rows(tiles, limits);

  EXPECT_EQ(named(rows, 0)["prior_over_best"], 0);
  const std::size_t last = tiles.size() - 1;
  EXPECT_FLOAT_EQ(named(rows, last)["prior_over_best"],
                  static_cast<float>(std::log2(tiles[last].score / tiles[0].score)));
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    const spjit::CudaCost cost = spjit::estimate_cuda_cost(tiles[i], limits);
    EXPECT_DOUBLE_EQ(cost.cycles(), -tiles[i].score);
  }
}

TEST(CudaFeatures, AreNamedOnceEach) {
  std::set<std::string> names;
  for (const std::string& name : cuda_feature_schema().names()) {
    EXPECT_TRUE(names.insert(name).second) << name;
  }
}

TEST(CudaFeatures, AreFiniteForEveryTile) {
  const auto limits = spjit::testing_support::cuda_limits();
  for (const double sparsity : {0.0, 0.9, 1.0}) {
    const auto matrix = spjit::testing_support::random_matrix(130, 90, sparsity);
    const auto space =
        spjit::testing_support::cuda_space(spjit::testing_support::cuda_problem(matrix, 100),
                                           spjit::testing_support::cuda_policy(), limits);
    const std::vector<float> rows = cuda_feature_rows(space.candidates, limits);
    EXPECT_EQ(rows.size(), space.candidates.size() * cuda_feature_schema().features.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::size_t feature = i % cuda_feature_schema().features.size();
      EXPECT_TRUE(std::isfinite(rows[i])) << cuda_feature_schema().features[feature].name;
    }
  }
}

}  // namespace
