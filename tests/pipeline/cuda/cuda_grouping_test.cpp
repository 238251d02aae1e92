// How rows are grouped where nobody says it, on every real layer.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "spjit/matrix_io.hpp"
#include "tests/support/cuda/cuda_grouping_testing.hpp"
#include "tests/support/files/real_matrices.hpp"
#include "tests/support/long_tests.hpp"

namespace {

using spjit::testing_support::long_tests;
using spjit::testing_support::matrix_files;

/// Every k_shares-th layer from its own on, so that tests run side by side.
constexpr std::size_t k_shares = 7;

/// Nonzeros of the largest layer that is looked at. The vocabulary of the Transformer takes most of
/// a minute, and a sanitizer ten times that.
std::int64_t most_layer_nonzeros() {
  if (!long_tests()) return 100'000;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return 320'000;
#else
  return std::numeric_limits<std::int64_t>::max();
#endif
}

class CudaGrouping : public testing::TestWithParam<std::size_t> {};

TEST_P(CudaGrouping, IsTheBestOfBothOnRealLayers) {
  const auto files = matrix_files("dlmc");
  if (files.empty()) GTEST_SKIP() << "there are no DLMC layers: set SPJIT_TEST_DATA";

  for (std::size_t i = GetParam(); i < files.size(); i += k_shares) {
    SCOPED_TRACE(files[i].string());
    const spjit::CsrMatrix layer = spjit::load_matrix(files[i]);
    if (layer.nnz() > most_layer_nonzeros()) continue;
    spjit::testing_support::expect_best_of_both(spjit::testing_support::cuda_problem(layer, 512));
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, CudaGrouping, testing::Range(std::size_t{0}, k_shares));

}  // namespace
