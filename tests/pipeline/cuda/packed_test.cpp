// The family `packed` of GPUs beyond what all that read A are tested for: A of 16 bits, many
// groups and chunks, and what its record says.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "plan/elements.hpp"
#include "spjit/error.hpp"
#include "tests/support/cuda/cuda_cases.hpp"
#include "tests/support/cuda/reading_kernels.hpp"
#include "tests/support/scoped_variable.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;
using nlohmann::json;
using testing::HasSubstr;

class PackedCuda : public ::testing::Test {
 protected:
  /// C has the bits of fp32 values that the type has.
  static void expect_reference(const LayerCase& given, DataType type, std::int64_t group_rows = 0) {
    const LayerCase item = in_type(given, type);
    SCOPED_TRACE(testing::Message()
                 << to_string(type) << " " << item.matrix.rows << "x" << item.matrix.cols << " n "
                 << item.spec.n << " groups " << group_rows);
    const Problem problem = problem_of(item, type);
    Artifact artifact = reading_artifact(problem, "packed");
    if (group_rows > 0) {
      json record = json::parse(artifact.record);
      record["program"]["group_rows"] = group_rows;
      artifact.record = record.dump();
    }
    const Kernel kernel = Kernel::from_artifact(artifact).load();

    EXPECT_EQ(kernel.info().numerics.a, type);
    for (const bool has_special_values : {false, true}) {
      const LayerOperands operands(item, has_special_values);
      const std::vector<float> expected = reference_layer(item, operands);
      EXPECT_TRUE(same_bits(launch_shifted(kernel, operands, {}), expected));
      EXPECT_TRUE(same_bits(launch_shifted(kernel, operands, {1, 2, 0}), expected));
    }
  }

  ScopedVariable driver_{"SPJIT_CUDA_DRIVER", SPJIT_EMULATED_CUDA};
};

constexpr std::array k_types = {DataType::f32, DataType::bf16, DataType::f16};

TEST_F(PackedCuda, OfEveryTypeHasTheBitsOfTheReference) {
  for (const DataType type : k_types) {
    for (const auto& layouts : k_all_layouts) {
      for (const std::int64_t n : {1, 2, 3, 4, 7, 8, 16}) {
        CudaKernelSpec spec = cuda_spec(4, n);
        spec.layer.epilogue = epilogue_of(7, Activation::relu);
        spec.layer.runtime_values = n == 3 || n == 8;
        LayerCase item = layer_case(random_matrix(41, 300, 0.5), spec);
        expect_reference(in_layouts(item, layouts, n % 2 == 0 ? 4 : 1), type);
      }
    }
  }
}

TEST_F(PackedCuda, OfGroupsOfAnySizeHasTheBitsOfTheReference) {
  for (const DataType type : k_types) {
    for (const std::int64_t group_rows : {8, 16, 32}) {
      for (const CsrMatrix& matrix : {random_matrix(75, 513, 0.7), random_matrix(33, 256, 0),
                                      with_dense_row(40, 390), with_empty_rows(64)}) {
        for (const std::int64_t n : {1, 4, 16}) {
          expect_reference(layer_case(matrix, cuda_spec(4, n)), type, group_rows);
        }
      }
    }
  }
}

/// Denormals, infinities, NaN and zeros of each type, all 2^16 numbers of the halves among them.
TEST_F(PackedCuda, WidensEveryNumberOfSixteenBits) {
  for (const DataType type : {DataType::bf16, DataType::f16}) {
    CsrMatrix matrix{256, 256, {0}, {}, {}};
    for (std::int64_t row = 0; row < 256; ++row) {
      for (std::int64_t column = 0; column < 256; ++column) {
        const auto bits = static_cast<std::uint16_t>(row * 256 + column);
        matrix.col_idxs.push_back(static_cast<std::int32_t>(column));
        matrix.values.push_back(static_cast<float>(load_element(type, &bits, 0)));
      }
      matrix.row_ptrs.push_back(matrix.nnz());
    }
    // Each alone in a row: sums of many would be NaN.
    CsrMatrix alone{1 << 16, 256, {0}, matrix.col_idxs, matrix.values};
    for (std::int64_t row = 1; row <= alone.rows; ++row) alone.row_ptrs.push_back(row);
    expect_reference(layer_case(alone, cuda_spec(1, 1)), type);
    expect_reference(layer_case(matrix, cuda_spec(1, 1)), type);
  }
}

TEST_F(PackedCuda, RefusesOtherTypesAndMoreColumns) {
  Problem problem = problem_of(layer_case(random_matrix(9, 8, 0.5), cuda_spec(4, 16)));
  const auto refusal = [&] { return reading_refusal(problem, "packed").reason(); };

  EXPECT_EQ(refusal(), "");
  problem.n = 17;
  problem.b.leading_dimension = problem.c.leading_dimension = 20;
  EXPECT_THAT(refusal(), HasSubstr("n of 1 to 16, n is 17"));
  problem.n = 16;
  problem.numerics.b = DataType::bf16;
  EXPECT_THAT(refusal(), HasSubstr("does not take B of bf16"));
  problem.numerics.b = DataType::f32;
  problem.numerics.accumulate = Accumulate::bounded(1e-3);
  EXPECT_THAT(refusal(), HasSubstr("promise bounded"));
}

TEST_F(PackedCuda, StatesTheBytesOfA) {
  const Problem problem = problem_of(layer_case(random_matrix(64, 512, 0.5), cuda_spec(4, 4)));

  const Kernel kernel = reading_kernel(problem, "packed");

  const json tile = json::parse(kernel.record()).at("tile");

  const double nnz = static_cast<double>(problem.a->nnz());
  EXPECT_EQ(tile.at("bytes_of_a").get<double>(), kernel.info().weight_bytes);
  EXPECT_DOUBLE_EQ(tile.at("bytes_of_a").get<double>() / nnz,
                   tile.at("bytes_a_nonzero").get<double>());
  EXPECT_GT(tile.at("bytes_a_nonzero").get<double>(), 4);
  EXPECT_LT(tile.at("bytes_a_nonzero").get<double>(), 5);
}

TEST_F(PackedCuda, RefusesRecordsOfKernelsThatItHasNot) {
  const auto refusal = [](const char* member, const json& value) -> std::string {
    Artifact artifact = reading_artifact(
        problem_of(layer_case(random_matrix(9, 8, 0.5), cuda_spec(4, 12))), "packed");
    json record = json::parse(artifact.record);
    record["program"][member] = value;
    artifact.record = record.dump();
    try {
      static_cast<void>(Kernel::from_artifact(artifact));
    } catch (const Error& error) {
      return error.what();
    }
    return "taken";
  };

  EXPECT_EQ(refusal("group_rows", 16), "taken");
  EXPECT_THAT(refusal("group_rows", 24), HasSubstr("groups of 24 rows"));
  EXPECT_THAT(refusal("group_rows", 4), HasSubstr("group_rows"));
  EXPECT_THAT(refusal("values", "i8"), HasSubstr("of i8"));
  EXPECT_THAT(refusal("values", "f64"), HasSubstr("f64"));
  EXPECT_THAT(refusal("columns", 3), HasSubstr("3 columns"));
}

}  // namespace
