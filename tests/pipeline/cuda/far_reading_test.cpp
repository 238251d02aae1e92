// The families that read A, of B, C and a residual whose rows or tokens lie 2^31 bytes to 2^34
// bytes apart. The emulated driver's memory faults for a wrong address, and takes only what is
// written.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/support/cuda/cuda_convolutions.hpp"
#include "tests/support/cuda/reading_kernels.hpp"
#include "tests/support/far_cases.hpp"
#include "tests/support/padded_3x3.hpp"
#include "tests/support/scoped_variable.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

/// Rows, columns and tokens of all operands, so that one form serves every layout.
constexpr std::int64_t k_size = 4;

/// Floats between rows or tokens of B, of C and of the residual.
struct Distances {
  std::int64_t b;
  std::int64_t c;
  std::int64_t residual;
};

/// Without 64-bit distances in the code, and with. Together up to 80 GiB.
constexpr std::array k_distances = {
    Distances{std::int64_t{1} << 29, k_size, std::int64_t{1} << 29},
    Distances{k_cuda_max_leading_dimension, k_cuda_max_leading_dimension, k_size},
    Distances{std::int64_t{1} << 30, k_size, std::int64_t{1} << 30},
    Distances{k_size, std::int64_t{1} << 30, std::int64_t{1} << 31},
    Distances{(std::int64_t{1} << 31) + 4, std::int64_t{1} << 31, k_size},
    Distances{k_most_reading_distance, k_size, k_size},
    Distances{k_size, k_most_reading_distance, k_size},
    Distances{std::int64_t{1} << 30, k_size, k_most_reading_distance},
};

class FarReading : public ::testing::TestWithParam<std::string> {
 protected:
  /// Of a case whose operands are 4 x 4.
  static void expect_reference(const LayerCase& near, const Distances& distances) {
    SCOPED_TRACE(std::to_string(distances.b) + " " + std::to_string(distances.c) + " " +
                 std::to_string(distances.residual) + " " +
                 std::string(to_string(near.spec.layer.b_layout)) + " to " +
                 std::string(to_string(near.spec.layer.c_layout)));
    LayerOperands operands(near, false);
    const std::vector<float> expected = reference_layer(near, operands);
    LayerCase far = near;
    far.spec.ldb = far.sizes.b.ld = distances.b;
    far.spec.ldc = far.sizes.c.ld = distances.c;
    const Kernel kernel = reading_kernel(problem_of(far), GetParam());
    const CudaContext context(local_cuda_driver(), 0);
    const std::vector<std::int32_t> rows = {0, 1, 2, 3};
    FarRows b(context, rows, k_size, distances.b);
    const FarRows c(context, rows, k_size, distances.c);
    FarRows residual(context, rows, k_size, distances.residual);
    b.upload(operands.b());
    residual.upload(operands.residual());

    kernel.launch(
        {.b = {static_cast<const float*>(b.pointer()), {.ld = distances.b}},
         .c = {static_cast<float*>(c.pointer()), {.ld = distances.c}},
         .residual = {static_cast<const float*>(residual.pointer()), {.ld = distances.residual}}});
    context.synchronize();

    EXPECT_TRUE(same_bits(c.download(), expected));
  }

  ScopedVariable driver_{"SPJIT_CUDA_DRIVER", SPJIT_EMULATED_CUDA};
};

TEST_P(FarReading, HasTheBitsOfTheReference) {
  for (const auto& layouts : k_all_layouts) {
    for (const Distances& distances : k_distances) {
      CudaKernelSpec spec = cuda_spec(4, k_size);
      spec.layer.epilogue = epilogue_of(4, Activation::relu);
      LayerCase near = in_layouts(layer_case(random_matrix(k_size, k_size, 0.2), spec), layouts, 0);
      expect_reference(near, distances);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, FarReading,
                         ::testing::Values("csr", "dense", "narrow", "packed"),
                         [](const auto& of) { return of.param; });

/// Of families that read the rows of B that A has entries for.
class FarReadingRows : public FarReading {};

/// Rows of B, 64 bytes each, of which there are 3e8, and A's entries are in ten.
TEST_P(FarReadingRows, HaveTheBitsOfTheEvaluator) {
  constexpr std::int64_t k_near = 16;
  const FarCase far{"many", random_matrix(10, 10, 0.5), cuda_spec(3, 5), far_numbers(), {}};
  CudaKernelSpec spec = far.spec;
  spec.ldb = k_near;
  LayerCase item = layer_case(far.matrix, spec);
  renumber(item.matrix.col_idxs, far.columns);
  item.matrix.cols = far.columns.back() + std::int64_t{1};
  const Kernel kernel = reading_kernel(problem_of(item), GetParam());
  const CudaContext context(local_cuda_driver(), 0);
  FarRows b(context, far.columns, spec.n, spec.ldb);
  const FarRows c(context, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, spec.n, spec.ldc);
  b.upload(near_b(far));

  kernel.launch({.b = {static_cast<const float*>(b.pointer()), {.ld = spec.ldb}},
                 .c = {static_cast<float*>(c.pointer()), {.ld = spec.ldc}}});
  context.synchronize();

  EXPECT_TRUE(same_bits(c.download(), near_c(far)));
}

INSTANTIATE_TEST_SUITE_P(Families, FarReadingRows, ::testing::Values("csr", "narrow"),
                         [](const auto& of) { return of.param; });

class FarReadingImages : public FarReading {};

TEST_P(FarReadingImages, HaveTheBitsOfTheReference) {
  for (const Layout layout : {Layout::row_major, Layout::tokens_major}) {
    for (const Distances& distances : k_distances) {
      Problem problem = problem_of_convolution(padded_3x3(k_size, 2, 2), k_size);
      problem.b.layout = problem.c.layout = layout;
      problem.epilogue = epilogue_of(4, Activation::relu);
      expect_reference(convolution_case(problem, 4), distances);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, FarReadingImages, ::testing::Values("csr"),
                         [](const auto& of) { return of.param; });

}  // namespace
