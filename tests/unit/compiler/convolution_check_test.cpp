// That the check of a convolution fails: kernels that are wrong in one way each.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "compiler/float64_reference.hpp"
#include "compiler/kernel_check.hpp"
#include "compiler/verification.hpp"
#include "kernels/host/operands/placement.hpp"
#include "tests/support/compile_testing.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;
using testing::HasSubstr;

/// 3 channels of 7 x 9 to 4 x 8 pixels.
Convolution checked_images() {
  return {.channels = 3,
          .height = 7,
          .width = 9,
          .kernel_height = 3,
          .kernel_width = 2,
          .stride_height = 2,
          .stride_width = 1,
          .pad_top = 1,
          .pad_left = 0,
          .pad_bottom = 1,
          .pad_right = 0};
}

CheckRun run_of_images(const Convolution& of, std::int64_t gap = 0,
                       Layout layout = Layout::row_major) {
  const std::int64_t n = of.output_height() * of.output_width();
  const bool has_tokens = layout == Layout::tokens_major;
  return {.n = n,
          .b = {(has_tokens ? of.channels : of.height * of.width) + gap, layout},
          .c = {(has_tokens ? 10 : n) + gap, layout},
          .convolution = of};
}

/// An element of B: row k and column j of the image of a run, 0 outside; `wrong` may be elsewhere.
using Gather =
    std::function<float(const Arguments&, const Convolution&, std::int64_t k, std::int64_t j)>;

float gather_right(const Arguments& operands, const Convolution& of, std::int64_t k,
                   std::int64_t j) {
  const PatchElement element = patch_element(of, k, j);
  if (element.pixel < 0) return 0;
  const bool has_tokens = operands.b.layout == Layout::tokens_major;
  return operands.b.as<float>()[has_tokens ? element.pixel * operands.b.ld + element.channel
                                           : element.channel * operands.b.ld + element.pixel];
}

void convolve(const CsrMatrix& weights, Convolution of, const Arguments& operands,
              const Gather& gather) {
  of.height = operands.height;
  of.width = operands.width;
  const bool has_tokens = operands.c.layout == Layout::tokens_major;
  for (std::int64_t row = 0; row < weights.rows; ++row) {
    for (std::int64_t j = 0; j < operands.n; ++j) {
      float sum = 0;
      for (auto i = weights.row_ptrs[index(row)]; i < weights.row_ptrs[index(row) + 1]; ++i) {
        sum = std::fma(weights.values[index(i)],
                       gather(operands, of, weights.col_idxs[index(i)], j), sum);
      }
      operands.c.as<float>()[has_tokens ? j * operands.c.ld + row : row * operands.c.ld + j] = sum;
    }
  }
}

class ConvolutionCheck : public testing::Test {
 protected:
  /// What is said of a kernel that gathers B so.
  [[nodiscard]] std::string said(const Gather& gather) const {
    return said_of_run(
        [&](const Arguments& operands) { convolve(weights_, checked_images(), operands, gather); });
  }
  [[nodiscard]] std::string said_of_run(const RunKernel& run) const {
    return check_kernel({.matrix = weights_, .runs = runs_, .run = run}).problem;
  }

  CsrMatrix weights_ = random_matrix(10, 18, 0.5);
  std::vector<CheckRun> runs_ = {run_of_images(checked_images()),
                                 run_of_images(checked_images(), 3)};
};

TEST_F(ConvolutionCheck, PassesARightKernelInEveryLayout) {
  runs_.push_back(run_of_images(checked_images(), 0, Layout::tokens_major));
  runs_.push_back(run_of_images(checked_images(), 2, Layout::tokens_major));

  const CheckResult result =
      check_kernel({.matrix = weights_, .runs = runs_, .run = [&](const Arguments& operands) {
                      convolve(weights_, checked_images(), operands, gather_right);
                    }});

  EXPECT_EQ(result.problem, "");
  EXPECT_EQ(result.rows_checked, 10);
  EXPECT_EQ(result.columns_checked, 4 * 8);
  EXPECT_GT(result.max_abs_error, 0);
}

TEST_F(ConvolutionCheck, FailsATapOfAnotherPlace) {
  EXPECT_THAT(said([](const Arguments& a, const Convolution& of, std::int64_t k, std::int64_t j) {
                return gather_right(a, of, k == 8 ? 9 : k, j);
              }),
              HasSubstr("wrong result: C["));
}

