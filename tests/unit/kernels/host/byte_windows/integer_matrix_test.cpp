// Products of integers that are floats, against sums of 64 bits.

#include "kernels/host/byte_windows/integer_matrix.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/float_buffer.hpp"
#include "tests/support/draw.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

CsrMatrix matrix_of_integers(std::int64_t rows, std::int64_t cols, double sparsity) {
  CsrMatrix matrix = random_matrix(rows, cols, sparsity);
  Draw draw(5);
  for (float& value : matrix.values) value = static_cast<float>(draw.between(-128, 127));
  return matrix;
}

/// Integers of B in rows or tokens of `ld` floats.
FloatBuffer integers_of_b(std::int64_t cols, std::int64_t n, bool has_tokens, std::int64_t ld) {
  Draw draw(6);
  FloatBuffer b(index((has_tokens ? n : cols) * ld));
  std::ranges::fill(b.span(), 0.0F);
  for (std::int64_t row = 0; row < cols; ++row) {
    for (std::int64_t j = 0; j < n; ++j) {
      b.data()[has_tokens ? j * ld + row : row * ld + j] =
          static_cast<float>(draw.between(-255, 255));
    }
  }
  return b;
}

class IntegerProduct : public testing::TestWithParam<HostIsa> {
 protected:
  void SetUp() override {
    if (!Target(GetParam()).runs_here()) GTEST_SKIP() << "no " << to_string(GetParam()) << " here";
  }

  static void expect_exact(const CsrMatrix& matrix, std::int64_t n, bool has_tokens, bool as_ints) {
    const std::int64_t ld = has_tokens ? (matrix.cols + 15) / 16 * 16 : compact_row_floats(n);
    const FloatBuffer b = integers_of_b(matrix.cols, n, has_tokens, ld);
    const IntegerMatrix integers(view_of(matrix), {GetParam(), 3, 255, n});
    ASSERT_TRUE(integers.values().are_exact);
    std::vector<float> c(index(matrix.rows * n), -7);
    FloatBuffer workspace(index(CompactMatrix::k_workspace_floats));
    const Product product{
        .b = b.data(), .ldb = ld, .c = c.data(), .ldc = n, .n = n, .has_tokens = has_tokens};
    for (std::int64_t part = 0; part < integers.parts(); ++part) {
      integers.run(part, product, as_ints, integers.values(), workspace.data());
    }
    for (std::int64_t row = 0; row < matrix.rows; ++row) {
      for (std::int64_t j = 0; j < n; ++j) {
        std::int64_t sum = 0;
        for (std::int64_t i = matrix.row_ptrs[index(row)]; i < matrix.row_ptrs[index(row) + 1];
             ++i) {
          const std::int64_t col = matrix.col_idxs[index(i)];
          sum += static_cast<std::int64_t>(matrix.values[index(i)] *
                                           b.data()[has_tokens ? j * ld + col : col * ld + j]);
        }
        const float made = c[index(row * n + j)];
        ASSERT_EQ(as_ints ? std::bit_cast<std::int32_t>(made) : static_cast<std::int64_t>(made),
                  sum)
            << "C[" << row << "][" << j << "], n = " << n;
      }
    }
  }
};

