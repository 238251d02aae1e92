// Kernels whose rows of B and C lie 2^31 and 2^32 bytes apart, and farther.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "artifact/families.hpp"
#include "kernels/host/object/csr_image.hpp"
#include "kernels/host/object/csr_view.hpp"
#include "kernels/host/operands/packing.hpp"
#include "kernels/host/unrolled/host_program.hpp"
#include "kernels/host/windows/window_steps.hpp"
#include "spjit/compiler.hpp"
#include "spjit/error.hpp"
#include "tests/support/compile_testing.hpp"
#include "tests/support/sparse_floats.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using spjit::CompileOptions;
using spjit::CsrMatrix;
using spjit::HostIsa;
using spjit::Kernel;
using spjit::Problem;
using spjit::testing_support::dense_values;
using spjit::testing_support::index;
using spjit::testing_support::k_no_space;
using spjit::testing_support::kernel_of;
using spjit::testing_support::options_of;
using spjit::testing_support::problem_of;
using spjit::testing_support::reference_product;
using spjit::testing_support::same_bits;
using spjit::testing_support::SparseFloats;
using spjit::testing_support::uncached;

/// A matrix whose entries lie in few columns, and what those are multiplied with.
struct FarProblem {
  CsrMatrix matrix;                   ///< of which only `columns` have entries
  CsrMatrix compact;                  ///< the same with those columns alone
  std::vector<std::int32_t> columns;  ///< ascending
};

/// 37 rows: more than a tile has. Two columns at the start, two right behind `gap`, the last one.
FarProblem far_problem(std::int64_t gap, std::int64_t cols) {
  FarProblem problem;
  for (const std::int64_t column : {std::int64_t{0}, std::int64_t{3}, gap, gap + 1, cols - 1}) {
    problem.columns.push_back(static_cast<std::int32_t>(column));
  }
  const std::int64_t used = std::ssize(problem.columns);
  problem.compact = spjit::testing_support::random_matrix(37, used, 0.3, 5);
  problem.matrix = problem.compact;
  problem.matrix.cols = cols;
  for (std::int32_t& column : problem.matrix.col_idxs) column = problem.columns[index(column)];
  return problem;
}

/// Where element (row, column) of a dense matrix is.
struct RowMajor {
  std::int64_t ld = 0;
  std::int64_t operator()(std::int64_t row, std::int64_t column) const { return row * ld + column; }
};
struct PanelMajor {
  spjit::PanelLayout layout;
  std::int64_t operator()(std::int64_t row, std::int64_t column) const {
    return column / layout.width * layout.stride() + row * layout.width + column % layout.width;
  }
};

/// Values for the rows of B that are read; the reference's C `[rows x n]`, contiguous.
template <class Place>
std::vector<float> fill_and_multiply(const FarProblem& problem, HostIsa isa, std::int64_t n,
                                     const Place& place, float* b) {
  const std::int64_t used = std::ssize(problem.columns);
  const std::vector<float> values = dense_values(used * n, 3);
  for (std::int64_t i = 0; i < used; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      b[place(problem.columns[index(i)], j)] = values[index(i * n + j)];
    }
  }
  return reference_product(problem.compact, isa, values.data(), n, n);
}

/// Elements of C `[rows x n]`, gathered from where they are.
template <class Place>
std::vector<float> gather(const float* c, std::int64_t rows, std::int64_t n, const Place& place) {
  std::vector<float> result;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t j = 0; j < n; ++j) result.push_back(c[place(row, j)]);
  }
  return result;
}

Kernel compile_far(const Problem& problem, const CompileOptions& options) {
  return spjit::Compiler(options, uncached()).compile(problem);
}

