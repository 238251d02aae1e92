#include "tools/options/operands.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/compile_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;
using spjit::cli::OperandFiles;
using spjit::cli::Operands;
using testing::HasSubstr;

Problem layer_of(Layout layout) {
  Problem problem = problem_of(random_matrix(30, 20, 0.7), 9);
  problem.b.layout = problem.c.layout = layout;
  problem.panel_columns = 16;
  problem.epilogue = {.scale = true, .bias = true, .residual = true};
  return problem;
}

Kernel reference_kernel(const Problem& problem) {
  CompileOptions options;
  options.policy.family = "reference";
  return Compiler(options, uncached()).compile(problem);
}

TEST(Operands, OfEveryLayoutGiveWhatFloat64Gives) {
  for (const Layout layout : {Layout::row_major, Layout::panel_major, Layout::tokens_major}) {
    const Problem problem = layer_of(layout);
    const Operands operands(problem, {}, 3);

    reference_kernel(problem).run(operands.arguments());
    const CheckResult result = operands.compare();

    EXPECT_EQ(result.problem, "") << to_string(layout);
    EXPECT_GT(result.max_error_over_bound, 0);
    EXPECT_EQ(result.rows_checked, 30);
    EXPECT_EQ(result.columns_checked, 9);
  }
}

TEST(Operands, ShowWhichOfABatchIsWrong) {
  const Problem problem = layer_of(Layout::tokens_major);
  const Operands operands(problem, {}, 3);
  reference_kernel(problem).run(operands.arguments());

  operands.c(2)[4 * 30 + 7] += 1;

  EXPECT_THAT(operands.compare().problem,
              AllOf(HasSubstr("C[7][4] is "), HasSubstr("(2 of a batch of 3)")));
}

TEST(Operands, WithoutARunAreWrong) {
  const Problem problem = layer_of(Layout::row_major);
  Operands operands(problem, {}, 1);
  EXPECT_THAT(operands.compare().problem, HasSubstr("is nan"));

  reference_kernel(problem).run(operands.arguments());
  operands.spoil_c();

  EXPECT_THAT(operands.compare().problem, HasSubstr("is nan"));
}

TEST(Operands, HaveTheNumbersOfFiles) {
  const Problem problem = layer_of(Layout::tokens_major);
  OperandFiles files;
  files.bias = {"bias.npy", std::vector<float>(30, 1000)};
  const Operands operands(problem, files, 1);

  reference_kernel(problem).run(operands.arguments());

  EXPECT_EQ(operands.compare().problem, "");
  EXPECT_GT(operands.c(0)[0], 900);
  EXPECT_LE(operands.arguments().scale[0], 1);
}

TEST(Operands, OfAProductHaveNoOthers) {
  const Problem problem = problem_of(random_matrix(30, 20, 0.7), 9);
  const Arguments arguments = Operands(problem, {}, 1).arguments();

  EXPECT_EQ(arguments.scale, nullptr);
  EXPECT_EQ(arguments.bias, nullptr);
  EXPECT_EQ(arguments.residual.data, nullptr);
}

TEST(Operands, KnowWhatTheyTake) {
  EXPECT_EQ(Operands::bytes(layer_of(Layout::tokens_major), 2), 4 * 2 * (20 * 9 + 2 * 30 * 9));
  EXPECT_EQ(Operands::bytes(layer_of(Layout::panel_major), 1), 4 * (20 * 16 + 2 * 30 * 16));
}

}  // namespace
