#include "plan/workload.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <stop_token>

#include "spjit/error.hpp"
#include "tests/support/compile_testing.hpp"

namespace {

using spjit::Workload;
using spjit::testing_support::problem_of;

spjit::CsrMatrix three_rows() {
  return {3, 4, {0, 2, 2, 6}, {0, 1, 0, 1, 2, 3}, {1, 1, 1, 1, 1, 1}};
}

TEST(Workload, CountsByHand) {
  const Workload work = spjit::workload_of(problem_of(three_rows(), 7), 2);

  EXPECT_EQ(work.rows, 2);
  EXPECT_EQ(work.cols, 4);
  EXPECT_EQ(work.nnz, 6);
  EXPECT_EQ(work.n, 7);
  EXPECT_EQ(work.threads, 2);
  EXPECT_EQ(work.m, 3);
  EXPECT_EQ(work.used_cols, 4);
  EXPECT_EQ(work.ldb, 7);
  EXPECT_EQ(work.ldc, 7);
  EXPECT_FALSE(work.panel_columns);
  EXPECT_DOUBLE_EQ(work.row_nnz_cv, std::sqrt(8.0 / 3) / 2);  // rows of 2, 0, 4
}

TEST(Workload, HasWhatTheProblemAsksFor) {
  spjit::Problem problem = problem_of(three_rows(), 7);
  problem.b.leading_dimension = 9;
  problem.c.leading_dimension = 8;
  problem.panel_columns = 32;

  const Workload work = spjit::workload_of(problem, 1);

  EXPECT_EQ(work.ldb, 9);
  EXPECT_EQ(work.ldc, 8);
  EXPECT_EQ(work.panel_columns, 32);
}

TEST(Workload, CountsTheColumnsWithEntries) {
  const spjit::CsrMatrix gaps{2, 9, {0, 2, 4}, {1, 8, 1, 7}, {1, 1, 1, 1}};
  const spjit::CsrMatrix very_wide{2, 1000, {0, 2, 4}, {1, 8, 1, 7}, {1, 1, 1, 1}};

  EXPECT_EQ(spjit::workload_of(problem_of(gaps, 7), 1).used_cols, 3);
  EXPECT_EQ(spjit::workload_of(problem_of(very_wide, 7), 1).used_cols, 4);  // a bound: the entries
}

TEST(Workload, CanBeCancelled) {
  std::stop_source stop;
  stop.request_stop();

  EXPECT_THROW(static_cast<void>(spjit::workload_of(problem_of(three_rows(), 7), 1,
                                                    {.deadline = {}, .stop = stop.get_token()})),
               spjit::Cancelled);
}

}  // namespace
