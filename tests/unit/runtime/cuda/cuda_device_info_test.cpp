#include "runtime/cuda/cuda_device_info.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "spjit/error.hpp"

namespace {

using spjit::CudaDeviceInfo;
using testing::HasSubstr;

std::string error_of(const std::string& target) {
  try {
    (void)spjit::parse_cuda_target(target);
  } catch (const spjit::Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(CudaTarget, ANamedCardGivesItsLimits) {
  const CudaDeviceInfo limits = spjit::parse_cuda_target("sm_90:h200");

  EXPECT_EQ(limits.arch, 90);
  EXPECT_EQ(limits.card, "h200");
  EXPECT_EQ(limits.name(), "sm_90:h200");
  EXPECT_EQ(limits.sms, 132);
  EXPECT_EQ(limits.l2_bytes, 60 << 20);
  EXPECT_EQ(limits.warps_per_sm(), 64);
  EXPECT_EQ(limits.blocks_per_sm, 32);
  EXPECT_EQ(limits.shared_per_sm_bytes, 228 << 10);
  EXPECT_EQ(limits.shared_per_block_optin_bytes, 227 << 10);
  EXPECT_EQ(limits.reserved_shared_per_block_bytes, 1 << 10);
}

TEST(CudaTarget, AnArchitectureAloneMeansItsFirstCard) {
  EXPECT_EQ(spjit::parse_cuda_target("sm_70").card, "v100");
  EXPECT_EQ(spjit::parse_cuda_target("sm_75").card, "t4");
  EXPECT_EQ(spjit::parse_cuda_target("sm_80").card, "a100-40");
  EXPECT_EQ(spjit::parse_cuda_target("sm_86").card, "rtx3090");
  EXPECT_EQ(spjit::parse_cuda_target("sm_89").card, "l4");
  EXPECT_EQ(spjit::parse_cuda_target("sm_90").card, "h100");
  EXPECT_EQ(spjit::parse_cuda_target("sm_100").card, "b200");
  EXPECT_EQ(spjit::parse_cuda_target("sm_120").card, "rtx5090");
}

TEST(CudaTarget, EveryCardIsFoundByItsName) {
  std::set<std::string> names;

  for (const CudaDeviceInfo& card : spjit::known_cuda_cards()) {
    EXPECT_EQ(spjit::parse_cuda_target(card.name()), card);
    names.insert(card.name());
  }

  EXPECT_EQ(names.size(), spjit::known_cuda_cards().size());
}

TEST(CudaTarget, ADroppedArchitectureSaysWhichCudaDroppedIt) {
  EXPECT_THROW((void)spjit::parse_cuda_target("sm_72"), spjit::NotSupported);
  EXPECT_THAT(error_of("sm_72"), HasSubstr("CUDA 13.0 dropped sm_72"));
  EXPECT_THAT(error_of("sm_37:k80"), HasSubstr("CUDA 12.0 dropped sm_37"));
  EXPECT_THAT(error_of("sm_72"),
              HasSubstr("sm_70, sm_75, sm_80, sm_86, sm_89, sm_90, sm_100, sm_120"));
}

TEST(CudaTarget, ADroppedArchitectureWithACardIsATarget) {
  const CudaDeviceInfo v100 = spjit::parse_cuda_target("sm_70:v100");

  EXPECT_EQ(spjit::cuda_that_dropped(v100.arch), "13.0");
  EXPECT_EQ(spjit::cuda_that_dropped(75), "");
  EXPECT_EQ(v100.warps_per_sm(), 64);
  EXPECT_EQ(v100.shared_per_sm_bytes, 96 << 10);
}

TEST(CudaTarget, AnUnknownArchitectureListsTheKnownOnes) {
  for (const char* name : {"sm_91", "sm_", "sm_9o", "sm_90a", "sm_-90", "sm_99999999999999999999",
                           "90", "", ":h100", "gfx942", "SM_90", " sm_90"}) {
    EXPECT_THROW((void)spjit::parse_cuda_target(name), spjit::InvalidArgument) << name;
    EXPECT_THAT(error_of(name), HasSubstr("sm_75, sm_80, sm_86, sm_89, sm_90, sm_100, sm_120"));
    EXPECT_THAT(error_of(name), HasSubstr(fmt::format("\"{}\"", name)));
  }
}

TEST(CudaTarget, AnUnknownCardListsTheCardsOfItsArchitecture) {
  EXPECT_THROW((void)spjit::parse_cuda_target("sm_90:"), spjit::InvalidArgument);
  EXPECT_THAT(error_of("sm_90:h300"), HasSubstr("h100, h200, h100-pcie"));
  EXPECT_THAT(error_of("sm_80:h200"), HasSubstr("h200 is a card of sm_90"));
}

TEST(CudaDeviceInfo, ObeyWhatHoldsOfEveryGpu) {
  for (const CudaDeviceInfo& card : spjit::known_cuda_cards()) {
    SCOPED_TRACE(card.name());
    EXPECT_FALSE(card.product.empty());
    EXPECT_GT(card.sms, 0);
    EXPECT_GE(card.l2_bytes, 4 << 20);
    EXPECT_EQ(card.threads_per_sm % card.warp_size, 0);
    EXPECT_GE(card.threads_per_sm, card.threads_per_block);
    EXPECT_EQ(card.registers_per_sm % (card.sub_partitions * card.register_allocation_unit), 0);
    EXPECT_GT(card.blocks_per_sm, 0);
    EXPECT_EQ(card.shared_per_sm_bytes % card.shared_allocation_unit_bytes, 0);
    EXPECT_EQ(card.shared_per_block_optin_bytes + card.reserved_shared_per_block_bytes,
              card.shared_per_sm_bytes);
  }
}

// The page promises a source for each number: a number that is not on it has none.
TEST(CudaDeviceInfo, AreWhatTheDocumentationSays) {
  std::ifstream file(std::string(SPJIT_SOURCE_DIR) + "/docs/design/cuda-devices.md");
  const std::string page((std::istreambuf_iterator<char>(file)), {});

  for (const CudaDeviceInfo& card : spjit::known_cuda_cards()) {
    EXPECT_THAT(page, HasSubstr(fmt::format("| `{}` | {} | {} | {} |", card.name(), card.product,
                                            card.sms, card.l2_bytes / 1024)));
    EXPECT_THAT(
        page, HasSubstr(fmt::format(
                  "| `sm_{}` | {} | {} | {} | {} | {} | {} | {} |", card.arch, card.warps_per_sm(),
                  card.threads_per_sm, card.blocks_per_sm, card.shared_per_sm_bytes / 1024,
                  card.shared_per_block_optin_bytes / 1024,
                  card.reserved_shared_per_block_bytes / 1024, card.shared_allocation_unit_bytes)));
  }
}

}  // namespace
