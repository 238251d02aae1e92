// What families of GPUs that read A have in common: files and records that are not right, and which
// vectors a launch may have.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/launch/cuda_matrix.hpp"
#include "kernels/cuda/launch/cuda_reading.hpp"
#include "spjit/error.hpp"
#include "tests/support/cuda/reading_kernels.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;
using nlohmann::json;
using testing::HasSubstr;

class ReadingArtifacts : public ::testing::TestWithParam<std::string> {
 protected:
  /// Why an artifact is refused; "taken": it is not.
  static std::string refusal(Artifact artifact) {
    try {
      static_cast<void>(Kernel::from_artifact(std::move(artifact)));
    } catch (const Error& error) {
      return error.what();
    }
    return "taken";
  }

  [[nodiscard]] static Artifact artifact() {
    return reading_artifact(problem_of(layer_case(random_matrix(9, 8, 0.5), cuda_spec(4, 12))),
                            GetParam());
  }

  [[nodiscard]] static std::string with_matrix(const std::function<void(CsrMatrix&)>& change) {
    CsrMatrix matrix = random_matrix(9, 8, 0.5);
    change(matrix);
    Artifact changed = artifact();
    changed.files.pop_back();
    changed.add(k_matrix_file, write_cuda_matrix(matrix, true, {}));
    return refusal(std::move(changed));
  }

  [[nodiscard]] static std::string with_program(const char* member, const json& value) {
    Artifact changed = artifact();
    json record = json::parse(changed.record);
    record["program"][member] = value;
    changed.record = record.dump();
    return refusal(std::move(changed));
  }
};

TEST_P(ReadingArtifacts, AreTakenAsTheyAreMade) { EXPECT_EQ(refusal(artifact()), "taken"); }

TEST_P(ReadingArtifacts, OfADamagedMatrixAreRefused) {
  EXPECT_THAT(with_matrix([](CsrMatrix& matrix) { matrix.values.pop_back(); }),
              HasSubstr("other sizes than the record"));
  EXPECT_THAT(with_matrix([](CsrMatrix& matrix) { matrix.row_ptrs.push_back(matrix.nnz()); }),
              HasSubstr("other sizes than the record"));
  EXPECT_THAT(with_matrix([](CsrMatrix& matrix) {
                std::swap(matrix.col_idxs.at(0), matrix.col_idxs.at(1));
              }),
              HasSubstr("do not ascend"));
  EXPECT_NE(with_matrix([](CsrMatrix& matrix) { matrix.col_idxs.at(3) = 8; }), "taken");
  EXPECT_NE(with_matrix([](CsrMatrix& matrix) { matrix.col_idxs.at(3) = -1; }), "taken");
  EXPECT_NE(with_matrix([](CsrMatrix& matrix) { matrix.row_ptrs.at(1) = 1000; }), "taken");
}

TEST_P(ReadingArtifacts, OfSizesThatNoFileHasAreRefusedBeforeMemoryIsTaken) {
  EXPECT_THAT(with_program("nnz", std::int64_t{1} << 62), HasSubstr("other sizes"));
  EXPECT_THAT(with_program("rows", (std::int64_t{1} << 31) - 1), testing::Not("taken"));
}

TEST_P(ReadingArtifacts, OfDistancesThatAreFarNeedCodeForThem) {
  EXPECT_EQ(with_program("far", true), "taken");
  EXPECT_NE(with_program("ldb", std::int64_t{1} << 30), "taken");
  EXPECT_NE(with_program("ldb", std::int64_t{1} << 32), "taken");
}

INSTANTIATE_TEST_SUITE_P(Families, ReadingArtifacts,
                         ::testing::Values("csr", "dense", "narrow", "packed"),
                         [](const auto& of) { return of.param; });

TEST(ReadingRecords, OfTilesThatNoKernelHasAreRefused) {
  const auto refusal = [](const char* family, const char* member, std::int64_t value) {
    Artifact artifact = reading_artifact(
        problem_of(layer_case(random_matrix(9, 8, 0.5), cuda_spec(4, 12))), family);
    json record = json::parse(artifact.record);
    record["program"][member] = value;
    artifact.record = record.dump();
    try {
      static_cast<void>(Kernel::from_artifact(artifact));
    } catch (const Error&) {
      return true;
    }
    return false;
  };

  for (const std::int64_t lanes : {0, 4, 12, 64}) EXPECT_TRUE(refusal("csr", "lanes", lanes));
  for (const std::int64_t columns : {0, 3, 8}) EXPECT_TRUE(refusal("csr", "columns", columns));
  for (const std::int64_t columns : {0, 3, 32}) EXPECT_TRUE(refusal("narrow", "columns", columns));
  for (const std::int64_t columns : {0, 3, 32}) EXPECT_TRUE(refusal("packed", "columns", columns));
  for (const std::int64_t rows : {0, 33, 64}) EXPECT_TRUE(refusal("dense", "tile_rows", rows));
}

TEST(ReadingVectors, AreAsWideAsOperandsAllow) {
  const std::vector<float> memory(64);
  const float* aligned = memory.data();
  while (std::bit_cast<std::uintptr_t>(aligned) % 16 != 0) ++aligned;
  float c = 0;
  Arguments arguments{.b = {aligned, {.ld = 8}}, .c = &c};
  const auto of_b = [&](std::int64_t n) { return vector_width(arguments, {.of_b = n, .of_c = 0}); };

  EXPECT_EQ(of_b(12), 4);
  EXPECT_EQ(of_b(6), 2);
  EXPECT_EQ(of_b(7), 1);
  arguments.b.ld = 10;
  EXPECT_EQ(of_b(12), 2);
  arguments.b.ld = 8;
  arguments.b = aligned + 2;
  EXPECT_EQ(of_b(12), 2);
  arguments.b = aligned;
  arguments.b.distance = 9;
  EXPECT_EQ(of_b(12), 4) << "one product";
  arguments.batch = 2;
  EXPECT_EQ(of_b(12), 1);
}

TEST(ReadingVectors, AreAlsoOfCAndTheResidual) {
  std::vector<float> memory(64);
  float* aligned = memory.data();
  while (std::bit_cast<std::uintptr_t>(aligned) % 16 != 0) ++aligned;
  Arguments arguments{.b = {aligned + 1, {.ld = 3}}, .c = {aligned, {.ld = 8}}};
  const auto of_c = [&] { return vector_width(arguments, {.of_b = 0, .of_c = 8}); };

  EXPECT_EQ(of_c(), 4);
  arguments.residual = aligned;
  arguments.residual.ld = 8;
  EXPECT_EQ(of_c(), 4);
  arguments.residual.ld = 6;
  EXPECT_EQ(of_c(), 2);
  arguments.residual = aligned + 1;
  EXPECT_EQ(of_c(), 1);
}

}  // namespace
