// The PTX that is emitted, executed: C has the bits of the plan's evaluator. Needs neither a GPU
// nor NVIDIA's libraries.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "spjit/error.hpp"
#include "spjit/matrix_io.hpp"
#include "tests/support/cuda/cuda_cases.hpp"
#include "tests/support/files/real_matrices.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

/// FMAs that a matrix of the data takes (nonzeros x columns), so that all of the data take some ten
/// seconds: fewer columns where there are many nonzeros. A matrix with more nonzeros than this is
/// left out, and the test's properties say which; the data have none.
constexpr std::int64_t k_most_products = 2'000'000;
constexpr std::int64_t k_most_columns = 35;

std::int64_t columns_for(const CsrMatrix& matrix) {
  return std::clamp<std::int64_t>(k_most_products / std::max<std::int64_t>(matrix.nnz(), 1), 1,
                                  k_most_columns);
}

TEST(PtxExact, HasTheBitsOfTheEvaluatorOnPlantedCases) {
  for (const auto& [name, item] : planted_cases()) {
    SCOPED_TRACE(name + ", tile " + to_string(item.spec.tile));

    EXPECT_TRUE(same_bits(run_ptx(ptx_of(item), item), expected_c(item)));
  }
}

TEST(PtxExact, IsTheSameForEveryArchitecture) {
  const CudaCase item =
      make_cuda_case(random_matrix(60, 50, 0.8), cuda_spec(8, 5), ReorderAlgorithm::similarity);

  for (const int sm : {70, 75, 80, 86, 89, 90}) {
    EXPECT_TRUE(same_bits(run_ptx(ptx_of(item, sm), item), expected_c(item))) << sm;
  }
}

TEST(PtxExact, HasTheBitsOfTheEvaluatorOnRandomKernels) {
  std::mt19937_64 random(20240917);
  const auto pick = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  for (int i = 0; i < 300; ++i) {
    const double sparsity = static_cast<double>(pick(0, 100)) / 100;
    const CsrMatrix matrix = random_matrix(pick(1, 90), pick(1, 90), sparsity, random());
    CudaKernelSpec spec = cuda_spec(pick(1, 40), pick(1, 70));
    spec.ldb = spec.n + pick(0, 3);
    spec.ldc = spec.n + pick(0, 3);
    spec.tile.n1 = 32 * pick(1, 3);
    spec.tile.tiles_a_block = std::int64_t{1} << i % 3;
    spec.tile.unit_nonzeros = pick(1, 3000);
    spec.tile.runtime_sizes = pick(0, 1) == 1;
    const auto reorder = static_cast<ReorderAlgorithm>(pick(0, 2));
    const CudaCase item = make_cuda_case(matrix, spec, reorder);
    SCOPED_TRACE(testing::Message() << i << ": " << matrix.rows << "x" << matrix.cols << ", n "
                                    << spec.n << ", tile " << to_string(spec.tile));

    const std::vector<float> c = run_ptx(ptx_of(item), item);

    ASSERT_TRUE(same_bits(c, expected_c(item)));
    ASSERT_LE(error_over_bound(matrix, item, c), 1);
  }
}

class PtxExactOnData : public ::testing::TestWithParam<std::string> {};

TEST_P(PtxExactOnData, HasTheBitsOfTheEvaluatorAndIsWithinTheRoundingBound) {
  const auto files = matrix_files(GetParam());
  if (files.empty()) GTEST_SKIP() << "no " << (data_directory() / GetParam());
  int compared = 0;
  for (const auto& file : files) {
    SCOPED_TRACE(file.string());
    const CsrMatrix matrix = [&] {
      CsrMatrix loaded = load_matrix(file);
      loaded.sort_columns();
      return loaded;
    }();
    if (matrix.rows < 1) continue;
    if (matrix.nnz() > k_most_products) {
      RecordProperty(file.filename().string(), "left out: over the budget of products");
      continue;
    }
    CudaKernelSpec spec = cuda_spec(compared % 2 == 0 ? 8 : 32, columns_for(matrix));
    spec.tile.runtime_sizes = compared % 3 == 0;
    spec.tile.tiles_a_block = std::int64_t{1} << compared % 3;
    const CudaCase item = make_cuda_case(matrix, spec, ReorderAlgorithm::similarity);

    const std::vector<float> c = run_ptx(ptx_of(item), item);

    EXPECT_TRUE(same_bits(c, expected_c(item)));
    EXPECT_LE(error_over_bound(matrix, item, c), 1);
    ++compared;
  }
  RecordProperty("compared", compared);
  EXPECT_GT(compared, 0);
}

INSTANTIATE_TEST_SUITE_P(SharedData, PtxExactOnData,
                         ::testing::Values("dlmc/rn50", "dlmc/transformer", "weights",
                                           "suitesparse"),
                         [](const auto& name) {
                           std::string text = name.param;
                           std::ranges::replace(text, '/', '_');
                           return text;
                         });

}  // namespace