TEST_F(ConvolutionCheck, FailsPaddingThatIsTheEdgeOfTheImage) {
  const std::string said_of_edge =
      said([](const Arguments& a, const Convolution& of, std::int64_t k, std::int64_t j) {
        if (patch_element(of, k, j).pixel >= 0) return gather_right(a, of, k, j);
        const std::int64_t below = j / of.output_width() == 0 ? k + of.kernel_width : k;
        return gather_right(a, of, below, j);
      });

  EXPECT_THAT(said_of_edge, HasSubstr("wrong result: C["));
  EXPECT_THAT(said_of_edge, HasSubstr("; 3x7x9, kernel 3x2, stride 2x1, pad 1 0 1 0"));
}

TEST_F(ConvolutionCheck, FailsTheLastPixelOfTheOutputAlone) {
  const std::string last =
      said([](const Arguments& a, const Convolution& of, std::int64_t k, std::int64_t j) {
        return gather_right(a, of, k, j == a.n - 1 ? j - 1 : j);
      });

  EXPECT_THAT(last, HasSubstr("][31] is "));
}

TEST_F(ConvolutionCheck, FailsAnImageOfTheCompiledSizeWhereARunHasAnother) {
  Convolution larger = checked_images();
  larger.height += 3;
  larger.width += 2;
  runs_.push_back(run_of_images(larger));
  // Rows are as far apart as the compiled image has them.
  const std::string wrong = said_of_run([&](const Arguments& operands) {
    convolve(weights_, checked_images(), operands,
             [&](const Arguments& a, const Convolution& of, std::int64_t k, std::int64_t j) {
               const PatchElement element = patch_element(of, k, j);
               if (element.pixel < 0) return 0.0F;
               const std::int64_t pixel =
                   element.pixel / of.width * checked_images().width + element.pixel % of.width;
               return a.b.as<float>()[element.channel * a.b.ld + pixel];
             });
  });

  EXPECT_EQ(said(gather_right), "");
  EXPECT_THAT(wrong, HasSubstr("wrong result: C["));
  EXPECT_THAT(wrong, HasSubstr("n = 50; "));
  EXPECT_THAT(wrong, HasSubstr("; 3x10x11, kernel 3x2"));
}

TEST_F(ConvolutionCheck, ComparesEachImageOfAsManyPixels) {
  Convolution turned = checked_images();
  turned.height = 15;
  turned.width = 5;
  runs_.push_back(run_of_images(turned));
  ASSERT_EQ(runs_.front().n, runs_.back().n);

  EXPECT_EQ(said(gather_right), "");
  EXPECT_NE(said([](const Arguments& a, const Convolution& of, std::int64_t k, std::int64_t j) {
              return gather_right(a, of, k, of.width == 9 && j == 5 ? 6 : j);
            }),
            "");
}

TEST_F(ConvolutionCheck, FailsAReadBehindTheImage) {
  EXPECT_THAT(said([](const Arguments& a, const Convolution& of, std::int64_t k, std::int64_t j) {
                const bool has_gap = a.b.ld > of.height * of.width;
                const float behind = has_gap ? 0 * a.b.as<float>()[of.height * of.width] : 0;
                return gather_right(a, of, k, j) + behind;
              }),
              HasSubstr(" is NaN"));
}

TEST_F(ConvolutionCheck, FailsPixelsThatAreNotWrittenAndGapsThatAre) {
  const auto right = [&](const Arguments& operands) {
    convolve(weights_, checked_images(), operands, gather_right);
  };
  EXPECT_THAT(said_of_run([&](const Arguments& operands) {
                const float before = operands.c.as<float>()[3 * operands.c.ld + 8];
                right(operands);
                operands.c.as<float>()[3 * operands.c.ld + 8] = before;
              }),
              HasSubstr("C[3][8] was not written"));
  EXPECT_THAT(said_of_run([&](const Arguments& operands) {
                right(operands);
                if (operands.c.ld > operands.n) operands.c.as<float>()[operands.n] = 0;
              }),
              HasSubstr("the kernel wrote outside C, behind row 0"));
}

TEST_F(ConvolutionCheck, CountsTheImageAndNotItsPatches) {
  const CheckedKernel kernel{.matrix = weights_, .runs = runs_};

  EXPECT_EQ(kernel.bytes(), 4 * (3 * (63 + 3) + 10 * 32 + 10 * 35));
}

