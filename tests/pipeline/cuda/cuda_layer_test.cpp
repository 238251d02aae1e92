// Epilogues and batches of CUDA kernels, executed on the emulated driver: C has the bits that the
// host's family `reference` gives.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <initializer_list>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/batch_item.hpp"
#include "kernels/cuda/unrolled/unrolled_executable.hpp"
#include "spjit/error.hpp"
#include "tests/support/activations.hpp"
#include "tests/support/cuda/cuda_cases.hpp"
#include "tests/support/cuda/cuda_layers.hpp"
#include "tests/support/scoped_variable.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;
using testing::HasSubstr;

std::string describe(const LayerCase& item) {
  const CudaLayer& layer = item.spec.layer;
  const Epilogue& epilogue = item.spec.layer.epilogue;
  return std::to_string(item.matrix.rows) + "x" + std::to_string(item.matrix.cols) + " n " +
         std::to_string(item.sizes.n) + " batch " + std::to_string(item.sizes.batch) + " " +
         to_string(item.spec.tile) + (epilogue.scale ? " scale" : "") +
         (epilogue.bias ? " bias" : "") + (epilogue.residual ? " residual" : "") +
         (item.in_place ? " in place " : " ") + std::string(to_string(layer.b_layout)) + " to " +
         std::string(to_string(layer.c_layout)) + " " + std::string(to_string(epilogue.activation));
}

class CudaLayers : public ::testing::Test {
 protected:
  static void expect_reference(const LayerCase& item) {
    SCOPED_TRACE(describe(item));
    const LayerOperands operands(item);
    const std::vector<float> expected = reference_layer(item, operands);
    const Kernel kernel = layer_kernel(item);

    EXPECT_TRUE(
        same_layer(run_layer(kernel, operands), expected, item.spec.layer.epilogue.activation));
    EXPECT_TRUE(
        same_layer(launch_layer(kernel, operands), expected, item.spec.layer.epilogue.activation));
  }

