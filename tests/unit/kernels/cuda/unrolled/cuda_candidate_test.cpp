#include "kernels/cuda/unrolled/cuda_candidate.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "kernels/cuda/unrolled/cuda_record.hpp"
#include "spjit/error.hpp"
#include "tests/support/cuda/cuda_space_testing.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using spjit::BlockResources;
using spjit::CudaDeviceInfo;
using spjit::CudaTileSpace;
using spjit::register_cap;
using spjit::testing_support::cuda_limits;
using spjit::testing_support::cuda_problem;
using spjit::testing_support::cuda_space;
using spjit::testing_support::random_matrix;

std::int64_t active_blocks(const CudaDeviceInfo& limits, std::int64_t n1, std::int64_t registers) {
  BlockResources block;
  block.threads = n1;
  block.registers_per_thread = registers;
  return spjit::occupancy(limits, block).active_blocks;
}

TEST(RegisterCap, IsTheBlocksShareInMultiplesOfEight) {
  const CudaDeviceInfo limits = cuda_limits();

  EXPECT_EQ(register_cap(limits, 1024, 1), 64);
  EXPECT_EQ(register_cap(limits, 128, 5), 96);  // 65536 / 640 = 102.4
  EXPECT_EQ(register_cap(limits, 256, 1), 255);
}

TEST(RegisterCap, CountsWarpsInTheFullestSubPartition) {
  // 7 blocks of 3 warps: 6 in one sub-partition of 16384, so 2560 registers a warp.
  EXPECT_EQ(register_cap(cuda_limits(), 96, 7), 80);
}

TEST(RegisterCap, LeavesWhatTheOccupancyWasCountedWith) {
  for (const CudaDeviceInfo& limits : spjit::known_cuda_cards()) {
    for (std::int64_t n1 = 32; n1 <= 1024; n1 += 32) {
      for (std::int64_t registers = 1; registers <= 255; ++registers) {
        const std::int64_t active = active_blocks(limits, n1, registers);
        if (active == 0) continue;

        const std::int64_t cap = register_cap(limits, n1, active);

        ASSERT_GE(cap, registers) << limits.name() << " " << n1;
        ASSERT_GE(active_blocks(limits, n1, cap), active) << limits.name() << " " << n1;
      }
    }
  }
}

TEST(RegisterCap, RefusesNoThreadsAndNoBlocks) {
  EXPECT_THROW((void)register_cap(cuda_limits(), 0, 1), spjit::InvalidArgument);
  EXPECT_THROW((void)register_cap(cuda_limits(), 32, 0), spjit::InvalidArgument);
}

TEST(CudaRecord, SaysWhatBecameOfEachCandidate) {
  const CudaTileSpace space = cuda_space(cuda_problem(random_matrix(256, 64, 0.5), 1));

  const nlohmann::json record = spjit::to_json(space);

  EXPECT_EQ(record["relaxed"], nlohmann::json::array({"balance"}));
  ASSERT_EQ(record["candidates"].size(), space.candidates.size());
  for (std::size_t i = 0; i < space.candidates.size(); ++i) {
    const nlohmann::json& entry = record["candidates"][i];
    EXPECT_EQ(entry["tile"]["name"], to_string(space.candidates[i].tile));
    EXPECT_EQ(entry.contains("dropped"), space.candidates[i].dropped.has_value());
    EXPECT_NE(entry.contains("dropped"), entry.contains("score"));
  }
}

}  // namespace
