// A's values as a matrix of A's pattern, which a kernel of run-time values checks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "plan/convolution.hpp"
#include "spjit/error.hpp"
#include "tests/support/layer_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;
using testing::HasSubstr;

constexpr std::int64_t k_columns_of_b = 3;

Kernel kernel_for(const Problem& problem) {
  return Compiler(options_of(), uncached()).compile(problem);
}

Problem valueless(const CsrMatrix& matrix) {
  Problem problem = problem_of(matrix, k_columns_of_b);
  problem.runtime_values = true;
  return problem;
}

std::vector<float> c_with(const Kernel& kernel, const PreparedValues& values) {
  const std::vector<float> b = dense_values(kernel.cols() * kernel.n());
  std::vector<float> c(index(kernel.rows() * kernel.n()), -7.0F);
  kernel.run({.b = b.data(), .c = c.data(), .values = &values});
  return c;
}

/// The same matrix, with the entries of each row the other way round.
CsrMatrix with_rows_turned(CsrMatrix matrix) {
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    const auto first = matrix.row_ptrs[index(row)];
    const auto last = matrix.row_ptrs[index(row + 1)];
    std::reverse(matrix.col_idxs.begin() + first, matrix.col_idxs.begin() + last);
    std::reverse(matrix.values.begin() + first, matrix.values.begin() + last);
  }
  return matrix;
}

/// What preparing throws, or "".
std::string why_refused(const Kernel& kernel, const CsrMatrix& matrix) {
  try {
    static_cast<void>(kernel.prepare_values(matrix));
  } catch (const InvalidArgument& error) {
    return error.what();
  } catch (const InvalidMatrix& error) {
    return std::string("invalid: ") + error.what();
  }
  return {};
}

TEST(ValuesOfAMatrix, AreThoseOfItsCsrInAnyOrderOfColumns) {
  const CsrMatrix matrix = random_matrix(37, 43, 0.4);
  const Kernel kernel = kernel_for(valueless(matrix));
  CsrMatrix other = matrix;
  other.values = dense_values(matrix.nnz(), 9);
  const std::vector<float> expected = c_with(kernel, kernel.prepare_values(other.values));

  EXPECT_TRUE(same_bits(c_with(kernel, kernel.prepare_values(other)), expected));
  EXPECT_TRUE(same_bits(c_with(kernel, kernel.prepare_values(with_rows_turned(other))), expected));
  EXPECT_FALSE(same_bits(c_with(kernel, kernel.prepare_values(matrix)), expected));
}

TEST(ValuesOfAMatrix, OfAnotherPatternAreRefused) {
  const CsrMatrix matrix{.rows = 3,
                         .cols = 5,
                         .row_ptrs = {0, 2, 2, 4},
                         .col_idxs = {0, 3, 1, 2},
                         .values = {1, 2, 3, 4}};
  const Kernel kernel = kernel_for(valueless(matrix));
  CsrMatrix moved = matrix;
  moved.col_idxs = {0, 4, 1, 2};
  CsrMatrix other_rows = matrix;
  other_rows.row_ptrs = {0, 2, 4, 4};
  CsrMatrix wider = matrix;
  wider.cols = 10;
  CsrMatrix lower = matrix;
  lower.rows = 4;
  lower.row_ptrs.push_back(4);
  CsrMatrix fewer = matrix;
  fewer.row_ptrs.back() = 3;
  fewer.col_idxs.pop_back();
  fewer.values.pop_back();
  CsrMatrix empty;
  empty.row_ptrs = {0};

  EXPECT_EQ(why_refused(kernel, moved),
            "a matrix [3 x 5] with 4 entries, not all at the same places, is given; expected the "
            "pattern that this kernel was compiled for, [3 x 5] with 4 entries: compile another "
            "one for this");
  EXPECT_THAT(why_refused(kernel, other_rows), HasSubstr("not all at the same places"));
  EXPECT_THAT(why_refused(kernel, wider), HasSubstr("a matrix [3 x 10] with 4 entries is given"));
  EXPECT_THAT(why_refused(kernel, lower), HasSubstr("a matrix [4 x 5] with 4 entries is given"));
  EXPECT_THAT(why_refused(kernel, fewer), HasSubstr("a matrix [3 x 5] with 3 entries is given"));
  EXPECT_THAT(why_refused(kernel, empty), HasSubstr("[0 x 0] with 0 entries"));
  EXPECT_EQ(why_refused(kernel, matrix), "");
}

TEST(ValuesOfAMatrix, ThatIsNoneAreRefused) {
  const CsrMatrix matrix = random_matrix(20, 30, 0.4);
  CsrMatrix damaged = matrix;
  damaged.col_idxs[1] = damaged.col_idxs[0];

  EXPECT_THAT(why_refused(kernel_for(valueless(matrix)), damaged), HasSubstr("invalid: "));
  EXPECT_THAT(why_refused(kernel_for(problem_of(matrix, k_columns_of_b)), matrix),
              HasSubstr("has A's values"));
}

TEST(ValuesOfAMatrix, AreTakenWhereverTheKernelComesFrom) {
  const CsrMatrix matrix = random_matrix(20, 30, 0.4);
  CsrMatrix other = random_matrix(20, 30, 0.4, 7);
  const Kernel made = kernel_for(valueless(matrix));
  const Kernel read = Kernel::from_artifact(made.artifact());
  const std::vector<float> expected = c_with(made, made.prepare_values(matrix.values));

  EXPECT_TRUE(same_bits(c_with(read, read.prepare_values(matrix)), expected));
  EXPECT_THAT(why_refused(read, other), HasSubstr("expected the pattern"));
  Artifact without = made.artifact();
  without.record = R"({"family": ")" + made.info().family + R"("})";
  EXPECT_THAT(why_refused(Kernel::from_artifact(without), matrix),
              HasSubstr("does not say which pattern A has"));
}

TEST(ValuesOfAMatrix, OfGroupsHaveTheirChannelsOrAll) {
  constexpr std::int64_t k_groups = 2;
  for (const std::int64_t kernel_size : {1, 3}) {
    Convolution convolution;
    convolution.channels = 8;
    convolution.height = convolution.width = 7;
    convolution.kernel_height = convolution.kernel_width = kernel_size;
    convolution.groups = k_groups;
    const CsrMatrix weights = random_matrix(6, 4 * kernel_size * kernel_size, 0.4);
    Problem problem;
    problem.a = weights;
    problem.n = (8 - kernel_size) * (8 - kernel_size);
    problem.operation = Operation::conv2d;
    problem.convolution = convolution;
    problem.runtime_values = true;
    const Kernel kernel = kernel_for(problem);
    CsrMatrix moved = weights;
    for (std::int32_t& column : moved.col_idxs)
      column = static_cast<std::int32_t>(weights.cols) - 1 - column;
    moved.sort_columns();

    EXPECT_EQ(why_refused(kernel, weights), "");
    EXPECT_EQ(why_refused(kernel, with_all_channels(weights, convolution)), "");
    EXPECT_THAT(why_refused(kernel, moved), HasSubstr("not all at the same places"));
  }
}

}  // namespace
