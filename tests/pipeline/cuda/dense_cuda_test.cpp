// What only the CUDA family `dense` has, on the emulated driver: tiles of every size, and sums that
// products with zeros would change.

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/cuda/dense/dense_code.hpp"
#include "kernels/cuda/dense/dense_executable.hpp"
#include "kernels/dense_bits.hpp"
#include "spjit/error.hpp"
#include "tests/support/cuda/reading_kernels.hpp"
#include "tests/support/long_tests.hpp"
#include "tests/support/scoped_variable.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

class DenseCuda : public ::testing::Test {
 protected:
  /// The kernel of a tile that the family would not choose.
  static Kernel kernel_of_tile(const LayerCase& item, const DenseTile& tile) {
    Artifact artifact = reading_artifact(problem_of(item), "dense");
    DenseCudaProgram program;
    program.arch = 90;
    program.layer = item.spec.layer;
    program.tile = tile;
    nlohmann::json record = nlohmann::json::parse(artifact.record);
    record["program"]["tile_rows"] = tile.rows;
    record["program"]["tile_columns"] = tile.columns;
    Artifact made = ptx_artifact(emit_dense(program).ptx, record.dump());
    made.files.push_back(artifact.files.at(1));
    return Kernel::from_artifact(std::move(made)).load();
  }

  static void expect_reference(const LayerCase& item, const LayerOperands& operands,
                               const Kernel& kernel) {
    EXPECT_TRUE(same_bits(launch_shifted(kernel, operands, {}), reference_layer(item, operands)));
  }
  static void expect_reference(const LayerCase& item, const LayerOperands& operands) {
    expect_reference(item, operands, reading_kernel(problem_of(item), "dense"));
  }

  ScopedVariable driver_{"SPJIT_CUDA_DRIVER", SPJIT_EMULATED_CUDA};
};

struct TileCase {
  DenseTile tile;
  std::remove_cvref_t<decltype(k_all_layouts[0])> layouts;
  std::int64_t gap;
  std::int64_t cols;
};

std::vector<TileCase> tile_cases() {
  std::vector<TileCase> cases;
  for (const DenseTile& tile : dense_tiles()) {
    for (const auto& layouts : k_all_layouts) {
      for (const std::int64_t gap : {0, 1}) {
        for (const std::int64_t cols : {36, 21}) cases.push_back({tile, layouts, gap, cols});
      }
    }
  }
  return cases;
}

TEST_F(DenseCuda, HasTheBitsOfTheReferenceWithEveryTile) {
  for (const TileCase& of : in_turn(3, tile_cases())) {
    SCOPED_TRACE(to_string(of.tile));
    CudaKernelSpec spec = cuda_spec(4, of.tile.columns + 4);
    spec.layer.epilogue = epilogue_of(7, Activation::relu);
    const LayerCase item = in_layouts(
        layer_case(random_matrix(of.tile.rows + 8, of.cols, 0.4), spec), of.layouts, 4 * of.gap);
    const Kernel kernel = kernel_of_tile(item, of.tile);

    for (const bool has_special_values : {false, true}) {
      const LayerOperands operands(item, has_special_values);
      const std::vector<float> expected = reference_layer(item, operands);
      EXPECT_TRUE(same_bits(launch_shifted(kernel, operands, {}), expected));
      EXPECT_TRUE(same_bits(launch_shifted(kernel, operands, {1, 1, 1}), expected));
    }
  }
}

/// One row of A with an entry in the middle, on both sides of which are zeros.
LayerCase one_entry(float value, std::int64_t n) {
  CsrMatrix matrix{40, 30, {0}, {}, {}};
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    matrix.col_idxs.push_back(static_cast<std::int32_t>(row % 30));
    matrix.values.push_back(value);
    matrix.row_ptrs.push_back(matrix.nnz());
  }
  return layer_case(matrix, cuda_spec(4, n));
}

