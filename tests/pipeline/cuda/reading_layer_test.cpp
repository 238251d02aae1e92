// Layers (an epilogue, layouts, a batch) of the CUDA families that read A, on the emulated driver,
// beside the host's family `reference`.

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/cuda/cuda_cases.hpp"
#include "tests/support/cuda/reading_kernels.hpp"
#include "tests/support/long_tests.hpp"
#include "tests/support/scoped_variable.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

class ReadingLayers : public ::testing::TestWithParam<std::string> {
 protected:
  static void expect_reference(const LayerCase& item) {
    const Problem problem = problem_of(item);
    if (reading_refusal(problem, GetParam())) return;
    SCOPED_TRACE(std::to_string(item.matrix.rows) + "x" + std::to_string(item.matrix.cols) + " n " +
                 std::to_string(item.sizes.n) + " " +
                 std::string(to_string(item.spec.layer.b_layout)) + " to " +
                 std::string(to_string(item.spec.layer.c_layout)) + " " +
                 std::string(to_string(item.spec.layer.epilogue.activation)));
    const Kernel kernel = reading_kernel(problem, GetParam());
    const Activation activation = item.spec.layer.epilogue.activation;
    for (const bool has_special_values : {false, true}) {
      const LayerOperands operands(item, has_special_values);
      const std::vector<float> expected = reference_layer(item, operands);

      EXPECT_TRUE(same_layer(run_layer(kernel, operands), expected, activation));
      EXPECT_TRUE(same_layer(launch_shifted(kernel, operands, {}), expected, activation));
      EXPECT_TRUE(same_layer(launch_shifted(kernel, operands, {1, 2, 0}), expected, activation));
    }
  }

  static std::vector<std::int64_t> columns() {
    return {1, 2, 3, 4, 5, 8, 12, 16, 17, 31, 32, 33, 64, 100, 128, 132, 300};
  }

  ScopedVariable driver_{"SPJIT_CUDA_DRIVER", SPJIT_EMULATED_CUDA};
};

TEST_P(ReadingLayers, HaveTheBitsOfTheReferenceForEveryN) {
  for (const std::int64_t n : columns()) {
    for (const std::int64_t gap : {0, 1, 4}) {
      for (const auto& layouts : k_all_layouts) {
        expect_reference(
            in_layouts(layer_case(random_matrix(37, 41, 0.6), cuda_spec(4, n)), layouts, gap));
      }
    }
  }
}

TEST_P(ReadingLayers, HaveEveryEpilogue) {
  for (const auto& layouts : k_all_layouts) {
    for (const Activation activation : k_activations) {
      for (unsigned bits = 0; bits < 8; ++bits) {
        CudaKernelSpec spec = cuda_spec(4, bits % 2 == 0 ? 33 : 12);
        spec.layer.epilogue = epilogue_of(bits, activation);
        spec.tile.runtime_sizes = bits % 3 == 1;
        LayerCase item = layer_case(random_matrix(19, 17, 0.7, bits + 1), spec);
        item.in_place = bits % 3 == 2;
        expect_reference(in_layouts(item, layouts, bits == 5 ? 4 : 1));
      }
    }
  }
}

TEST_P(ReadingLayers, HaveEdgeCases) {
  const CsrMatrix nothing{150, 4, std::vector<std::int64_t>(151, 0), {}, {}};
  const CsrMatrix no_columns{3, 0, {0, 0, 0, 0}, {}, {}};
  CsrMatrix gaps = with_empty_rows(40);
  gaps.cols = 200;
  for (std::int32_t& column : gaps.col_idxs) column = column * 37 % 200;
  for (const auto& layouts : k_all_layouts) {
    for (const CsrMatrix& matrix :
         {random_matrix(1, 1, 0), random_matrix(1, 50, 0.5), random_matrix(50, 1, 0.5),
          with_dense_row(37, 40), nothing, no_columns, with_empty_rows(200), gaps,
          random_matrix(33, 29, 0)}) {
      for (const std::int64_t n : {1, 5, 33}) {
        CudaKernelSpec spec = cuda_spec(16, n);
        spec.layer.epilogue = epilogue_of(n == 5 ? 6 : 0, Activation::silu);
        LayerCase item = layer_case(matrix, spec);
        item.in_place = n == 5;
        expect_reference(in_layouts(item, layouts));
      }
    }
  }
}

/// Rows of fewer and more entries than a block of `narrow` has in shared memory at once.
TEST_P(ReadingLayers, HaveRowsOfAnyLength) {
  CsrMatrix matrix{0, 3000, {0}, {}, {}};
  for (const std::int64_t length : {3, 0, 1500, 127, 128, 129, 1, 1024, 1025, 0, 2100, 5}) {
    for (std::int64_t i = 0; i < length; ++i) {
      matrix.col_idxs.push_back(static_cast<std::int32_t>(i * (3000 / length)));
      matrix.values.push_back(0.25F * static_cast<float>(i % 13 - 6));
    }
    matrix.row_ptrs.push_back(matrix.nnz());
    ++matrix.rows;
  }
  for (const std::int64_t n : {1, 2, 5, 8, 16, 40}) {
    expect_reference(
        in_layouts(layer_case(matrix, cuda_spec(4, n)), k_all_layouts.at(n % 2 == 0 ? 0 : 3)));
  }
}

