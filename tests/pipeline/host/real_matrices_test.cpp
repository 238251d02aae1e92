// Whole compilations of real matrices, against the evaluator bit for bit and against float64.

#include "tests/support/files/real_matrices.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "artifact/families.hpp"
#include "kernels/host/windows/windows_kernel.hpp"
#include "spjit/compiler.hpp"
#include "spjit/matrix_io.hpp"
#include "tests/support/compile_testing.hpp"
#include "tests/support/float64_check.hpp"
#include "tests/support/guarded_buffers.hpp"
#include "tests/support/guarded_operands.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

namespace fs = std::filesystem;
using spjit::CompileOptions;
using spjit::CsrMatrix;
using spjit::HostIsa;
using spjit::Kernel;
using spjit::testing_support::data_directory;
using spjit::testing_support::dense_values;
using spjit::testing_support::GuardedBuffers;
using spjit::testing_support::GuardedOperands;
using spjit::testing_support::GuardPlacement;
using spjit::testing_support::hot_options;
using spjit::testing_support::index;
using spjit::testing_support::k_placements;
using spjit::testing_support::matrix_files;
using spjit::testing_support::problem_of;
using spjit::testing_support::reference_product;
using spjit::testing_support::uncached;

/// Columns for a case: about 20 million multiplications at most, and never a whole panel, so that
/// every case has a tail.
std::int64_t columns_for(const CsrMatrix& matrix, std::int64_t wanted) {
  constexpr std::int64_t k_most_products = 20'000'000;
  const std::int64_t most = k_most_products / std::max<std::int64_t>(matrix.nnz(), 1);
  return std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(most, 1));
}

Kernel compile_uncached(const CsrMatrix& matrix, std::int64_t n, const CompileOptions& options) {
  return spjit::Compiler(options, uncached()).compile(problem_of(matrix, n));
}

/// B `[k x n]` and what the kernels must make of it.
struct Expectation {
  std::int64_t n = 1;
  std::vector<float> b;
  std::vector<float> fused;
  std::vector<float> separate;
};

Expectation expect_of(const CsrMatrix& matrix, std::int64_t n) {
  Expectation result;
  result.n = n;
  result.b = dense_values(matrix.cols * n);
  result.fused = reference_product(matrix, HostIsa::avx512, result.b.data(), n, n);
  result.separate = reference_product(matrix, HostIsa::generic, result.b.data(), n, n);
  for (const std::vector<float>* c : {&result.fused, &result.separate}) {
    std::vector<float> copy = *c;
    const auto report =
        spjit::compare_with_float64(matrix, {result.b.data(), n, copy.data(), n, n});
    EXPECT_TRUE(report.within_bound()) << "row " << report.row << " column " << report.col << ": "
                                       << report.max_bound_ratio << " of the bound";
  }
  return result;
}

bool takes(const char* family, const CsrMatrix& matrix, std::int64_t n,
           const CompileOptions& options) {
  const spjit::Problem problem = problem_of(matrix, n);
  const spjit::DeviceInfo device = spjit::device_info_of(options.target);
  return !spjit::why_not(spjit::find_family(family), {problem, options, device, {}});
}

void expect_bits(const CsrMatrix& matrix, const CompileOptions& options,
                 const Expectation& expectation) {
  const GuardedBuffers guarded(GuardPlacement::at_end);
  const std::int64_t n = expectation.n;
  const Kernel kernel = compile_uncached(matrix, n, options);
  for (const GuardPlacement placement : k_placements) {
    const GuardedOperands operands(matrix, {n, n, n}, placement, expectation.b);

    kernel.run(operands.b(), operands.c());

    const bool separate = options.target.isa() == HostIsa::generic;
    EXPECT_TRUE(operands.holds(separate ? expectation.separate : expectation.fused))
        << options.target.name() << " tile " << kernel.info().tile << ": " << kernel.info().reason;
  }
  EXPECT_EQ(kernel.info().family, options.policy.family);
}