/// Of a kernel for such images.
KernelInfo info_of_checked_images(Layout layout) {
  const CheckRun run = run_of_images(checked_images(), 0, layout);
  KernelInfo info;
  info.rows = 10;
  info.cols = 18;
  info.n = run.n;
  info.b_layout = info.c_layout = layout;
  info.ldb = run.b.leading_dimension;
  info.ldc = run.c.leading_dimension;
  info.convolution = checked_images();
  return info;
}

TEST(CheckRunsOfImages, AreItsOwnAndOneWithGaps) {
  const std::vector<CheckRun> rows = check_runs(info_of_checked_images(Layout::row_major));
  const std::vector<CheckRun> tokens = check_runs(info_of_checked_images(Layout::tokens_major));

  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].b.leading_dimension, 63);
  EXPECT_EQ(rows[0].c.leading_dimension, 32);
  EXPECT_EQ(rows[1].b.leading_dimension, 66);
  EXPECT_EQ(rows[1].c.leading_dimension, 35);
  EXPECT_EQ(rows[1].convolution, checked_images());
  ASSERT_EQ(tokens.size(), 2U);
  EXPECT_EQ(tokens[1].b.leading_dimension, 6);
  EXPECT_EQ(tokens[1].c.leading_dimension, 13);
}

TEST(CheckRunsOfImages, OfRunTimeSizesHaveAnImageOfOtherSizes) {
  KernelInfo info = info_of_checked_images(Layout::row_major);
  info.runtime_n = true;

  const std::vector<CheckRun> runs = check_runs(info);

  ASSERT_EQ(runs.size(), 3U);
  ASSERT_TRUE(runs[2].convolution);
  const Convolution& other = *runs[2].convolution;
  EXPECT_NE(other.height, 7);
  EXPECT_NE(other.width, 9);
  EXPECT_NE(other.output_height(), 4);
  EXPECT_NE(other.output_width(), 8);
  EXPECT_EQ(runs[2].n, other.output_height() * other.output_width());
  EXPECT_GE(runs[2].b.leading_dimension, other.height * other.width);
  EXPECT_GE(runs[2].c.leading_dimension, runs[2].n);
}

TEST(Float64OfImages, IsThatOfAllPatches) {
  const CsrMatrix weights = random_matrix(10, 18, 0.5);
  const Convolution of = checked_images();
  const std::int64_t n = of.output_height() * of.output_width();
  const std::vector<float> image = dense_values(3 * 63, 5);
  std::vector<float> patches;
  for (std::int64_t i = 0; i < 18 * n; ++i) {
    const PatchElement element = patch_element(of, i / n, i % n);
    patches.push_back(element.pixel < 0 ? 0 : image[index(element.channel * 63 + element.pixel)]);
  }
  const Cancellation none;
  CancelPace pace(none);
  ReferenceRows of_image(weights, image.data(), {{Layout::row_major, 63, {3, 63, 1}}, &of}, {n, n});
  ReferenceRows of_patches(weights, patches.data(), {{Layout::row_major, n, {18, n, 1}}}, {n, n});

  for (std::int64_t row = 0; row < 10; ++row) {
    const auto expected = of_patches.row(row, pace);
    const auto computed = of_image.row(row, pace);
    ASSERT_EQ(computed.size(), index(n));
    for (std::int64_t j = 0; j < n; ++j) {
      EXPECT_EQ(computed[index(j)].value, expected[index(j)].value) << row << " " << j;
      EXPECT_EQ(computed[index(j)].bound, expected[index(j)].bound) << row << " " << j;
    }
  }
}

TEST(CompiledConvolution, SaysWhatItIsOfAndIsCheckedCompletely) {
  Problem problem;
  problem.operation = Operation::conv2d;
  problem.a = random_matrix(10, 18, 0.5);
  problem.convolution = checked_images();
  problem.n = Extent::at_run_time(0);

  CompileOptions options;
  options.verify = VerifyMode::sampled;

  const Kernel kernel = Compiler(options, uncached()).compile(problem);

  EXPECT_EQ(kernel.info().convolution, checked_images());
  EXPECT_EQ(kernel.info().n, 32);
  EXPECT_EQ(kernel.info().ldb, 63);
  EXPECT_EQ(kernel.info().cols, 18);
  EXPECT_TRUE(kernel.info().verification.complete());
}

}  // namespace