void expect_reference(const Kernel& kernel, const FarProblem& problem, std::int64_t ldb,
                      std::int64_t ldc) {
  const std::int64_t rows = problem.matrix.rows;
  const std::int64_t n = kernel.n();
  const SparseFloats b(problem.matrix.cols * ldb);
  const SparseFloats c(rows * ldc);
  if (!b.mapped() || !c.mapped()) GTEST_SKIP() << k_no_space;
  const std::vector<float> expected =
      fill_and_multiply(problem, kernel.info().target.isa(), n, RowMajor{ldb}, b.data());

  try {
    kernel.run(b.data(), ldb, c.data(), ldc);
  } catch (const std::bad_alloc&) {
    GTEST_SKIP() << "this machine gives no workspace of that size";
  }

  EXPECT_TRUE(same_bits(gather(c.data(), rows, n, RowMajor{ldc}), expected))
      << kernel.info().tile << ", ldb " << ldb << ", ldc " << ldc;
}

/// Instruction set and the distance of rows in bytes.
class FarRows : public testing::TestWithParam<std::tuple<HostIsa, std::int64_t>> {
 protected:
  void SetUp() override {
    if (!spjit::testing_support::compiles_and_runs(isa())) {
      GTEST_SKIP() << "no " << to_string(isa()) << " in this build or on this CPU";
    }
  }
  static HostIsa isa() { return std::get<0>(GetParam()); }
  static std::int64_t distance() { return std::get<1>(GetParam()); }
  static std::int64_t lanes() { return spjit::lanes_of(isa()); }
  /// Rows of `row_bytes` that make up the distance, rounded up.
  static std::int64_t gap(std::int64_t row_bytes) {
    return (distance() + row_bytes - 1) / row_bytes;
  }
  static FarProblem problem(std::int64_t row_bytes) {
    return far_problem(gap(row_bytes), gap(row_bytes) + 5);
  }
};

TEST_P(FarRows, OfBAreReadInPlace) {
  constexpr std::int64_t k_n = 516;  // the last panel reaches back
  const FarProblem far = problem(k_n * 4);
  spjit::CompileOptions options = options_of(isa());
  options.policy.family = "unrolled";

  const Kernel kernel = compile_far(problem_of(far.matrix, k_n), options);

  ASSERT_NE(kernel.info().tile.find("in-place"), std::string::npos) << kernel.info().tile;
  expect_reference(kernel, far, k_n, k_n);
}

TEST_P(FarRows, OfBAreReadInPlaceAtTheGreatestBuiltInDistance) {
  constexpr std::int64_t k_ldb = spjit::k_max_built_in_ldb;
  const FarProblem far = problem(k_ldb * 4);
  spjit::HostTile tile = spjit::testing_support::host_tile(10, 1);
  tile.pack_b = false;
  const std::int64_t n = 2 * lanes() + 3;

  const Kernel kernel = kernel_of(far.matrix, tile, isa(), n, k_ldb);

  expect_reference(kernel, far, k_ldb, n);
}

TEST_P(FarRows, OfBAreBroughtToTheBuiltInDistance) {
  constexpr std::int64_t k_n = 512;
  const FarProblem far = problem(k_n * 4);
  CompileOptions options = options_of(isa());
  options.policy.family = "unrolled";

  const Kernel kernel = compile_far(problem_of(far.matrix, k_n), options);

  ASSERT_NE(kernel.info().tile.find("in-place"), std::string::npos) << kernel.info().tile;
  expect_reference(kernel, far, k_n + 7, k_n + 1);
}

TEST_P(FarRows, OfBArePackedFarApart) {
  const std::int64_t width = spjit::widest_panel_vectors(isa()) * lanes();
  const std::int64_t n = width - 3;
  const FarProblem far = problem(width * 4);
  Problem problem = problem_of(far.matrix, n);
  problem.panel_columns = width;

  const Kernel kernel = compile_far(problem, options_of(isa()));

  ASSERT_NE(kernel.info().tile.find("packed"), std::string::npos) << kernel.info().tile;
  expect_reference(kernel, far, n, n);
}

TEST_P(FarRows, OfBArePackedFarApartInBlocksOfK) {
  // The wider, the fewer columns make up the distance.
  const std::int64_t vectors = spjit::widest_panel_vectors(isa());
  spjit::HostTile tile = spjit::testing_support::host_tile(1, vectors);
  const FarProblem far = problem(vectors * lanes() * 4);
  tile.k_block = far.matrix.cols - 2;

  const Kernel kernel = kernel_of(far.matrix, tile, isa(), 9, 0);

  expect_reference(kernel, far, 9, 9);
}