TEST_P(ReadingLayers, OfUnusualValuesHaveTheBitsOfTheReference) {
  CsrMatrix matrix = random_matrix(24, 24, 0.3);
  const std::vector<float> unusual = unusual_values();
  for (std::size_t i = 0; i < matrix.values.size(); i += 3) {
    matrix.values[i] = unusual[i / 3 % unusual.size()];
  }
  for (const std::int64_t n : {1, 4, 16, 17, 40}) {
    CudaKernelSpec spec = cuda_spec(4, n);
    expect_reference(layer_case(matrix, spec));
    spec.layer.runtime_values = true;
    expect_reference(layer_case(matrix, spec));
  }
}

TEST_P(ReadingLayers, OfARunTimeNTakeEveryN) {
  for (const auto& layouts : k_all_layouts) {
    for (const std::int64_t typical : {4, 64}) {
      CudaKernelSpec spec = cuda_spec(8, typical);
      spec.tile.runtime_sizes = true;
      spec.layer.epilogue = epilogue_of(4, Activation::relu);
      for (const std::int64_t n : {1, 7, 16, 31, 32, 65, 100, 200}) {
        LayerCase item = in_layouts(layer_case(random_matrix(30, 45, 0.7), spec), layouts);
        item.sizes.n = n;
        if (!item.spec.layer.has_tokens_of_b()) item.sizes.b.ld = n + 1;
        if (!item.spec.layer.has_tokens_of_c()) item.sizes.c.ld = item.sizes.residual.ld = n + 4;
        expect_reference(item);
      }
    }
  }
}

TEST_P(ReadingLayers, OfABatchComputeEachProduct) {
  for (const std::int64_t n : {4, 20}) {
    CudaKernelSpec spec = cuda_spec(8, n);
    spec.ldb = spec.ldc = 72;
    spec.layer.epilogue = epilogue_of(4, Activation::relu);
    LayerCase item = layer_case(random_matrix(30, 25, 0.6), spec);
    item.sizes.residual.ld = 24;
    for (const std::int64_t batch : {1, 2, 3}) {
      item.sizes.batch = batch;
      // Apart, one B for all of them, and columns of one wider array.
      for (const auto& [b, c, residual] : {std::array{25 * 72, 30 * 72, 30 * 24},
                                           std::array{0, 2160, 0}, std::array{23, 23, 720}}) {
        item.sizes.b.distance = b;
        item.sizes.c.distance = c;
        item.sizes.residual.distance = residual;
        expect_reference(item);
      }
    }
  }
}

TEST_P(ReadingLayers, OfABatchBeyondTheGridAreLaunchedInParts) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  // 65,537 blocks of a family whose blocks are long take up to a minute, here ten times that.
  if (GetParam() != "csr") GTEST_SKIP() << "too slow with a sanitizer";
#endif
  // All three launch in the same way, and the blocks of the others take ten times as long.
  if (GetParam() != "csr" && !long_tests()) GTEST_SKIP() << "by default of csr alone: SPJIT_LONG=1";
  LayerCase item = layer_case(random_matrix(1, 1, 0), cuda_spec(1, 1));
  item.sizes.batch = k_cuda_max_grid_z + 2;
  item.sizes.b.distance = item.sizes.c.distance = 1;
  const LayerOperands operands(item);

  EXPECT_TRUE(same_bits(launch_shifted(reading_kernel(problem_of(item), GetParam()), operands, {}),
                        reference_layer(item, operands)));
}

TEST_P(ReadingLayers, OfNoColumnsOrProductsTouchNothing) {
  CudaKernelSpec spec = cuda_spec(8, 12);
  spec.tile.runtime_sizes = true;
  spec.layer.epilogue = epilogue_of(7, Activation::silu);
  const LayerCase item = layer_case(random_matrix(30, 25, 0.6), spec);
  const Kernel kernel = reading_kernel(problem_of(item), GetParam());
  std::vector<float> c(30 * 12, k_untouched);
  const std::vector<float> operand(30 * 12);
  const Arguments arguments{.b = operand.data(),
                            .c = c.data(),
                            .scale = operand.data(),
                            .bias = operand.data(),
                            .residual = operand.data()};
  Arguments no_columns = arguments;
  no_columns.n = 0;
  Arguments no_products = arguments;
  no_products.batch = 0;

  for (const Arguments& nothing_to_do : {no_columns, no_products}) {
    kernel.run(nothing_to_do);
    kernel.launch(nothing_to_do);
  }

  EXPECT_TRUE(std::ranges::all_of(c, [](float value) { return value == k_untouched; }));
}

TEST_P(ReadingLayers, TakeTokensOfBThatOverlap) {
  CudaKernelSpec spec = cuda_spec(8, 14);
  spec.layer.b_layout = Layout::tokens_major;
  spec.ldb = 3;
  LayerCase item = layer_case(random_matrix(20, 25, 0.5), spec);

  expect_reference(item);
}

INSTANTIATE_TEST_SUITE_P(Families, ReadingLayers,
                         ::testing::Values("csr", "dense", "narrow", "packed"),
                         [](const auto& of) { return of.param; });

}  // namespace
