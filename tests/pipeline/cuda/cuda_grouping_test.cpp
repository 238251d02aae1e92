// How rows are grouped where nobody says it, on every real layer.

#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#include "spjit/matrix_io.hpp"
#include "tests/support/cuda_grouping_testing.hpp"
#include "tests/support/real_matrices.hpp"

namespace {

using spjit::testing_support::matrix_files;

/// Every k_shares-th layer from its own on, so that tests run side by side.
constexpr std::size_t k_shares = 7;
class CudaGrouping : public testing::TestWithParam<std::size_t> {};

TEST_P(CudaGrouping, IsTheBestOfBothOnRealLayers) {
  const auto files = matrix_files("dlmc");
  if (files.empty()) GTEST_SKIP() << "there are no DLMC layers: set SPJIT_TEST_DATA";

  for (std::size_t i = GetParam(); i < files.size(); i += k_shares) {
    SCOPED_TRACE(files[i].string());
    spjit::testing_support::expect_best_of_both(
        spjit::testing_support::cuda_problem(spjit::load_matrix(files[i]), 512));
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, CudaGrouping, testing::Range(std::size_t{0}, k_shares));

}  // namespace
