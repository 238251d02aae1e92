#include "compiler/device_limits.hpp"

#include <gtest/gtest.h>

#include "compiler/host_tile.hpp"
#include "runtime/host_cpu.hpp"

namespace {

using spjit::HostIsa;

TEST(HostLimits, TakeRegistersFromTheInstructionSetAndTheRestFromTheCpu) {
  const spjit::HostCpu cpu = spjit::detect_host_cpu();
  for (const HostIsa isa : {HostIsa::avx512, HostIsa::avx2, HostIsa::generic}) {
    const spjit::HostLimits limits = spjit::host_limits(isa);

    EXPECT_EQ(limits.isa, isa);
    EXPECT_EQ(limits.lanes, spjit::lanes_of(isa));
    EXPECT_EQ(limits.registers, spjit::registers_of(isa));
    EXPECT_EQ(limits.name, cpu.model_name);
    EXPECT_EQ(limits.l2_bytes, cpu.l2_bytes);
    EXPECT_EQ(limits.cpus, cpu.logical_cpus);
    EXPECT_TRUE(limits.fmas_per_cycle == 1 || limits.fmas_per_cycle == 2);
  }
}

TEST(HostLimits, OnlyAvx512IsHalvedByANarrowCore) {
  EXPECT_EQ(spjit::host_limits(HostIsa::avx2).fmas_per_cycle, 2);
  EXPECT_EQ(spjit::host_limits(HostIsa::generic).fmas_per_cycle, 2);
}

}  // namespace