TEST_P(FarRows, OfPanelsAreReadWhereTheyAre) {
  const std::int64_t width = spjit::widest_panel_vectors(isa()) * lanes();
  const std::int64_t n = width + 5;
  const FarProblem far = problem(width * 4);
  Problem problem = problem_of(far.matrix, n);
  problem.panel_columns = width;
  const Kernel kernel = compile_far(problem, options_of(isa()));
  const std::int64_t rows = far.matrix.rows;
  const SparseFloats b(kernel.panel_elements(far.matrix.cols));
  if (!b.mapped()) GTEST_SKIP() << k_no_space;
  std::vector<float> c(index(kernel.panel_elements(rows)), -7.0F);
  const PanelMajor place_b{{far.matrix.cols, n, width}};
  const PanelMajor place_c{{rows, n, width}};
  const std::vector<float> expected = fill_and_multiply(far, isa(), n, place_b, b.data());

  kernel.run_panels(b.data(), c.data());

  EXPECT_TRUE(same_bits(gather(c.data(), rows, n, place_c), expected));
}

TEST_P(FarRows, OfBAreReadByTheCsrKernel) {
  constexpr std::int64_t k_n = 140;
  CompileOptions options = options_of(isa());
  options.policy.family = "csr";
  const FarProblem far = problem(k_n * 4);

  const Kernel kernel = compile_far(problem_of(far.matrix, k_n), options);

  ASSERT_EQ(kernel.info().family, "csr");
  expect_reference(kernel, far, k_n, k_n);
}

TEST_P(FarRows, OfBMayBeFarApartForAFewColumns) {
  const FarProblem far = far_problem(4, 8);
  const std::int64_t ldb = distance() / 4;
  for (const std::int64_t n : {1, 3, 9}) {
    const Kernel kernel = compile_far(problem_of(far.matrix, n), options_of(isa()));

    expect_reference(kernel, far, ldb, n);
  }
}

TEST_P(FarRows, OfCAreWrittenByEveryKind) {
  const FarProblem far = far_problem(4, 8);
  const std::int64_t ldc = distance() / 4;
  for (const std::int64_t n : {1, 9, 16, 67}) {
    for (const char* family : {"csr", ""}) {
      CompileOptions options = options_of(isa());
      options.policy.family = family;

      const Kernel kernel = compile_far(problem_of(far.matrix, n), options);

      expect_reference(kernel, far, n, ldc);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Distances, FarRows,
    testing::Combine(testing::Values(HostIsa::avx512, HostIsa::avx2, HostIsa::generic),
                     testing::Values(std::int64_t{1} << 31, std::int64_t{1} << 32)),
    [](const auto& instance) {
      return to_string(std::get<0>(instance.param)) +
             (std::get<1>(instance.param) >> 32 != 0 ? "_4GiB" : "_2GiB");
    });

/// Rows 2^42 bytes apart: as far as the address space reaches.
TEST(FarLeadingDimensions, OfBAndCWork) {
  constexpr std::int64_t k_ld = std::int64_t{1} << 40;
  const CsrMatrix matrix{3, 3, {0, 2, 2, 4}, {0, 2, 1, 2}, {1.5F, 2.5F, -3.0F, 0.5F}};
  FarProblem far{matrix, matrix, {0, 1, 2}};
  for (const HostIsa isa : spjit::testing_support::isas_here()) {
    for (const std::int64_t n : {1, 2, 20}) {
      const Kernel kernel = compile_far(problem_of(matrix, n), options_of(isa));

      expect_reference(kernel, far, k_ld, k_ld);
    }
  }
}

/// Two products of three tokens each, whose tokens lie far apart; C is its residual.
struct FarTokenOperands {
  static constexpr std::int64_t k_n = 3;
  static constexpr std::int64_t k_batch = 2;
  static constexpr float k_residual = 0.25F;

  FarTokenOperands(const CsrMatrix& a, std::int64_t distance_of_tokens)
      : matrix(a),
        ld(distance_of_tokens),
        distance((k_n - 1) * ld + 100),
        b(k_batch * distance),
        c(k_batch * distance) {}

  /// Calls each(place, item, row, token).
  template <class Each>
  void for_each(std::int64_t rows, const Each& each) const {
    for (std::int64_t item = 0; item < k_batch; ++item) {
      for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t token = 0; token < k_n; ++token) {
          each(item * distance + token * ld + row, item, row, token);
        }
      }
    }
  }

  /// ReLU of the product and the residual, product after product.
  [[nodiscard]] std::vector<float> fill(HostIsa isa) const {
    std::vector<float> expected;
    for (const std::uint64_t seed : {3U, 4U}) {
      const std::vector<float> values = dense_values(matrix.cols * k_n, seed);
      for_each(matrix.cols, [&](std::int64_t place, std::int64_t item, auto row, auto token) {
        if (item + 3 == static_cast<std::int64_t>(seed)) {
          b.data()[place] = values[index(row * k_n + token)];
        }
      });
      for (const float sum : reference_product(matrix, isa, values.data(), k_n, k_n)) {
        expected.push_back(std::max(sum + k_residual, 0.0F));
      }
    }
    for_each(matrix.rows, [&](std::int64_t place, auto...) { c.data()[place] = k_residual; });
    return expected;
  }

  [[nodiscard]] std::vector<float> result() const {
    std::vector<float> actual;
    for_each(matrix.rows, [&](std::int64_t place, auto...) { actual.push_back(c.data()[place]); });
    return actual;
  }

  const CsrMatrix& matrix;
  std::int64_t ld;
  std::int64_t distance;
  SparseFloats b;
  SparseFloats c;
};