TEST_P(IntegerProduct, IsExact) {
  for (const double sparsity : {0.3, 0.8, 0.97}) {
    const CsrMatrix matrix = matrix_of_integers(70, 700, sparsity);
    for (const std::int64_t n : {1, 9, 16, 17, 33, 40, 64}) {
      for (const bool has_tokens : {false, true}) {
        expect_exact(matrix, n, has_tokens, n % 2 == 0);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(IntegerProduct, OfNoColumnsAndNoEntriesIsZero) {
  expect_exact({5, 0, {0, 0, 0, 0, 0, 0}, {}, {}}, 9, false, true);
  expect_exact(matrix_of_integers(5, 30, 1), 16, true, false);
}

TEST_P(IntegerProduct, AddsScaledSumsOfGroups) {
  const CsrMatrix matrix = matrix_of_integers(70, 300, 0.8);
  for (const std::int64_t columns : {32, 128}) {
    const std::int64_t groups = (matrix.cols + columns - 1) / columns;
    std::vector<float> scales(index(matrix.rows * groups));
    for (std::size_t i = 0; i < scales.size(); ++i)
      scales[i] = 0.37F - 0.01F * static_cast<float>(i);
    CsrView view = view_of(matrix);
    view.groups = {columns, scales};
    for (const std::int64_t n : {13, 16, 17, 40, 64}) {
      const std::int64_t ld = compact_row_floats(n);
      const FloatBuffer b = integers_of_b(matrix.cols, n, false, ld);
      const IntegerMatrix integers(view, {GetParam(), 3, 255, n});
      ASSERT_TRUE(integers.values().are_exact);
      std::vector<float> c(index(matrix.rows * n), -7);
      FloatBuffer workspace(index(CompactMatrix::k_workspace_floats));
      for (std::int64_t part = 0; part < integers.parts(); ++part) {
        integers.run(part, {.b = b.data(), .ldb = ld, .c = c.data(), .ldc = n, .n = n}, false,
                     integers.values(), workspace.data());
      }

      for (std::int64_t row = 0; row < matrix.rows; ++row) {
        for (std::int64_t j = 0; j < n; ++j) {
          std::vector<std::int64_t> sums(index(groups), 0);
          for (std::int64_t i = matrix.row_ptrs[index(row)]; i < matrix.row_ptrs[index(row) + 1];
               ++i) {
            const std::int64_t col = matrix.col_idxs[index(i)];
            sums[index(col / columns)] +=
                static_cast<std::int64_t>(matrix.values[index(i)] * b.data()[col * ld + j]);
          }
          float expected = 0;
          for (std::int64_t group = 0; group < groups; ++group) {
            expected = std::fma(scales[index(row * groups + group)],
                                static_cast<float>(sums[index(group)]), expected);
          }
          ASSERT_EQ(c[index(row * n + j)], expected)
              << "C[" << row << "][" << j << "], n = " << n << ", groups of " << columns;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, IntegerProduct, testing::Values(HostIsa::avx512, HostIsa::avx2),
                         [](const auto& test) { return to_string(test.param); });

TEST(IntegerMatrix, KnowsWhichValuesAreExact) {
  const CsrMatrix pattern{1, 4, {0, 4}, {0, 1, 2, 3}, {}};
  const IntegerMatrix integers(view_of(pattern), {HostIsa::avx2, 1, 1 << 15, 64});

  EXPECT_FALSE(integers.values().are_exact);
  EXPECT_TRUE(integers.arrange(std::vector<float>{-128, 127, 127, -128}).are_exact);
  EXPECT_EQ(integers.arrange(std::vector<float>{-128, 127, 127, -128}).parts.size(), 1);
  EXPECT_FALSE(integers.arrange(std::vector<float>{-128, 128, 128, -129}).are_exact);
  EXPECT_TRUE(integers.arrange(std::vector<float>{-128, 128, 128, -128}).are_exact);
}

TEST(IntegerMatrix, IsExactInGroupsWithScales) {
  CsrMatrix matrix{1, 1024, {0, 1024}, {}, std::vector<float>(1024, -128)};
  for (int col = 0; col < 1024; ++col) matrix.col_idxs.push_back(col);
  const std::vector<float> scales(8, 1);
  CsrView view = view_of(matrix);

  EXPECT_FALSE(IntegerMatrix(view, {HostIsa::avx2, 1, 255, 64}).values().are_exact);
  view.groups = {128, scales};
  EXPECT_TRUE(IntegerMatrix(view, {HostIsa::avx2, 1, 255, 64}).values().are_exact);
}

}  // namespace
