// Convolutions executed on the emulated driver: Y has the bits that the host's family `reference`
// gives, and those of the product with all patches on the same GPU.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/unrolled/cuda_patches.hpp"
#include "kernels/cuda/unrolled/cuda_tile.hpp"
#include "spjit/error.hpp"
#include "tests/support/cuda/cuda_convolutions.hpp"
#include "tests/support/far_cases.hpp"
#include "tests/support/padded_3x3.hpp"
#include "tests/support/scoped_variable.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;
using testing::HasSubstr;
using testing::Not;

constexpr std::array k_image_layouts = {Layout::row_major, Layout::tokens_major};

class CudaConvolutions : public ::testing::Test {
 protected:
  static void expect_reference(const LayerCase& item) {
    const CudaLayer& layer = item.spec.layer;
    SCOPED_TRACE(to_string(*layer.convolution) + " " + std::string(to_string(layer.b_layout)) +
                 " to " + std::string(to_string(layer.c_layout)) + " batch " +
                 std::to_string(item.sizes.batch) + " " + to_string(item.spec.tile));
    const LayerOperands operands(item);
    const std::vector<float> expected = reference_layer(item, operands);
    const Kernel kernel = layer_kernel(item);

    EXPECT_EQ(kernel.info().convolution, layer.convolution);
    EXPECT_TRUE(same_layer(run_layer(kernel, operands), expected, layer.epilogue.activation));
    EXPECT_TRUE(same_layer(launch_layer(kernel, operands), expected, layer.epilogue.activation));
  }