TEST(FarTokens, AreReadAndWrittenByEveryFamily) {
  const CsrMatrix matrix = spjit::testing_support::random_matrix(18, 20, 0.2);
  Problem problem = problem_of(matrix, FarTokenOperands::k_n);
  problem.b.layout = problem.c.layout = spjit::Layout::tokens_major;
  problem.epilogue = {.residual = true, .activation = spjit::Activation::relu};
  CompileOptions options = options_of();
  for (const std::int64_t shift : {29, 30, 36}) {  // 2^31 bytes and more
    const FarTokenOperands far(matrix, std::int64_t{1} << shift);
    if (!far.b.mapped() || !far.c.mapped()) GTEST_SKIP() << k_no_space;
    for (const char* family : {"compact", "dense", "windows", "unrolled", "csr", "reference"}) {
      options.policy.family = family;
      const spjit::DeviceInfo device = spjit::device_info_of(options.target);
      const spjit::KernelFamily& one = spjit::find_family(family);
      if (spjit::why_not(one, {problem, options, device, {}})) continue;
      const std::vector<float> expected = far.fill(options.target.isa());

      compile_far(problem, options)
          .run({.b = {far.b.data(), {.ld = far.ld, .distance = far.distance}},
                .c = {far.c.data(), {.ld = far.ld, .distance = far.distance}},
                .residual = {far.c.data(), {.distance = far.distance}},
                .batch = FarTokenOperands::k_batch});

      EXPECT_TRUE(same_bits(far.result(), expected)) << family << " " << far.ld;
    }
  }
}

/// A step of the family names a column in 16 bits.
TEST(FarColumns, AreRefusedByWindows) {
  for (const HostIsa isa : {HostIsa::avx512, HostIsa::avx2}) {
    if (!spjit::Target(isa).runs_here()) continue;
    const std::int64_t most = spjit::window_shape(isa).most_cols();
    const auto load = [&](std::int64_t cols) {
      const FarProblem far = far_problem(1000, cols);
      static_cast<void>(
          kernel_of(spjit::make_csr_artifact(problem_of(far.matrix, 1), "windows", isa)));
    };
    EXPECT_NO_THROW(load(most));
    EXPECT_THROW(load(most + 1), spjit::Error);
  }
}

}  // namespace
