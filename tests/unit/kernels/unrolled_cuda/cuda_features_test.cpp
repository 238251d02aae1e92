#include "kernels/unrolled_cuda/cuda_features.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "tests/support/cuda_space_testing.hpp"
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