  template <class Work>
  static std::string refusal(const Work& work) {
    try {
      work();
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  }

  static std::string ptx_of(const LayerCase& item) {
    return join_texts(emit_ptx(plan_of(item), item.spec, 90));
  }

  ScopedVariable driver_{"SPJIT_CUDA_DRIVER", SPJIT_EMULATED_CUDA};
};

TEST_F(CudaConvolutions, HaveTheBitsOfTheReference) {
  unsigned number = 0;
  for (const Convolution& of : geometries()) {
    for (const Layout x : k_image_layouts) {
      for (const Layout y : k_image_layouts) {
        Problem problem = problem_of_convolution(of, 16);
        problem.b.layout = x;
        problem.c.layout = y;
        LayerCase item = convolution_case(problem, 5);
        if (!item.spec.layer.convolution) continue;  // a plain product
        item.spec.tile.tiles_a_block = std::int64_t{1} << number % 3;
        item.spec.tile.n1 = number++ % 2 == 0 ? 32 : 96;
        const CudaTile& tile = item.spec.tile;
        if (shared_bytes_of(item.spec.layer, tile) > k_cuda_shared_bytes) item.spec.tile.n1 = 32;
        item.spec.tile.unit_nonzeros = number % 3 == 0 ? 40 : 100'000;
        expect_reference(item);
      }
    }
  }
}

TEST_F(CudaConvolutions, HaveTheBitsOfTheProductWithAllPatches) {
  for (const Convolution& of : geometries()) {
    for (const Layout x : k_image_layouts) {
      Problem problem = problem_of_convolution(of, 16);
      problem.b.layout = x;
      LayerCase item = convolution_case(problem, 8);
      if (!item.spec.layer.convolution) continue;
      item.sizes.batch = 2;
      item.sizes.b.distance = extent_of(x, item.spec.layer.convolution->channels,
                                        of.height * of.width, item.sizes.b.ld);
      item.sizes.c.distance = item.matrix.rows * item.sizes.n;
      SCOPED_TRACE(to_string(of));
      const LayerOperands operands(item);

      EXPECT_TRUE(same_bits(launch_layer(layer_kernel(item), operands),
                            product_with_patches(item, operands)));
    }
  }
}

TEST_F(CudaConvolutions, GoWithBatchesLeadingDimensionsEpiloguesAndValuesAtRunTime) {
  std::mt19937_64 random(20261124);
  const auto pick = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  for (int i = 0; i < 100; ++i) {
    Convolution of{.channels = pick(1, 6),
                   .height = pick(3, 14),
                   .width = pick(3, 14),
                   .kernel_height = pick(1, 4),
                   .kernel_width = pick(1, 4),
                   .stride_height = pick(1, 3),
                   .stride_width = pick(1, 3),
                   .pad_top = pick(0, 3),
                   .pad_left = pick(0, 3),
                   .pad_bottom = pick(1, 3),
                   .pad_right = pick(1, 3),
                   .dilation_height = pick(1, 2),
                   .dilation_width = pick(1, 2)};
    if (of.output_height() < 1 || of.output_width() < 1) continue;
    Problem problem = problem_of_convolution(of, pick(1, 30), pick(0, 100));
    problem.b.layout = k_image_layouts[index(pick(0, 1))];
    problem.c.layout = k_image_layouts[index(pick(0, 1))];
    problem.epilogue = {.scale = pick(0, 1) == 1,
                        .bias = pick(0, 1) == 1,
                        .residual = pick(0, 1) == 1,
                        .activation = pick(0, 1) == 1 ? Activation::relu : Activation::none};
    problem.runtime_values = pick(0, 1) == 1;
    problem.b.leading_dimension = checked_problem(problem).ldb() + pick(0, 5);
    problem.c.leading_dimension = checked_problem(problem).ldc() + pick(0, 5);
    LayerCase item = convolution_case(problem, pick(1, 20));
    item.spec.tile.n1 = std::array{32, 64, 160}[index(pick(0, 2))];
    item.spec.tile.tiles_a_block = std::int64_t{1} << i % 3;
    if (shared_bytes_of(item.spec.layer, item.spec.tile) > k_cuda_shared_bytes) {
      item.spec.tile.tiles_a_block = 1;
    }
    item.spec.tile.unit_nonzeros = pick(1, 1000);
    item.reorder = static_cast<ReorderAlgorithm>(pick(0, 2));
    item.in_place = pick(0, 3) == 0;
    item.sizes.batch = std::array{0, 1, 3}[index(pick(0, 2))];
    item.sizes.b.distance = pick(0, 2000);
    item.sizes.c.distance =
        extent_of(problem.c.layout, item.matrix.rows, item.sizes.n, item.sizes.c.ld) + pick(0, 9);
    item.sizes.residual.distance = item.sizes.c.distance;
    SCOPED_TRACE(i);
    expect_reference(item);
  }
}

TEST_F(CudaConvolutions, OfManyTapsHaveMasksOfSeveralWords) {
  for (const auto& [height, width] :
       {std::pair{5, 5}, {8, 4}, {11, 3}, {11, 11}, {4, 32}, {16, 8}, {1, 32}}) {
    for (const Layout x : k_image_layouts) {
      Problem problem = problem_of_convolution({.channels = 2,
                                                .height = 12,
                                                .width = 33,
                                                .kernel_height = height,
                                                .kernel_width = width,
                                                .pad_top = height / 2,
                                                .pad_left = width / 2,
                                                .pad_bottom = height / 2,
                                                .pad_right = width / 2},
                                               9);
      problem.b.layout = x;
      expect_reference(convolution_case(problem, 9));
    }
  }
}

/// Rows of X, channels or pixels, are up to 2^32 bytes apart: the pointer moves, also back.
TEST_F(CudaConvolutions, ReachImagesGigabytesApart) {
  const Convolution of = padded_3x3(3, 5, 4);
  for (const Layout x : k_image_layouts) {
    for (const std::int64_t ldb :
         {std::int64_t{1} << 19, std::int64_t{1} << 29, k_cuda_max_leading_dimension}) {
      Problem problem = problem_of_convolution(of, 12);
      problem.b.layout = x;
      LayerCase item = convolution_case(problem, 4);
      const LayerOperands operands(item);
      LayerOperands near = operands;
      const std::vector<float> expected = reference_layer(item, operands);
      item.spec.ldb = ldb;
      SCOPED_TRACE(ldb);

      const CudaContext context = emulated_context();
      const CudaFunction function = load_ptx(context, ptx_of(item));
      const bool has_pixels = x == Layout::tokens_major;
      std::vector<std::int32_t> rows(has_pixels ? 20U : 3U);
      std::iota(rows.begin(), rows.end(), 0);
      FarRows far(context, rows, has_pixels ? 3 : 20, ldb);
      far.upload(near.b());
      DeviceBuffer c(context, expected.size() * sizeof(float));
      CudaParameters parameters({.b = {static_cast<const float*>(far.pointer()), {.ld = ldb}},
                                 .c = {static_cast<float*>(c.pointer()), {.ld = item.spec.ldc}},
                                 .n = item.spec.n});
      function.launch(shape_of(plan_of(item), item.spec), nullptr, parameters.places());
      context.synchronize();
      std::vector<float> computed(expected.size());
      c.download(std::as_writable_bytes(std::span(computed)));

      EXPECT_TRUE(same_bits(computed, expected));
    }
  }
}

TEST_F(CudaConvolutions, HavePredicatesOnlyWhereThereIsPadding) {
  Convolution of = padded_3x3(4, 9, 9);
  const std::string padded = ptx_of(convolution_case(problem_of_convolution(of, 10, 100), 10));
  of.pad_top = of.pad_left = of.pad_bottom = of.pad_right = 0;
  const std::string plain = ptx_of(convolution_case(problem_of_convolution(of, 10, 100), 10));
  of.pad_left = 1;  // of three taps each pixel of the left column has two
  const std::string left = ptx_of(convolution_case(problem_of_convolution(of, 10, 100), 10));

  EXPECT_THAT(padded, HasSubstr("@valid0 ld.global.nc.f32 t0,[pb+0]"));
  EXPECT_THAT(padded, HasSubstr("\nld.global.nc.f32 b,[pb+40]"));  // the tap in the middle
  EXPECT_THAT(padded, Not(HasSubstr("@valid4 ")));
  EXPECT_THAT(plain, Not(HasSubstr("valid")));
  EXPECT_THAT(plain, Not(HasSubstr("mask")));
  for (const int tap : {0, 3, 6}) {
    EXPECT_THAT(left, HasSubstr("@valid" + std::to_string(tap) + " "));
  }
  for (const int tap : {1, 2, 4, 5, 7, 8}) {
    EXPECT_THAT(left, Not(HasSubstr("@valid" + std::to_string(tap) + " ")));
  }
}

TEST_F(CudaConvolutions, OfOtherSizesAreRefusedInOneLine) {
  Convolution of = padded_3x3(2, 8, 8);
  EXPECT_EQ(convolution_refusal(of, false), "");
  EXPECT_THAT(convolution_refusal(of, true), HasSubstr("images whose size a run says"));
  of.kernel_height = of.kernel_width = 12;
  of.pad_top = of.pad_left = of.pad_bottom = of.pad_right = 6;
  EXPECT_THAT(convolution_refusal(of, false), HasSubstr("12 x 12 taps with padding"));
  of.kernel_height = 1;
  of.kernel_width = 33;
  of.pad_left = of.pad_right = 16;
  EXPECT_THAT(convolution_refusal(of, false), HasSubstr("up to 32 side by side"));
  of.height = of.width = 100;
  of.pad_top = of.pad_left = of.pad_bottom = of.pad_right = 0;
  EXPECT_EQ(convolution_refusal(of, false), "");  // no predicates, no masks
  of.height = of.width = std::int64_t{1} << 15;
  EXPECT_THAT(convolution_refusal(of, false), HasSubstr("32768 x 32768 pixels"));

  const LayerCase good = convolution_case(problem_of_convolution(padded_3x3(2, 8, 8), 5), 5);
  const auto said_of = [&](const auto& change) {
    LayerCase bad = good;
    change(bad.spec);
    return refusal([&] { static_cast<void>(emit_ptx(plan_of(bad), bad.spec, 90)); });
  };
  EXPECT_EQ(said_of([](CudaKernelSpec&) {}), "");
  EXPECT_THAT(said_of([](CudaKernelSpec& spec) { spec.n = 63; }), HasSubstr("n is 63"));
  EXPECT_THAT(said_of([](CudaKernelSpec& spec) { spec.ldb = 63; }), HasSubstr("ldb 63"));
  EXPECT_THAT(said_of([](CudaKernelSpec& spec) { spec.layer.convolution->channels = 3; }),
              HasSubstr("A has 18 columns"));
  EXPECT_THAT(said_of([](CudaKernelSpec& spec) { spec.tile.runtime_sizes = true; }),
              HasSubstr("images whose size a run says"));
}

TEST_F(CudaConvolutions, OfOtherSizesAreNoArguments) {
  const LayerCase item = convolution_case(problem_of_convolution(padded_3x3(2, 8, 8), 5), 5);
  const Kernel kernel = layer_kernel(item);
  LayerOperands operands(item);
  Arguments arguments = operands.arguments();

  arguments.height = arguments.width = 8;
  kernel.run(arguments);
  arguments.height = 9;
  EXPECT_THAT(refusal([&] { kernel.run(arguments); }), HasSubstr("height is 9"));
  arguments.height = 0;
  arguments.n = 63;
  EXPECT_THAT(refusal([&] { kernel.run(arguments); }), HasSubstr("n is 63"));
  arguments.n = 64;
  arguments.b.ld = 65;
  EXPECT_THAT(refusal([&] { kernel.run(arguments); }), HasSubstr("ldb 65"));
  arguments.b.ld = 0;
  kernel.run(arguments);
}

}  // namespace
