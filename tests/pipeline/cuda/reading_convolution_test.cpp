// Convolutions of the CUDA families that read A, on the emulated driver: Y has the bits that the
// host's family `reference` gives, for images of the size that they were compiled for and others.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kernels/cuda/csr/csr_code.hpp"
#include "spjit/error.hpp"
#include "tests/support/cuda/cuda_convolutions.hpp"
#include "tests/support/cuda/reading_kernels.hpp"
#include "tests/support/padded_3x3.hpp"
#include "tests/support/scoped_variable.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;
using testing::HasSubstr;

constexpr std::array k_layouts_of_images = {Layout::row_major, Layout::tokens_major};

class ReadingConvolutions : public ::testing::Test {
 protected:
  static void expect_reference(const LayerCase& item, const Kernel& kernel) {
    const CudaLayer& layer = item.spec.layer;
    SCOPED_TRACE(to_string(*layer.convolution) + " " + std::string(to_string(layer.b_layout)) +
                 " to " + std::string(to_string(layer.c_layout)));
    const LayerOperands operands(item);
    const std::vector<float> expected = reference_layer(item, operands);

    EXPECT_TRUE(same_layer(run_layer(kernel, operands), expected, layer.epilogue.activation));
    EXPECT_TRUE(
        same_layer(launch_shifted(kernel, operands, {1, 1}), expected, layer.epilogue.activation));
  }
  static void expect_reference(const LayerCase& item) {
    expect_reference(item, reading_kernel(problem_of(item), "csr"));
  }

  ScopedVariable driver_{"SPJIT_CUDA_DRIVER", SPJIT_EMULATED_CUDA};
};

TEST_F(ReadingConvolutions, HaveTheBitsOfTheReference) {
  for (const Convolution& of : geometries()) {
    for (const Layout x : k_layouts_of_images) {
      for (const Layout y : k_layouts_of_images) {
        Problem problem = problem_of_convolution(of, 16);
        problem.b.layout = x;
        problem.c.layout = y;
        const LayerCase item = convolution_case(problem, 5);
        if (item.spec.layer.convolution) expect_reference(item);  // else a plain product
      }
    }
  }
}

Convolution drawn_convolution(std::mt19937_64& random) {
  const auto pick = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  Convolution of;
  of.channels = pick(1, 6);
  of.kernel_height = pick(1, 4);
  of.kernel_width = pick(1, 4);
  of.stride_height = pick(1, 3);
  of.stride_width = pick(1, 3);
  of.pad_top = pick(0, 3);
  of.pad_left = pick(0, 3);
  of.pad_bottom = pick(1, 3);
  of.pad_right = pick(1, 3);
  of.dilation_height = pick(1, 2);
  of.dilation_width = pick(1, 2);
  of.height = pick(7, 14);
  of.width = pick(7, 14);
  return of;
}

TEST_F(ReadingConvolutions, GoWithBatchesLeadingDimensionsEpiloguesAndValuesAtRunTime) {
  std::mt19937_64 random(20261125);
  const auto pick = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  for (int i = 0; i < 60; ++i) {
    Problem problem = problem_of_convolution(drawn_convolution(random), pick(1, 30), pick(0, 100));
    problem.b.layout = k_layouts_of_images[index(pick(0, 1))];
    problem.c.layout = k_layouts_of_images[index(pick(0, 1))];
    problem.epilogue = epilogue_of(static_cast<unsigned>(pick(0, 7)), Activation::relu);
    problem.runtime_values = pick(0, 1) == 1;
    problem.b.leading_dimension = checked_problem(problem).ldb() + pick(0, 5);
    problem.c.leading_dimension = checked_problem(problem).ldc() + pick(0, 5);
    LayerCase item = convolution_case(problem, 4);
    if (!item.spec.layer.convolution) continue;
    const Convolution& of = *item.spec.layer.convolution;
    item.sizes.batch = pick(1, 3);
    item.sizes.b.distance =
        extent_of(item.spec.layer.b_layout, of.channels, of.height * of.width, item.sizes.b.ld);
    item.sizes.c.distance =
        extent_of(item.spec.layer.c_layout, item.matrix.rows, item.sizes.n, item.sizes.c.ld);
    item.sizes.residual.distance = item.sizes.c.distance;
    expect_reference(item);
  }
}

TEST_F(ReadingConvolutions, OfSizesAtRunTimeTakeEveryImage) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 20; ++i) {
    const Convolution typical = drawn_convolution(random);
    for (const Layout layout : k_layouts_of_images) {
      Problem problem = problem_of_convolution(typical, 9, 40);
      problem.b.layout = problem.c.layout = layout;
      LayerCase item = convolution_case(problem, 4);
      if (!item.spec.layer.convolution) continue;
      Problem any = problem_of(item);
      any.n = Extent::at_run_time(0);
      any.b.leading_dimension = any.c.leading_dimension = 0;
      const Kernel kernel = reading_kernel(any, "csr");
      for (const std::int64_t further : {0, 1, 5}) {
        Problem other = problem;
        other.convolution->height += further;
        other.convolution->width += 2 * further;
        LayerCase run = convolution_case(other, 4);
        run.sizes.height = other.convolution->height;
        run.sizes.width = other.convolution->width;
        expect_reference(run, kernel);
      }
    }
  }
}

TEST_F(ReadingConvolutions, OfMoreTapsThanAMaskHasAreTaken) {
  Convolution of{.channels = 2, .height = 20, .width = 40};
  of.kernel_height = of.kernel_width = 13;
  of.pad_top = of.pad_left = of.pad_bottom = of.pad_right = 6;

  expect_reference(convolution_case(problem_of_convolution(of, 5, 90), 4));
}

TEST_F(ReadingConvolutions, OfImagesWithMorePixelsThanNumbersAreRefused) {
  Convolution of = padded_3x3(1, 1 << 17, 1 << 15);
  of.stride_height = of.stride_width = 4;
  const Problem problem = problem_of_convolution(of, 1, 0);

  EXPECT_THAT(reading_refusal(problem, "csr"),
              HasSubstr("images of 4294967296 pixels; it takes up to 4294967295"));
  of.height -= 1;
  EXPECT_EQ(reading_refusal(problem_of_convolution(of, 1, 0), "csr"), "");
}

TEST_F(ReadingConvolutions, OfARunWithMorePixelsThanNumbersAreRefused) {
  Problem problem = problem_of_convolution(padded_3x3(1, 8, 8), 1, 0);
  problem.convolution->stride_height = problem.convolution->stride_width = 4;
  problem.n = Extent::at_run_time(0);
  problem.b.layout = problem.c.layout = Layout::tokens_major;  // of pixels that lie side by side
  const Kernel kernel = reading_kernel(problem, "csr");
  // Apart from each other; nothing is read or written.
  const auto* const x = std::bit_cast<const float*>(std::uintptr_t{1} << 40);
  auto* const y = std::bit_cast<float*>(std::uintptr_t{1} << 45);

  try {
    kernel.launch({.b = x, .c = y, .height = 1 << 17, .width = 1 << 15});
    ADD_FAILURE() << "launched";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("takes up to 4294967295"));
  }
}

}  // namespace
