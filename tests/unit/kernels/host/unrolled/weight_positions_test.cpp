#include "kernels/host/unrolled/weight_positions.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/host/unrolled/host_program.hpp"
#include "kernels/host/unrolled/host_proxy.hpp"
#include "spjit/error.hpp"
#include "tests/support/compile_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

std::span<const std::byte> bytes_of(const std::vector<std::uint32_t>& words) {
  return std::as_bytes(std::span(words));
}

Problem runtime_problem(const CsrMatrix& matrix) {
  Problem problem = problem_of(matrix, 20);
  problem.runtime_values = true;
  return problem;
}

HostArtifact position_artifact(const CsrMatrix& matrix) {
  const Problem problem = with_positions(runtime_problem(matrix));
  const KernelPlan plan =
      build_plan(*problem.a, group_rows(matrix, 4, ReorderAlgorithm::similarity), matrix.cols);
  return make_unrolled_artifact(plan, host_tile(4), problem, HostIsa::avx2);
}

TEST(WeightPositions, StandInThePlaceOfEachWeight) {
  const CsrMatrix matrix = random_matrix(20, 30, 0.5);
  const Problem positions = with_positions(runtime_problem(matrix));
  const HostArtifact artifact = position_artifact(matrix);

  EXPECT_EQ(positions.a->col_idxs, matrix.col_idxs);
  EXPECT_EQ(positions.a->row_ptrs, matrix.row_ptrs);
  EXPECT_TRUE(std::isnormal(positions.a->values.back()));
  std::vector<int> seen(matrix.values.size());
  for (const std::uint32_t word : artifact.weights) ++seen.at(word - k_first_position);
  EXPECT_EQ(seen, std::vector<int>(matrix.values.size(), 1));
}

TEST(WeightPositions, GiveWayToTheValuesAtThem) {
  const std::vector<std::uint32_t> positions = {k_first_position + 2, k_first_position,
                                                k_first_position + 2};
  const std::vector<float> values = {1.5F, -2.0F, 0.25F};

  const FloatBuffer weights = values_at(bytes_of(positions), values);

  EXPECT_EQ(std::vector<float>(weights.data(), weights.data() + weights.size()),
            (std::vector<float>{0.25F, 1.5F, 0.25F}));
}

TEST(WeightPositions, OfOtherValuesAreNone) {
  constexpr std::uint32_t k_first = k_first_position;

  EXPECT_TRUE(are_positions({}, 0));
  EXPECT_TRUE(are_positions(bytes_of({k_first, k_first + 6}), 7));
  EXPECT_FALSE(are_positions(bytes_of({k_first, k_first + 7}), 7));
  EXPECT_FALSE(are_positions(bytes_of({k_first - 1, k_first}), 7));
  EXPECT_FALSE(are_positions(bytes_of({0, k_first}), 7));
  EXPECT_FALSE(are_positions(bytes_of({k_first}).first(3), 7));
  EXPECT_TRUE(are_positions(bytes_of({0x7F7FFFFF}), k_most_positions));
  EXPECT_FALSE(are_positions(bytes_of({k_first}), k_most_positions + 1));
}

TEST(WeightPositions, ThatAreDamagedAreRefusedWithTheRecord) {
  HostArtifact artifact = position_artifact(random_matrix(20, 30, 0.5));
  EXPECT_NO_THROW(static_cast<void>(read_program(artifact.image())));

  artifact.weights.back() = k_first_position + static_cast<std::uint32_t>(artifact.weights.size());

  try {
    static_cast<void>(read_program(artifact.image()));
    FAIL() << "a position past the values was read";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), "program record: weights that are no positions of values");
  }
}

TEST(WeightPositions, AreNotInProxies) {
  const CsrMatrix matrix = random_matrix(400, 300, 0.8);
  const Problem problem = with_positions(runtime_problem(matrix));
  const KernelPlan plan =
      build_plan(*problem.a, group_rows(matrix, 7, ReorderAlgorithm::similarity), matrix.cols);

  const HostArtifact proxy = make_host_proxy(plan, host_tile(7), problem, HostIsa::avx2, {});

  EXPECT_FALSE(read_program(proxy.image()).header.runtime_values);
}

}  // namespace
