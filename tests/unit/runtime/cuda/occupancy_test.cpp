#include "runtime/cuda/occupancy.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "spjit/error.hpp"

// NVIDIA's own calculator: plain C++, in every CUDA toolkit, and not needed to build spjit.
#if __has_include(<cuda_occupancy.h>)
#define SPJIT_CUDA_OCCUPANCY_HEADER <cuda_occupancy.h>
#elif __has_include(</usr/local/cuda/include/cuda_occupancy.h>)
#define SPJIT_CUDA_OCCUPANCY_HEADER </usr/local/cuda/include/cuda_occupancy.h>
#endif
#ifdef SPJIT_CUDA_OCCUPANCY_HEADER
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wall"
#pragma GCC diagnostic ignored "-Wextra"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wold-style-cast"
#include SPJIT_CUDA_OCCUPANCY_HEADER
#pragma GCC diagnostic pop
#endif

namespace {

using spjit::BlockResources;
using spjit::CudaDeviceInfo;
using spjit::Occupancy;

/// One card of every architecture.
std::vector<CudaDeviceInfo> one_card_each() {
  std::vector<CudaDeviceInfo> cards;
  std::set<std::int64_t> seen;
  for (const CudaDeviceInfo& card : spjit::known_cuda_cards()) {
    if (seen.insert(card.arch).second) cards.push_back(card);
  }
  return cards;
}

// CUDA C++ Best Practices Guide, "Calculating Occupancy": on an SM with 65536 registers, 64 warps
// and 32 blocks, 37 registers a thread give 12 active blocks of 128 threads (75 %), but only 4
// blocks of 320 threads (63 %).
TEST(Occupancy, MatchesTheBestPracticesGuide) {
  const CudaDeviceInfo a100 = spjit::parse_cuda_target("sm_80:a100-40");

  const Occupancy small = spjit::occupancy(a100, {.threads = 128, .registers_per_thread = 37});
  const Occupancy large = spjit::occupancy(a100, {.threads = 320, .registers_per_thread = 37});

  EXPECT_EQ(small.active_blocks, 12);
  EXPECT_EQ(small.active_warps * 100 / a100.warps_per_sm(), 75);
  EXPECT_EQ(large.active_blocks, 4);
  EXPECT_EQ(large.active_warps * 1000 / a100.warps_per_sm(), 625);
  EXPECT_EQ(small.blocks_by_registers, small.active_blocks);
  EXPECT_NE(small.blocks_by_warps, small.active_blocks);
}

// Same guide: with 2048 threads an SM, full occupancy allows each thread at most 32 registers.
TEST(Occupancy, IsFullUpToThirtyTwoRegistersAThread) {
  const CudaDeviceInfo h100 = spjit::parse_cuda_target("sm_90:h100");

  EXPECT_EQ(spjit::occupancy(h100, {.threads = 256, .registers_per_thread = 32}).active_warps, 64);
  EXPECT_EQ(spjit::occupancy(h100, {.threads = 256, .registers_per_thread = 33}).active_warps, 48);
}

// Tuning guides: 163 KB (A100), 99 KB (compute capability 8.6), 227 KB (H100) are the most a block
// can address, and each block costs 1 KB more.
TEST(Occupancy, ABlockMayTakeAnSmsSharedMemoryButForTheReserve) {
  const CudaDeviceInfo h100 = spjit::parse_cuda_target("sm_90:h100");
  BlockResources block = {.threads = 32, .registers_per_thread = 32};

  block.dynamic_shared_bytes = 227 << 10;
  const Occupancy whole = spjit::occupancy(h100, block);
  block.dynamic_shared_bytes += 1;
  const Occupancy over = spjit::occupancy(h100, block);

  EXPECT_EQ(whole.active_blocks, 1);
  EXPECT_EQ(whole.allocated_shared_bytes, 228 << 10);
  EXPECT_EQ(whole.blocks_by_shared_memory, whole.active_blocks);
  EXPECT_EQ(over.active_blocks, 0);
  EXPECT_EQ(over.blocks_by_shared_memory, over.active_blocks);
}

TEST(Occupancy, HasTheBlocksOfEveryResourceThatLimits) {
  const CudaDeviceInfo t4 = spjit::parse_cuda_target("sm_75:t4");

  const Occupancy slots = spjit::occupancy(t4, {.threads = 32, .registers_per_thread = 16});
  const Occupancy both = spjit::occupancy(t4, {.threads = 64, .registers_per_thread = 16});

  EXPECT_EQ(slots.active_blocks, 16);
  EXPECT_EQ(slots.blocks_by_slots, slots.active_blocks);
  EXPECT_NE(slots.blocks_by_warps, slots.active_blocks);
  EXPECT_EQ(both.active_blocks, 16);
  EXPECT_EQ(both.blocks_by_slots, both.active_blocks);
  EXPECT_EQ(both.blocks_by_warps, both.active_blocks);
}

TEST(Occupancy, WhatExceedsABlocksLimitsCannotRun) {
  const CudaDeviceInfo h100 = spjit::parse_cuda_target("sm_90:h100");
  constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();

  for (const BlockResources& block : std::vector<BlockResources>{
           {.threads = 1025, .registers_per_thread = 16},
           {.threads = huge, .registers_per_thread = 16},
           {.threads = 32, .registers_per_thread = 256},
           {.threads = 32, .registers_per_thread = huge},
           {.threads = 1024, .registers_per_thread = 65},
           {.threads = 32, .static_shared_bytes = huge, .dynamic_shared_bytes = huge}}) {
    EXPECT_EQ(spjit::occupancy(h100, block).active_blocks, 0) << block.threads;
    EXPECT_EQ(spjit::occupancy(h100, block).active_warps, 0);
    EXPECT_EQ(spjit::dynamic_shared_for(h100, block, 1), std::nullopt);
  }
}

TEST(Occupancy, ABlocksRegistersAreCountedAsIfEverySubPartitionHadAsManyWarps) {
  CudaDeviceInfo limits = spjit::parse_cuda_target("sm_90:h100");
  limits.registers_per_block = 32768;

  // Six warps count as eight, of 5120 registers each or of 4096.
  const Occupancy over = spjit::occupancy(limits, {.threads = 192, .registers_per_thread = 160});
  const Occupancy whole = spjit::occupancy(limits, {.threads = 192, .registers_per_thread = 128});

  EXPECT_EQ(over.active_blocks, 0);
  EXPECT_EQ(whole.active_blocks, 2);
}

TEST(Occupancy, NonsenseIsAnError) {
  const CudaDeviceInfo h100 = spjit::parse_cuda_target("sm_90:h100");

  EXPECT_THROW((void)spjit::occupancy(h100, {}), spjit::InvalidArgument);
  EXPECT_THROW((void)spjit::occupancy(h100, {.threads = 32, .registers_per_thread = -1}),
               spjit::InvalidArgument);
  EXPECT_THROW((void)spjit::occupancy(h100, {.threads = 32, .dynamic_shared_bytes = -1}),
               spjit::InvalidArgument);
  EXPECT_THROW((void)spjit::dynamic_shared_for(h100, {.threads = 32}, 0), spjit::InvalidArgument);
}

TEST(DynamicSharedFor, ForcesEveryOccupancyBelowTheKernelsOwn) {
  for (const CudaDeviceInfo& card : one_card_each()) {
    for (const std::int64_t threads : {32, 96, 256, 1024}) {
      for (const std::int64_t fixed : {0, 1000, 9000}) {
        BlockResources block = {
            .threads = threads, .registers_per_thread = 24, .static_shared_bytes = fixed};
        const std::int64_t most = spjit::occupancy(card, block).active_blocks;
        for (std::int64_t wanted = 1; wanted <= most; ++wanted) {
          SCOPED_TRACE(card.name() + " " + std::to_string(threads) + " " + std::to_string(fixed));
          const std::optional<std::int64_t> bytes = spjit::dynamic_shared_for(card, block, wanted);
          // 384 units of 256 bytes (sm_70) are shared by 22 or 24 blocks, not by 23.
          const std::int64_t units = card.shared_per_sm_bytes / card.shared_allocation_unit_bytes;
          if (units / (units / wanted) != wanted && wanted < most) {
            EXPECT_EQ(bytes, std::nullopt) << wanted;
            continue;
          }
          ASSERT_TRUE(bytes.has_value()) << wanted;
          BlockResources forced = block;
          forced.dynamic_shared_bytes = *bytes;
          EXPECT_EQ(spjit::occupancy(card, forced).active_blocks, wanted);
        }
        EXPECT_EQ(spjit::dynamic_shared_for(card, block, most + 1), std::nullopt);
      }
    }
  }
}

TEST(DynamicSharedFor, IsThePapersShareOfAnSm) {
  const CudaDeviceInfo h100 = spjit::parse_cuda_target("sm_90:h100");
  const BlockResources block = {.threads = 64, .registers_per_thread = 32};

  EXPECT_EQ(spjit::dynamic_shared_for(h100, block, 4), (228 << 10) / 4 - 1024);
  EXPECT_EQ(spjit::dynamic_shared_for(h100, block, 1), 227 << 10);
  EXPECT_EQ(spjit::dynamic_shared_for(h100, block, 32), 0);
}

TEST(DynamicSharedFor, KeepsSharedMemoryThatAlreadyFits) {
  const CudaDeviceInfo h100 = spjit::parse_cuda_target("sm_90:h100");
  BlockResources block = {.threads = 64, .registers_per_thread = 32};
  block.dynamic_shared_bytes = 50000;
  ASSERT_EQ(spjit::occupancy(h100, block).active_blocks, 4);

  EXPECT_EQ(spjit::dynamic_shared_for(h100, block, 4), 50000);
  // Less dynamic memory than it came with raises the occupancy as well.
  EXPECT_EQ(spjit::dynamic_shared_for(h100, block, 8), (228 << 10) / 8 - 1024);
}

#ifdef SPJIT_CUDA_OCCUPANCY_HEADER

cudaOccDeviceProp nvidia_properties(const CudaDeviceInfo& card) {
  cudaOccDeviceProp properties;
  properties.computeMajor = static_cast<int>(card.arch / 10);
  properties.computeMinor = static_cast<int>(card.arch % 10);
  properties.maxThreadsPerBlock = static_cast<int>(card.threads_per_block);
  properties.maxThreadsPerMultiprocessor = static_cast<int>(card.threads_per_sm);
  properties.regsPerBlock = static_cast<int>(card.registers_per_block);
  properties.regsPerMultiprocessor = static_cast<int>(card.registers_per_sm);
  properties.warpSize = static_cast<int>(card.warp_size);
  properties.sharedMemPerBlock = static_cast<std::size_t>(card.shared_per_block_bytes);
  properties.sharedMemPerMultiprocessor = static_cast<std::size_t>(card.shared_per_sm_bytes);
  properties.numSms = static_cast<int>(card.sms);
  properties.sharedMemPerBlockOptin = static_cast<std::size_t>(card.shared_per_block_optin_bytes);
  properties.reservedSharedMemPerBlock =
      static_cast<std::size_t>(card.reserved_shared_per_block_bytes);
  return properties;
}

cudaOccResult nvidia_occupancy(const CudaDeviceInfo& card, const BlockResources& block) {
  const cudaOccDeviceProp properties = nvidia_properties(card);
  cudaOccFuncAttributes attributes;
  attributes.maxThreadsPerBlock = 1024;
  attributes.numRegs = static_cast<int>(block.registers_per_thread);
  attributes.sharedSizeBytes = static_cast<std::size_t>(block.static_shared_bytes);
  attributes.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
  attributes.maxDynamicSharedSizeBytes = static_cast<std::size_t>(block.dynamic_shared_bytes);
  attributes.numBlockBarriers = 1;
  const cudaOccDeviceState state;
  cudaOccResult result = {};
  const cudaOccError error = cudaOccMaxActiveBlocksPerMultiprocessor(
      &result, &properties, &attributes, &state, static_cast<int>(block.threads),
      static_cast<std::size_t>(block.dynamic_shared_bytes));
  EXPECT_EQ(error, CUDA_OCC_SUCCESS);
  return result;
}

void expect_same(const CudaDeviceInfo& card, const BlockResources& block) {
  const Occupancy ours = spjit::occupancy(card, block);
  const cudaOccResult theirs = nvidia_occupancy(card, block);

  const std::string what = card.name() + ": " + std::to_string(block.threads) + " threads, " +
                           std::to_string(block.registers_per_thread) + " registers, " +
                           std::to_string(block.static_shared_bytes) + " static, " +
                           std::to_string(block.dynamic_shared_bytes) + " dynamic";
  ASSERT_EQ(ours.active_blocks, theirs.activeBlocksPerMultiprocessor) << what;
  ASSERT_EQ(ours.blocks_by_warps, theirs.blockLimitWarps) << what;
  ASSERT_EQ(ours.blocks_by_registers, theirs.blockLimitRegs) << what;
  ASSERT_EQ(ours.blocks_by_shared_memory, theirs.blockLimitSharedMem) << what;
  ASSERT_EQ(ours.blocks_by_slots, theirs.blockLimitBlocks) << what;
  // Where a block may not have what it asks for, NVIDIA's calculator tells the request.
  if (theirs.blockLimitRegs > 0) {
    ASSERT_EQ(ours.allocated_registers, theirs.allocatedRegistersPerBlock) << what;
  }
  if (theirs.blockLimitSharedMem > 0) {
    ASSERT_EQ(static_cast<std::size_t>(ours.allocated_shared_bytes),
              theirs.allocatedSharedMemPerBlock)
        << what;
  }
}

TEST(Occupancy, AgreesWithNvidiasCalculatorOverASweep) {
  for (const CudaDeviceInfo& card : one_card_each()) {
    for (std::int64_t threads = 1; threads <= 1024; threads += threads < 32 ? 31 : 16) {
      for (std::int64_t registers = 0; registers <= 255; registers += 5) {
        for (const std::int64_t fixed : {0, 1, 5000, 48 << 10}) {
          for (const std::int64_t dynamic : {0, 100, 3000, 12345, 48 << 10, 65 << 10, 99 << 10,
                                             163 << 10, 227 << 10, 300 << 10}) {
            expect_same(card, {threads, registers, fixed, dynamic});
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

#else

TEST(Occupancy, AgreesWithNvidiasCalculatorOverASweep) {
  GTEST_SKIP() << "cuda_occupancy.h was not found when the tests were built: it comes with the "
                  "CUDA toolkit, in include/";
}

#endif

}  // namespace