  template <class Work>
  static std::string refusal(const Work& work) {
    try {
      work();
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return {};
  }

  ScopedVariable driver_{"SPJIT_CUDA_DRIVER", SPJIT_EMULATED_CUDA};
};

TEST_F(CudaLayers, HasEveryEpilogueOfTheReference) {
  for (const Activation activation : k_activations) {
    for (unsigned bits = 0; bits < 8; ++bits) {
      CudaKernelSpec spec = cuda_spec(4, 33);
      spec.ldb = 35;
      spec.ldc = 34;
      spec.layer.epilogue = epilogue_of(bits, activation);
      spec.tile.runtime_sizes = bits % 2 == 1;
      spec.tile.unit_nonzeros = bits % 3 == 0 ? 30 : 100'000;
      spec.tile.tiles_a_block = 1 << bits % 3;
      LayerCase item = layer_case(random_matrix(19, 17, 0.7, bits + 1), spec);
      item.sizes.residual.ld = 40;
      expect_reference(item);
    }
  }
}

TEST_F(CudaLayers, HasTheEpilogueInRowsWithoutEntries) {
  const CsrMatrix nothing{150, 4, std::vector<std::int64_t>(151, 0), {}, {}};
  const CsrMatrix no_columns{3, 0, {0, 0, 0, 0}, {}, {}};
  for (const Activation activation : k_activations) {
    for (const CsrMatrix& matrix : {with_empty_rows(200), nothing, no_columns}) {
      for (const unsigned bits : {2U, 3U, 7U}) {
        CudaKernelSpec spec = cuda_spec(8, 3);
        spec.layer.epilogue = epilogue_of(bits, activation);
        expect_reference(layer_case(matrix, spec));
      }
    }
  }
}

TEST_F(CudaLayers, HasOneRowOneColumnAndDenseRows) {
  for (const CsrMatrix& matrix : {random_matrix(1, 1, 0), random_matrix(1, 50, 0.5),
                                  random_matrix(50, 1, 0.5), with_dense_row(37, 40)}) {
    for (const std::int64_t n : {1, 31, 32, 65}) {
      CudaKernelSpec spec = cuda_spec(16, n);
      spec.layer.epilogue = epilogue_of(7, Activation::silu);
      expect_reference(layer_case(matrix, spec));
    }
  }
}

TEST_F(CudaLayers, TakesTheResidualFromWhereCIsWritten) {
  for (const Activation activation : k_activations) {
    CudaKernelSpec spec = cuda_spec(8, 37);
    spec.ldc = 41;
    spec.layer.epilogue = epilogue_of(6, activation);
    LayerCase item = layer_case(with_dense_row(40, 30), spec);
    item.in_place = true;
    expect_reference(item);
    item.sizes.batch = 3;
    item.sizes.b.distance = 30 * 37;
    item.sizes.c.distance = item.sizes.residual.distance = 40 * 41;
    expect_reference(item);
  }
}

TEST_F(CudaLayers, OfABatchComputesEachProduct) {
  CudaKernelSpec spec = cuda_spec(8, 20);
  spec.ldb = spec.ldc = 70;
  spec.layer.epilogue = epilogue_of(4, Activation::relu);
  LayerCase item = layer_case(random_matrix(30, 25, 0.6), spec);
  item.sizes.residual.ld = 21;
  for (const std::int64_t batch : {1, 2, 5}) {
    item.sizes.batch = batch;
    // Apart, one B for all of them, and columns of one wider array.
    for (const auto& [b, c, residual] :
         {std::array{25 * 70, 30 * 70, 30 * 21}, std::array{0, 2100, 0}, std::array{23, 23, 700}}) {
      if (c == 23 && batch > 3) continue;
      item.sizes.b.distance = b;
      item.sizes.c.distance = c;
      item.sizes.residual.distance = residual;
      expect_reference(item);
    }
  }
}

TEST_F(CudaLayers, OfABatchGoesBackwards) {
  CudaKernelSpec spec = cuda_spec(4, 5);
  spec.layer.epilogue = epilogue_of(4, Activation::none);
  LayerCase item = layer_case(random_matrix(6, 7, 0.4), spec);
  item.sizes.batch = 3;
  item.sizes.b.distance = 35;
  item.sizes.c.distance = item.sizes.residual.distance = 30;
  const LayerOperands operands(item);
  const std::vector<float> expected = reference_layer(item, operands);
  LayerOperands backwards = operands;
  Arguments arguments = backwards.arguments();
  arguments = item_of(arguments, 2);
  for (Strides* operand :
       std::initializer_list<Strides*>{&arguments.b, &arguments.c, &arguments.residual}) {
    operand->distance = -operand->distance;
  }

  layer_kernel(item).run(arguments);

  EXPECT_TRUE(same_bits(backwards.c(), expected));
}

TEST_F(CudaLayers, OfABatchBeyondTheGridIsLaunchedInParts) {
  LayerCase item = layer_case(random_matrix(1, 1, 0), cuda_spec(1, 1));
  item.spec.tile.n1 = 1;
  item.sizes.batch = k_cuda_max_grid_z + 2;
  item.sizes.b.distance = item.sizes.c.distance = 1;
  const LayerOperands operands(item);

  EXPECT_TRUE(
      same_bits(launch_layer(layer_kernel(item), operands), reference_layer(item, operands)));
}

TEST_F(CudaLayers, OfNoColumnsOrProductsTouchesNothing) {
  CudaKernelSpec spec = cuda_spec(8, 20);
  spec.tile.runtime_sizes = true;
  spec.layer.epilogue = epilogue_of(7, Activation::silu);
  const LayerCase item = layer_case(random_matrix(30, 25, 0.6), spec);
  const Kernel kernel = layer_kernel(item);
  std::vector<float> c(30 * 20, k_untouched);
  const std::vector<float> operand(30 * 20);
  const Arguments arguments{.b = operand.data(),
                            .c = c.data(),
                            .scale = operand.data(),
                            .bias = operand.data(),
                            .residual = operand.data()};
  Arguments no_columns = arguments;
  no_columns.n = 0;
  Arguments no_products = arguments;
  no_products.batch = 0;

  for (const Arguments& nothing : {no_columns, no_products}) {
    kernel.run(nothing);
    kernel.launch(nothing);
  }

  EXPECT_TRUE(std::ranges::all_of(c, [](float value) { return value == k_untouched; }));
}

TEST_F(CudaLayers, OfRunTimeSizesHasTheEpilogueForEveryN) {
  CudaKernelSpec spec = cuda_spec(8, 64);
  spec.tile.runtime_sizes = true;
  spec.layer.epilogue = epilogue_of(7, Activation::gelu_erf);
  for (const std::int64_t n : {1, 7, 31, 32, 33, 64, 100}) {
    LayerCase item = layer_case(with_empty_rows(50), spec);
    item.sizes.n = n;
    item.sizes.b.ld = n + 1;
    item.sizes.c.ld = n + 2;
    item.sizes.residual.ld = n;
    expect_reference(item);
  }
}

TEST_F(CudaLayers, RefusesOperandsThatItCannotUse) {
  CudaKernelSpec spec = cuda_spec(8, 20);
  spec.layer.epilogue = epilogue_of(7, Activation::none);
  const LayerCase item = layer_case(random_matrix(30, 25, 0.6), spec);
  const Kernel kernel = layer_kernel(item);
  LayerOperands operands(item);
  const auto says = [&](auto change) {
    return refusal([&] {
      Arguments arguments = operands.arguments();
      change(arguments);
      kernel.run(arguments);
    });
  };

  EXPECT_EQ(says([](Arguments& /*unchanged*/) {}), "");
  EXPECT_THAT(says([](Arguments& of) { of.scale = nullptr; }), HasSubstr("scale is null"));
  EXPECT_THAT(says([](Arguments& of) { of.bias = nullptr; }), HasSubstr("bias is null"));
  EXPECT_THAT(says([](Arguments& of) { of.residual = nullptr; }), HasSubstr("residual is null"));
  EXPECT_THAT(says([](Arguments& of) { of.residual.ld = 19; }), HasSubstr("ldr is 19"));
  EXPECT_THAT(says([](Arguments& of) { of.batch = -1; }), HasSubstr("batch is -1"));
  EXPECT_THAT(says([](Arguments& of) { of.batch = 2; }), HasSubstr("c_distance is 0"));
}

/// Runs that Kernel did not check.
TEST_F(CudaLayers, RefusesWhatOnlyADeviceCannotHave) {
  CudaKernelSpec spec = cuda_spec(8, 20);
  spec.layer.epilogue = epilogue_of(7, Activation::none);
  const LayerCase item = layer_case(random_matrix(30, 25, 0.6), spec);
  const Kernel kernel = layer_kernel(item);
  LayerOperands operands(item);
  const auto program = make_program(plan_of(item), spec, 90);
  const auto executable = UnrolledCudaExecutable::load(program, kernel.image(), 0);
  const std::array<std::function<void(Arguments&)>, 3> losses = {
      [](Arguments& of) { of.scale = nullptr; }, [](Arguments& of) { of.bias = nullptr; },
      [](Arguments& of) { of.residual = nullptr; }};
  for (const auto& lose : losses) {
    Arguments arguments = operands.arguments();
    lose(arguments);

    EXPECT_THAT(refusal([&] { executable->run(arguments); }), HasSubstr("null pointer"));
    EXPECT_THAT(refusal([&] { executable->launch(arguments); }), HasSubstr("null pointer"));
  }
  Arguments far = operands.arguments();
  far.residual.ld = k_cuda_max_leading_dimension + 1;
  EXPECT_THAT(refusal([&] { executable->launch(far); }),
              HasSubstr("ldr 1073741824; expected leading dimensions of at most 1073741823"));
}

/// Rows to tokens, tokens to rows, tokens to tokens.
constexpr std::array k_layouts = {
    std::pair{Layout::row_major, Layout::tokens_major},
    std::pair{Layout::tokens_major, Layout::row_major},
    std::pair{Layout::tokens_major, Layout::tokens_major},
};

TEST_F(CudaLayers, HasTokensWithEveryEpilogue) {
  for (const auto& layouts : k_layouts) {
    for (const Activation activation : k_activations) {
      for (const unsigned bits : {0U, 1U, 2U, 5U, 7U}) {
        CudaKernelSpec spec = cuda_spec(40, 35);
        spec.layer.epilogue = epilogue_of(bits, activation);
        spec.tile.runtime_sizes = bits % 2 == 1;
        spec.tile.unit_nonzeros = bits == 5 ? 30 : 100'000;
        spec.tile.tiles_a_block = 1 << bits % 3;
        expect_reference(in_layouts(layer_case(random_matrix(75, 70, 0.8), spec), layouts));
      }
    }
  }
}

TEST_F(CudaLayers, HasTokensInBlocksOfEveryWidth) {
  for (const auto& layouts : k_layouts) {
    for (const std::int64_t n1 : {32, 64, 96, 128, 160, 256, 288, 512, 1024}) {
      for (const std::int64_t n : {1, 31, 32, 33, 300, 1030}) {
        CudaKernelSpec spec = cuda_spec(8, n);
        spec.tile.n1 = n1;
        expect_reference(in_layouts(layer_case(random_matrix(9, 33, 0.6), spec), layouts));
      }
    }
  }
}

/// Each tile of a block has its part of shared memory and its barrier, and its rows have their own
/// features: the stages of one are more than those of another.
TEST_F(CudaLayers, HasTokensInBlocksOfSeveralTiles) {
  CsrMatrix uneven = with_empty_rows(60);
  uneven.cols = 300;
  for (std::size_t i = 0; i < uneven.col_idxs.size(); ++i) {
    uneven.col_idxs[i] = static_cast<std::int32_t>(i < 7 ? 40 * i : 1);
  }
  for (const auto& layouts : k_layouts) {
    for (const std::int64_t tiles : {2, 3, 4}) {
      for (const std::int64_t n : {5, 70}) {
        CudaKernelSpec spec = cuda_spec(2, n);
        spec.tile.n1 = 64;
        spec.tile.tiles_a_block = tiles;
        expect_reference(in_layouts(layer_case(uneven, spec), layouts));
      }
    }
  }
}

TEST_F(CudaLayers, HasTokensOfEdgeCases) {
  const CsrMatrix nothing{150, 4, std::vector<std::int64_t>(151, 0), {}, {}};
  const CsrMatrix no_columns{3, 0, {0, 0, 0, 0}, {}, {}};
  CsrMatrix gaps = with_empty_rows(40);  // most features of B unused
  gaps.cols = 200;
  for (std::int32_t& column : gaps.col_idxs) column = column * 37 % 200;
  for (const auto& layouts : k_layouts) {
    for (const CsrMatrix& matrix :
         {random_matrix(1, 1, 0), random_matrix(1, 50, 0.5), random_matrix(50, 1, 0.5),
          with_dense_row(37, 40), nothing, no_columns, with_empty_rows(200), gaps}) {
      for (const bool has_residual : {false, true}) {
        CudaKernelSpec spec = cuda_spec(16, 5);
        spec.layer.epilogue = epilogue_of(has_residual ? 6 : 0, Activation::silu);
        spec.tile.tiles_a_block = has_residual ? 4 : 2;
        LayerCase item = layer_case(matrix, spec);
        item.in_place = has_residual;
        expect_reference(in_layouts(item, layouts));
      }
    }
  }
}

TEST_F(CudaLayers, HasTokensOfARunTimeN) {
  for (const auto& layouts : k_layouts) {
    CudaKernelSpec spec = cuda_spec(8, 64);
    spec.tile.runtime_sizes = true;
    spec.layer.epilogue = epilogue_of(4, Activation::relu);
    for (const std::int64_t n : {1, 31, 32, 65, 100}) {
      spec.tile.tiles_a_block = n % 4 == 0 ? 4 : 1;
      LayerCase item = in_layouts(layer_case(random_matrix(30, 45, 0.7), spec), layouts);
      item.sizes.n = n;
      if (!spec.layer.has_tokens_of_b()) item.sizes.b.ld = 101;
      if (!item.spec.layer.has_tokens_of_c()) item.sizes.c.ld = item.sizes.residual.ld = 102;
      expect_reference(item);
    }
  }
}

TEST_F(CudaLayers, TakesTokensOfBThatOverlap) {
  CudaKernelSpec spec = cuda_spec(8, 50);
  LayerCase item = in_layouts(layer_case(random_matrix(30, 45, 0.7), spec), k_layouts[2]);
  for (const std::int64_t ldb : {1, 7, 44}) {
    item.spec.ldb = item.sizes.b.ld = ldb;
    expect_reference(item);
  }
}

TEST_F(CudaLayers, HasTokensFarApart) {
  CudaKernelSpec spec = cuda_spec(8, 3);
  spec.layer.epilogue = epilogue_of(4, Activation::none);
  for (const auto& layouts : k_layouts) {
    LayerCase item = in_layouts(layer_case(random_matrix(5, 6, 0.3), spec), layouts);
    for (std::int64_t* ld : {&item.spec.ldb, &item.spec.ldc, &item.sizes.b.ld, &item.sizes.c.ld,
                             &item.sizes.residual.ld}) {
      *ld = (1 << 21) + 1;
    }
    expect_reference(item);
  }
}

TEST_F(CudaLayers, OfRandomShapesIsTheReference) {
  std::mt19937_64 random(20251117);
  const auto pick = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  for (int i = 0; i < 200; ++i) {
    const CsrMatrix matrix =
        random_matrix(pick(1, 60), pick(1, 60), static_cast<double>(pick(0, 100)) / 100, random());
    CudaKernelSpec spec = cuda_spec(pick(1, 40), pick(1, 70));
    spec.layer.b_layout = pick(0, 1) == 1 ? Layout::tokens_major : Layout::row_major;
    spec.layer.c_layout = pick(0, 1) == 1 ? Layout::tokens_major : Layout::row_major;
    const std::int64_t width = spec.layer.has_tokens_of_c() ? matrix.rows : spec.n;
    spec.ldb = spec.layer.has_tokens_of_b() ? pick(1, matrix.cols + 3) : spec.n + pick(0, 3);
    spec.ldc = width + pick(0, 3);
    spec.tile.n1 = std::array{32, 64, 96, 160, 288}[index(pick(0, 4))];
    spec.tile.tiles_a_block = std::int64_t{1} << i % 3;
    if (spec.tile.threads() > k_cuda_max_threads ||
        shared_bytes_of(spec.layer, spec.tile) > k_cuda_shared_bytes) {
      spec.tile.tiles_a_block = 1;
    }
    spec.tile.unit_nonzeros = pick(1, 1000);
    spec.tile.runtime_sizes = pick(0, 1) == 1;
    spec.layer.epilogue =
        epilogue_of(static_cast<unsigned>(pick(0, 7)), k_activations[index(pick(0, 6))]);
    LayerCase item = layer_case(matrix, spec);
    item.reorder = static_cast<ReorderAlgorithm>(pick(0, 2));
    item.in_place = spec.layer.epilogue.residual && pick(0, 2) == 0;
    item.sizes.residual.ld = item.in_place ? spec.ldc : width + pick(0, 5);
    item.sizes.batch = pick(1, 3);
    item.sizes.b.distance = pick(0, 2000);
    item.sizes.c.distance =
        extent_of(spec.layer.c_layout, matrix.rows, spec.n, spec.ldc) + pick(0, 9);
    item.sizes.residual.distance = item.in_place ? item.sizes.c.distance : pick(0, 2000);
    SCOPED_TRACE(i);
    expect_reference(item);
  }
}

}  // namespace