/// One to four columns on every instruction set that is encoded directly, by the first of the
/// families for few columns that takes them.
void check_few_columns(const CsrMatrix& matrix) {
  for (std::int64_t n = 1; n <= spjit::k_most_window_columns; ++n) {
    const Expectation expectation = expect_of(matrix, n);
    CompileOptions options = hot_options();
    for (const HostIsa isa : spjit::testing_support::isas_here()) {
      if (isa == HostIsa::generic) continue;
      options.target = spjit::Target(isa);
      for (const char* family : {"dense", "windows", "unrolled"}) {
        options.policy.family = family;
        if (takes(family, matrix, n, options)) break;
      }
      expect_bits(matrix, options, expectation);
    }
  }
}

/// Every instruction set with its unrolled kernel, and the best one with those that read A. LLVM's
/// code for the generic target takes a second per 100 000 entries, so only small ones get it.
void check_matrix(const CsrMatrix& matrix) {
  const std::int64_t n = columns_for(matrix, matrix.nnz() > 20'000 ? 35 : 131);
  const Expectation expectation = expect_of(matrix, n);
  constexpr std::int64_t k_most_generic_nnz = 60'000;
  CompileOptions options = hot_options();
  options.policy.family = "unrolled";
  for (const HostIsa isa : spjit::testing_support::isas_here()) {
    if (isa == HostIsa::generic && matrix.nnz() > k_most_generic_nnz) continue;
    options.target = spjit::Target(isa);
    expect_bits(matrix, options, expectation);
  }
  options.target = spjit::Target();
  for (const char* family : {"csr", "compact", "dense"}) {
    options.policy.family = family;
    if (takes(family, matrix, n, options)) expect_bits(matrix, options, expectation);
  }
}

class RealMatrices : public testing::TestWithParam<const char*> {};

TEST_P(RealMatrices, GiveTheEvaluatorsBitsOnEveryTarget) {
  const std::vector<fs::path> files = matrix_files(GetParam());
  if (files.empty()) GTEST_SKIP() << "no matrices in " << data_directory() / GetParam();
  for (const fs::path& file : files) {
    SCOPED_TRACE(file.string());

    const CsrMatrix matrix = spjit::load_matrix(file);
    check_matrix(matrix);
    check_few_columns(matrix);
  }
}

std::string name_of(const testing::TestParamInfo<const char*>& parameter) {
  std::string name = parameter.param;
  std::ranges::replace(name, '/', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Host, RealMatrices,
                         testing::Values("dlmc/rn50", "dlmc/transformer", "suitesparse", "weights"),
                         name_of);

TEST(RealWeights, GiveTheProductTheirAuthorsPublished) {
  const fs::path folder = data_directory() / "weights" / "sparsert_mobilenet";
  if (!fs::exists(folder / "ref.npy")) GTEST_SKIP() << "no " << folder / "ref.npy";
  const CsrMatrix matrix = spjit::load_matrix(folder / "contraction_1x1_0.npy");
  const spjit::DenseMatrix b = spjit::load_dense(folder / "BC.npy");
  const spjit::DenseMatrix known = spjit::load_dense(folder / "ref.npy");
  std::vector<float> c(index(matrix.rows * b.cols));

  compile_uncached(matrix, b.cols, {}).run(b.values.data(), c.data());

  // Both are fp32 sums in some order, so each may be a bound away from the float64 product.
  ASSERT_EQ(known.values.size(), c.size());
  const auto exact = spjit::evaluate_float64(matrix, {b.values.data(), b.cols, nullptr, 0, b.cols});
  for (std::size_t i = 0; i < c.size(); ++i) {
    const double difference = static_cast<double>(c[i]) - static_cast<double>(known.values[i]);
    ASSERT_LE(std::abs(difference), 2 * exact.bounds[i]) << "element " << i;
  }
}

}  // namespace