TEST_F(DenseCuda, LeavesASumThatIsMinusZeroAsItIs) {
  const LayerCase item = one_entry(-1e-30F, 20);
  LayerOperands operands(item, false);
  for (float& value : operands.b()) value = 1e-20F;  // products of -1e-50, which are -0

  const std::vector<float> expected = reference_layer(item, operands);

  ASSERT_TRUE(std::signbit(expected.front()) && expected.front() == 0);
  expect_reference(item, operands);
}

TEST_F(DenseCuda, DoesNotMultiplyZerosByWhatIsNotFinite) {
  const LayerCase item = one_entry(1, 20);
  for (const float special :
       {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::quiet_NaN()}) {
    LayerOperands operands(item, false);
    operands.b()[7] = special;

    expect_reference(item, operands);
  }
}

/// Columns of C that lie in other blocks than the special value.
TEST_F(DenseCuda, HasBlocksThatMultiplyAndBlocksThatDoNot) {
  const LayerCase item = layer_case(random_matrix(70, 50, 0.3), cuda_spec(4, 200));
  for (const std::size_t place : {std::size_t{3}, std::size_t{199}, std::size_t{50 * 200 - 1}}) {
    LayerOperands operands(item, false);
    operands.b()[place] = std::numeric_limits<float>::infinity();

    expect_reference(item, operands);
  }
}

TEST_F(DenseCuda, OfValuesAtRunTimeLooksAtThoseOfTheRun) {
  LayerCase item = one_entry(-1e-30F, 20);
  item.spec.layer.runtime_values = true;
  LayerOperands operands(item, false);
  for (float& value : operands.b()) value = 1e-20F;

  const std::vector<float> expected = reference_layer(item, operands);

  EXPECT_TRUE(
      same_bits(launch_shifted(reading_kernel(problem_of(item), "dense"), operands, {}), expected));
}

TEST(DenseValues, LieAsTheKernelReadsThem) {
  const DenseTile tile = dense_tile_of(32, 32);  // 16 columns deep
  CsrMatrix matrix{33, 17, {0, 2}, {0, 16}, {5, 6}};
  for (int row = 1; row < 32; ++row) matrix.row_ptrs.push_back(2);
  matrix.col_idxs.push_back(3);
  matrix.values.push_back(7);
  matrix.row_ptrs.push_back(3);

  const std::vector<float> dense = dense_values_of(matrix, matrix.values, tile);

  constexpr std::size_t k_stage = 32 * 16;
  ASSERT_EQ(dense.size(), 5 * k_stage);  // of two blocks two each, and one more
  EXPECT_EQ(dense[0], 5);
  EXPECT_EQ(dense[k_stage], 6);
  EXPECT_EQ(dense[2 * k_stage + 3 * 32], 7);
  EXPECT_EQ(std::ranges::count(dense, 0.0F), std::ssize(dense) - 3);
  EXPECT_EQ(dense_bytes(33, 17, tile), 64.0 * 32 * 4);
}

TEST(DenseTiles, AreLargeWhereThereIsEnoughToDo) {
  const CudaDeviceInfo h100 = parse_cuda_target("sm_90:h100");

  EXPECT_EQ(to_string(dense_tile_for(8192, 8192, h100)), "rows=128 columns=128");
  EXPECT_EQ(to_string(dense_tile_for(256, 64, h100)), "rows=32 columns=32");
  EXPECT_THROW(static_cast<void>(dense_tile_of(128, 64)), Error);
}

TEST(DenseBits, SayWhatAValueOfBMustReach) {
  EXPECT_EQ(least_b_for(1), 0x1p-103F);
  EXPECT_EQ(least_b_for(0x1p-100F), 0x1p-3F);
  EXPECT_EQ(least_b_for(std::numeric_limits<float>::denorm_min()), 0x1p23F);
  EXPECT_EQ(least_b_for(std::numeric_limits<float>::infinity()), std::numeric_limits<float>::min());
  const std::vector<float> values = {0, -3, std::numeric_limits<float>::quiet_NaN(), -0.5F};
  EXPECT_EQ(least_magnitude(values), 0.5F);
  EXPECT_EQ(least_magnitude({}), std::numeric_limits<float>::infinity());
}

}  // namespace
