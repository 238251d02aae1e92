#include "runtime/host/host_device_info.hpp"

#include <gtest/gtest.h>

#include "base/host_cpu.hpp"
#include "kernels/host/unrolled/host_tile.hpp"

namespace {

using spjit::HostIsa;

TEST(HostDeviceInfo, TakeRegistersFromTheInstructionSetAndTheRestFromTheCpu) {
  const spjit::HostCpu cpu = spjit::detect_host_cpu();
  for (const HostIsa isa : {HostIsa::avx512, HostIsa::avx2, HostIsa::generic}) {
    if (!spjit::has_isa(cpu, isa)) continue;
    const spjit::HostDeviceInfo limits = spjit::host_device_info(isa);

    EXPECT_EQ(limits.isa, isa);
    EXPECT_EQ(limits.lanes, spjit::lanes_of(isa));
    EXPECT_EQ(limits.registers, spjit::registers_of(isa));
    EXPECT_EQ(limits.name, cpu.model_name);
    EXPECT_EQ(limits.l2_bytes, cpu.l2_bytes);
    EXPECT_EQ(limits.cpus, cpu.logical_cpus);
    EXPECT_TRUE(limits.fmas_per_cycle == 1 || limits.fmas_per_cycle == 2);
  }
}

TEST(HostDeviceInfo, StreamCsThatDoNotStayInL3) {
  spjit::HostDeviceInfo limits;
  limits.isa = HostIsa::avx512;
  limits.l3_bytes = 32 << 20;

  EXPECT_TRUE(spjit::should_stream_c(limits, 4096, 4096, 1024));
  EXPECT_FALSE(spjit::should_stream_c(limits, 1024, 4096, 1024));  // an eighth: C stays
  EXPECT_FALSE(spjit::should_stream_c(limits, 1536, 2560, 1024));  // half: B and C stay
  EXPECT_TRUE(spjit::should_stream_c(limits, 1536, 2561, 1024));
  EXPECT_FALSE(spjit::should_stream_c(limits, 2047, 512, 1024));
  EXPECT_TRUE(spjit::should_stream_c(limits, 2048, 512, 1024));  // a quarter by itself
}

TEST(HostDeviceInfo, StreamCsOfAnySize) {
  spjit::HostDeviceInfo limits;
  limits.isa = HostIsa::avx512;
  limits.l3_bytes = 32 << 20;
  constexpr std::int64_t k_most = (std::int64_t{1} << 31) - 1;

  EXPECT_TRUE(spjit::should_stream_c(limits, k_most, k_most, k_most));
  EXPECT_TRUE(spjit::should_stream_c(limits, std::int64_t{1} << 31, 1, std::int64_t{1} << 31));
}

TEST(HostDeviceInfo, ALargeL3IsFarFromIntelsCores) {
  spjit::HostCpu cpu;
  cpu.avx2_fma = true;
  cpu.avx512 = true;
  const auto is_far = [&] { return host_device_info(HostIsa::avx512, cpu).l3_is_far; };

  cpu.vendor = "GenuineIntel";
  cpu.l3_bytes = 32 << 20;
  EXPECT_FALSE(is_far());
  ++cpu.l3_bytes;
  EXPECT_TRUE(is_far());
  EXPECT_FALSE(host_device_info(HostIsa::avx2, cpu).l3_is_far) << "AVX2 takes the same families";
  cpu.vendor = "AuthenticAMD";
  EXPECT_FALSE(is_far()) << "eight or sixteen cores share it";
}

TEST(HostDeviceInfo, OnlyAvx512IsHalvedByANarrowCore) {
  EXPECT_EQ(spjit::host_device_info(HostIsa::avx2).fmas_per_cycle, 2);
  EXPECT_EQ(spjit::host_device_info(HostIsa::generic).fmas_per_cycle, 2);
}

}  // namespace
