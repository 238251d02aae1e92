#include "spjit/target.hpp"

#include <gtest/gtest.h>

#include <string>

#include "runtime/host_cpu.hpp"
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

TEST(Target, RefusesUnknownNamesAndListsTheKnownOnes) {
  for (const std::string name : {"", "avx512", "host-", "host-avx", "HOST", "host-avx512 "}) {
    try {
      static_cast<void>(Target::parse(name));
      FAIL() << "\"" << name << "\" was taken";
    } catch (const spjit::InvalidArgument& error) {
      EXPECT_NE(std::string(error.what()).find("host-avx512, host-avx2 or host-generic"),
                std::string::npos)
          << error.what();
    }
  }
}

TEST(Target, SaysThatDevicesItKnowsOfAreNotThereYet) {
  EXPECT_THROW(static_cast<void>(Target::parse("sm_90")), spjit::NotSupported);
  EXPECT_THROW(static_cast<void>(Target::parse("cuda")), spjit::NotSupported);
}

}  // namespace
