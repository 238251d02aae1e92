#include "kernels/cuda/unrolled/value_stream.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>

#include "kernels/cuda/unrolled/cuda_emitter.hpp"
#include "kernels/cuda/unrolled/ptx_emitter.hpp"
#include "spjit/error.hpp"
#include "tests/support/cuda/emitter_cases.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;
using testing::ElementsAre;
using testing::HasSubstr;

std::span<const std::byte> bytes(const std::vector<std::uint32_t>& positions) {
  return std::as_bytes(std::span(positions));
}

/// Its values are 0, 1, 2, ... in CSR order, so that each says its place.
CsrMatrix numbered(CsrMatrix matrix) {
  std::iota(matrix.values.begin(), matrix.values.end(), 0.0F);
  return matrix;
}

std::string refusal(std::span<const std::byte> positions, std::int64_t nnz) {
  try {
    static_cast<void>(read_value_positions(positions, nnz));
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

std::string text_of_all(const std::vector<SourceUnit>& units) {
  std::string text;
  for (const SourceUnit& unit : units) text += unit.text;
  return text;
}

TEST(ValueStream, HasTheValuesOfEachTileInTheOrderOfItsProducts) {
  // Columns of rows 0 and 1: 0 2, and 2; of row 2: 1.
  const CsrMatrix matrix{3, 3, {0, 2, 3, 4}, {0, 2, 2, 1}, {10, 11, 12, 13}};
  const KernelPlan plan =
      build_plan(matrix, group_rows(matrix, 2, ReorderAlgorithm::none), matrix.cols);

  EXPECT_THAT(value_ptrs(plan), ElementsAre(0, 4, 8));
  EXPECT_THAT(value_positions(plan),
              ElementsAre(0, 1, 2, k_no_value, 3, k_no_value, k_no_value, k_no_value));
  EXPECT_THAT(arrange_values(value_positions(plan), matrix.values),
              ElementsAre(10, 11, 12, 0, 13, 0, 0, 0));
}

TEST(ValueStream, IsThatOfThePlanForEveryTileAndOrderOfRows) {
  for (const CsrMatrix& matrix :
       {random_matrix(60, 50, 0.7), random_matrix(1, 1, 0), with_empty_rows(200),
        random_matrix(37, 40, 0), CsrMatrix{3, 0, {0, 0, 0, 0}, {}, {}}}) {
    for (const ReorderAlgorithm reorder :
         {ReorderAlgorithm::none, ReorderAlgorithm::balanced, ReorderAlgorithm::similarity}) {
      for (const std::int64_t m1 : {1, 3, 32, 128}) {
        const CsrMatrix known = numbered(matrix);
        const KernelPlan plan = build_plan(known, group_rows(known, m1, reorder),
                                           std::max<std::int64_t>(known.cols, 1));

        const std::vector<std::uint32_t> positions = value_positions(plan);

        EXPECT_EQ(arrange_values(positions, known.values), values_in_order(plan));
        EXPECT_EQ(read_value_positions(bytes(positions), known.nnz()), positions);
        EXPECT_LE(std::ssize(positions), most_value_floats(known.nnz(), known.rows));
      }
    }
  }
}

TEST(ValueStream, OfManyTilesHasAsManyFloatsAsAreForeseen) {
  // A value a tile: the most that is filled up.
  const KernelPlan plan = cuda_plan(random_matrix(50, 1, 0), 1);

  EXPECT_EQ(std::ssize(value_positions(plan)), 200);
  EXPECT_EQ(most_value_floats(50, 50), 200);
  EXPECT_THROW(static_cast<void>(most_value_floats(std::numeric_limits<std::int64_t>::max(), 2)),
               InvalidArgument);
}

TEST(ValueStream, IsGivenUpWhenItIsCancelled) {
  const KernelPlan plan = cuda_plan(random_matrix(700, 700, 0.5), 8);
  Cancellation cancel;
  cancel.deadline = std::chrono::steady_clock::now();

  EXPECT_THROW(static_cast<void>(value_positions(plan, cancel)), DeadlineExceeded);
}

TEST(ValueStream, RefusesPositionsThatAreNotEachEntryOnce) {
  const std::vector<std::uint32_t> good = {2, 0, 1, k_no_value};
  EXPECT_EQ(refusal(bytes(good), 3), "");
  EXPECT_EQ(refusal({}, 0), "");

  EXPECT_THAT(refusal(bytes({0, 1, 2}), 3), HasSubstr("12 bytes; expected loads of 16 bytes"));
  EXPECT_THAT(refusal(bytes(good).first(15), 3), HasSubstr("15 bytes"));
  EXPECT_THAT(refusal({}, 3), HasSubstr("0 bytes; expected loads of 16 bytes for 3 values"));
  EXPECT_THAT(refusal(bytes(good), std::numeric_limits<std::int64_t>::max()),
              HasSubstr("16 bytes"));
  EXPECT_THAT(refusal(bytes({2, 0, 0, k_no_value}), 3), HasSubstr("have 0 twice"));
  EXPECT_THAT(refusal(bytes({3, 0, 1, k_no_value}), 3), HasSubstr("have 3 twice or without need"));
  EXPECT_THAT(refusal(bytes({2, 0, k_no_value, k_no_value}), 3), HasSubstr("are 2; expected 3"));
}

TEST(ValueStream, OfTheTextsDependsOnThePatternAlone) {
  CudaKernelSpec spec = cuda_spec(8, 40);
  spec.layer.runtime_values = true;
  const CsrMatrix matrix = random_matrix(50, 60, 0.7);
  const auto texts = [&](const CsrMatrix& of) {
    const KernelPlan plan = cuda_plan(of, 8);
    return text_of_all(emit_cuda(plan, spec)) + text_of_all(emit_ptx(plan, spec, 90));
  };

  const std::string text = texts(matrix);

  EXPECT_EQ(texts(numbered(matrix)), text);
  spec.layer.runtime_values = false;
  EXPECT_NE(texts(numbered(matrix)), texts(matrix));
}

TEST(ValueStream, IsReadInLoadsOfFourFloatsOneAfterAnother) {
  const KernelPlan plan = cuda_plan(random_matrix(30, 40, 0.5), 8);
  CudaKernelSpec spec = cuda_spec(8, 40);
  spec.layer.runtime_values = true;
  const std::string ptx = text_of_all(emit_ptx(plan, spec, 90));
  const std::string cuda = text_of_all(emit_cuda(plan, spec));
  const std::int64_t loads = std::ssize(value_positions(plan)) / k_values_a_load;

  for (std::int64_t load = 0; load < loads; ++load) {
    EXPECT_THAT(ptx, HasSubstr("ld.global.nc.v4.f32 {a0,a1,a2,a3},[pvalues+" +
                               std::to_string(16 * load) + "];\n"));
    EXPECT_THAT(cuda, HasSubstr("const float4 a" + std::to_string(load) + " = __ldg(values + " +
                                std::to_string(load) + ");\n"));
  }
  EXPECT_EQ(cuda.find("const float4 a" + std::to_string(loads) + " "), std::string::npos);
}

TEST(ValueStream, BeyondTheReachOfOffsetsMovesThePointer) {
  PtxValues values((std::int64_t{1} << 21) - 4);
  SourceText text(0);

  for (int i = 0; i < 5; ++i) static_cast<void>(values.next(text));

  EXPECT_EQ(std::move(text).take(),
            "ld.global.nc.v4.f32 {a0,a1,a2,a3},[pvalues+8388592];\n"
            "add.s64 pvalues,pvalues,8388608;\n"
            "ld.global.nc.v4.f32 {a0,a1,a2,a3},[pvalues+0];\n");
}

}  // namespace
