#include "spjit/target.hpp"

#include <gtest/gtest.h>

#include <string>

#include "base/host_cpu.hpp"
#include "runtime/cuda/local_gpus.hpp"
#include "runtime/host/host_device_info.hpp"
#include "spjit/error.hpp"

namespace {

using spjit::HostIsa;
using spjit::Target;

TEST(Target, ParsesWhatItPrints) {
  for (const HostIsa isa : {HostIsa::avx512, HostIsa::avx2, HostIsa::generic}) {
    const Target target(isa);

    EXPECT_EQ(Target::parse(target.name()), target);
    EXPECT_EQ(target.name(), "host-" + to_string(isa));
  }
}

TEST(Target, HostIsTheBestThisCpuHas) {
  const spjit::HostCpu cpu = spjit::detect_host_cpu();

  const Target host = Target::parse("host");

  EXPECT_EQ(host, Target());
  EXPECT_TRUE(host.runs_here());
  EXPECT_EQ(host.isa() == HostIsa::avx512, cpu.avx512);
  EXPECT_EQ(host.isa() == HostIsa::generic, !cpu.avx512 && !cpu.avx2_fma);
}

TEST(Target, RunsWhereTheCpuHasTheInstructions) {
  const spjit::HostCpu cpu = spjit::detect_host_cpu();

  EXPECT_EQ(Target(HostIsa::avx512).runs_here(), cpu.avx512);
  EXPECT_EQ(Target(HostIsa::avx2).runs_here(), cpu.avx2_fma);
  EXPECT_TRUE(Target(HostIsa::generic).runs_here());
}

TEST(RequireIsa, RefusesWhatACpuLacksInOneLineThatSaysWhatToDo) {
  spjit::HostCpu haswell;
  haswell.model_name = "Haswell";
  haswell.avx2_fma = true;
  const spjit::HostCpu nehalem;

  EXPECT_NO_THROW(spjit::require_isa(haswell, HostIsa::avx2));
  EXPECT_NO_THROW(spjit::require_isa(haswell, HostIsa::generic));
  EXPECT_NO_THROW(spjit::require_isa(nehalem, HostIsa::generic));
  EXPECT_THROW(spjit::require_isa(nehalem, HostIsa::avx2), spjit::NotSupported);
  EXPECT_THROW(spjit::require_isa(nehalem, HostIsa::avx512), spjit::NotSupported);
  try {
    spjit::require_isa(haswell, HostIsa::avx512);
    FAIL() << "AVX-512 was taken for a Haswell";
  } catch (const spjit::NotSupported& error) {
    EXPECT_EQ(std::string(error.what()),
              "the kernel is for host-avx512, which this CPU (Haswell) cannot run; compile it with "
              "--target host");
  }
}

TEST(Target, RefusesUnknownNamesAndListsTheKnownOnes) {
  for (const std::string name : {"", "avx512", "host-", "host-avx", "HOST", "host-avx512 "}) {
    try {
      static_cast<void>(Target::parse(name));
      FAIL() << "\"" << name << "\" was taken";
    } catch (const spjit::InvalidArgument& error) {
      EXPECT_NE(std::string(error.what()).find("host-avx512, host-avx2, host-generic, native"),
                std::string::npos)
          << error.what();
    }
  }
}

TEST(Target, IsAGpuByArchitectureAndCard) {
  const Target bare = Target::parse("sm_90");
  const Target card = Target::parse("sm_90:h200");

  EXPECT_EQ(bare.backend(), "cuda");
  EXPECT_EQ(bare.arch(), 90);
  EXPECT_EQ(bare.card(), "");
  EXPECT_EQ(bare.name(), "sm_90");
  EXPECT_EQ(card.card(), "h200");
  EXPECT_EQ(card.name(), "sm_90:h200");
  EXPECT_NE(bare, card);
  EXPECT_EQ(Target::parse("host").backend(), "host");
}

TEST(Target, RefusesGpusThatDoNotExist) {
  EXPECT_THROW(static_cast<void>(Target::parse("sm_91")), spjit::InvalidArgument);
  EXPECT_THROW(static_cast<void>(Target::parse("sm_90:t4")), spjit::InvalidArgument);
  EXPECT_THROW(static_cast<void>(Target::parse("sm_90:")), spjit::InvalidArgument);
  EXPECT_THROW(static_cast<void>(Target::parse("sm_61")), spjit::NotSupported);
  EXPECT_THROW(static_cast<void>(Target::parse("cuda")), spjit::InvalidArgument);
}

TEST(Target, NativeIsTheHostWhereThereIsNoGpu) {
  if (!spjit::find_local_gpus().gpus.empty()) GTEST_SKIP() << "there is a GPU";

  EXPECT_EQ(Target::parse("native"), Target());
  EXPECT_FALSE(Target::parse("sm_90").runs_here());
  EXPECT_THROW(static_cast<void>(Target::parse("sm_90:gpu0")), spjit::NotSupported);
}

}  // namespace
