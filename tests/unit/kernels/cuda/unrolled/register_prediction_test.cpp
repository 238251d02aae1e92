#include <gtest/gtest.h>

#include <cstdint>

#include "kernels/cuda/unrolled/cuda_candidate.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using spjit::CsrMatrix;
using spjit::CudaTile;
using spjit::KernelPlan;
using spjit::RegisterPrediction;
using spjit::ReorderAlgorithm;
using spjit::testing_support::random_matrix;

RegisterPrediction predict(const CsrMatrix& matrix, const CudaTile& tile) {
  const KernelPlan plan = spjit::build_plan(
      matrix, spjit::group_rows(matrix, tile.m1, ReorderAlgorithm::balanced), matrix.cols);
  return spjit::predict_registers(plan.grouping, tile);
}

TEST(RegisterPrediction, CountsAnAccumulatorARowAndTheElementsInFlight) {
  CudaTile tile;
  tile.m1 = 16;

  const RegisterPrediction prediction = predict(random_matrix(64, 100, 0.5), tile);

  EXPECT_EQ(prediction.accumulators, 16);
  EXPECT_GT(prediction.b_in_flight, 0);
  EXPECT_EQ(prediction.total(), 16 + prediction.b_in_flight + prediction.addressing);
}

TEST(RegisterPrediction, KnowsTilesThatAreNotFull) {
  CudaTile tile;
  tile.m1 = 64;

  EXPECT_EQ(predict(random_matrix(10, 20, 0), tile).accumulators, 10);
}

TEST(RegisterPrediction, GrowsWithRowsAndRuntimeSizes) {
  const CsrMatrix matrix = random_matrix(256, 256, 0.5);
  CudaTile tile;
  tile.m1 = 32;
  const std::int64_t base = predict(matrix, tile).total();

  CudaTile taller = tile;
  taller.m1 = 33;
  EXPECT_EQ(predict(matrix, taller).total(), base + 1);
  CudaTile general = tile;
  general.runtime_sizes = true;
  EXPECT_GT(predict(matrix, general).total(), base);
}

TEST(RegisterPrediction, CountsThePointerToValuesAtRunTimeAndTwoLoadsOfThem) {
  const KernelPlan plan = spjit::build_plan(
      random_matrix(64, 100, 0.5),
      spjit::group_rows(random_matrix(64, 100, 0.5), 32, ReorderAlgorithm::balanced), 100);
  CudaTile tile;
  tile.m1 = 32;

  const RegisterPrediction own = spjit::predict_registers(plan.grouping, tile);
  const RegisterPrediction at_run_time =
      spjit::predict_registers(plan.grouping, tile, {.runtime_values = true});

  EXPECT_EQ(own.values, 0);
  EXPECT_EQ(at_run_time.values, 2 + 2 * 4);
  EXPECT_EQ(at_run_time.total(), own.total() + at_run_time.values);
}

TEST(RegisterPrediction, CountsTheTapsOfAConvolutionAndItsMasks) {
  const KernelPlan plan = spjit::build_plan(
      random_matrix(64, 90, 0.5),
      spjit::group_rows(random_matrix(64, 90, 0.5), 32, ReorderAlgorithm::balanced), 90);
  CudaTile tile;
  tile.m1 = 32;
  const auto registers_of = [&](std::int64_t kernel) {
    const std::int64_t pad = kernel / 2;
    return spjit::predict_registers(plan.grouping, tile,
                                    {.convolution = spjit::Convolution{.channels = 10,
                                                                       .height = 16,
                                                                       .width = 16,
                                                                       .kernel_height = kernel,
                                                                       .kernel_width = kernel,
                                                                       .pad_top = pad,
                                                                       .pad_left = pad,
                                                                       .pad_bottom = pad,
                                                                       .pad_right = pad}})
        .total();
  };
  const std::int64_t plain = spjit::predict_registers(plan.grouping, tile).total();

  EXPECT_EQ(registers_of(1), plain);
  EXPECT_EQ(registers_of(3), plain + 8 + 1);
  EXPECT_EQ(registers_of(7), plain + 2);
}

TEST(RegisterPrediction, AnEmptyMatrixNeedsNoAccumulators) {
  EXPECT_EQ(predict(CsrMatrix{3, 3, {0, 0, 0, 0}, {}, {}}, CudaTile{}).accumulators, 0);
}

}  // namespace
