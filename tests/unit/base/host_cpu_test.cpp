#include "base/host_cpu.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <fstream>
#include <sstream>
#include <string>

#include "tests/support/files/system_testing.hpp"

namespace spjit {
namespace {

/// The words of the first line of /proc/cpuinfo that begins with `name`, the name left out.
std::string cpuinfo(const std::string& name) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(name)) return line.substr(line.find(':') + 1) + " ";
  }
  return {};
}

TEST(HostCpu, FeaturesAgreeWithTheKernel) {
  const std::string flags = cpuinfo("flags");
  if (flags.empty()) GTEST_SKIP() << "/proc/cpuinfo lists no x86 flags";

  const HostCpu cpu = detect_host_cpu();

  const auto has = [&](const std::string& flag) {
    return flags.find(" " + flag + " ") != std::string::npos;
  };
  EXPECT_EQ(cpu.avx2_fma, has("avx2") && has("fma") && has("f16c"));
  EXPECT_EQ(cpu.avx512, has("avx512f") && has("avx512dq") && has("avx512bw") && has("avx512vl"));
  EXPECT_EQ(cpu.avx512_bf16, cpu.avx512 && has("avx512_bf16"));
  EXPECT_EQ(cpu.avx512_vbmi, cpu.avx512 && has("avx512vbmi"));
  EXPECT_EQ(cpu.avx512_vbmi2, cpu.avx512 && has("avx512_vbmi2"));
  EXPECT_EQ(cpu.avx512_vnni, cpu.avx512 && has("avx512_vnni"));
  EXPECT_EQ(cpu.avx_vnni, cpu.avx2_fma && has("avx_vnni"));
}

TEST(HostCpu, IdentityAgreesWithTheKernel) {
  if (cpuinfo("cpu family").empty()) GTEST_SKIP() << "/proc/cpuinfo names no x86 CPU";

  const HostCpu cpu = detect_host_cpu();

  EXPECT_EQ(cpu.family, std::stoi(cpuinfo("cpu family")));
  EXPECT_EQ(cpu.stepping, std::stoi(cpuinfo("stepping")));
  EXPECT_NE(cpuinfo("vendor_id").find(cpu.vendor), std::string::npos);
  EXPECT_EQ(cpu.vendor.size(), 12U);
}

TEST(HostCpu, CachesHavePlausibleSizes) {
  const HostCpu cpu = detect_host_cpu();

  EXPECT_GE(cpu.l1i_bytes, 4 << 10);
  EXPECT_GE(cpu.l1d_bytes, 4 << 10);
  EXPECT_GE(cpu.l2_bytes, cpu.l1d_bytes);
  EXPECT_GE(cpu.l3_bytes, 0);
}

TEST(HostCpu, CountsOnlyTheCpusThisThreadMayUse) {
  const int code = test::in_child([] {
    cpu_set_t all;
    CPU_ZERO(&all);
    if (::sched_getaffinity(0, sizeof(all), &all) != 0) return 1;
    cpu_set_t one;
    CPU_ZERO(&one);
    for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_COUNT(&one) == 0 && CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
    }
    if (usable_cpus() != CPU_COUNT(&all)) return 2;
    if (::sched_setaffinity(0, sizeof(one), &one) != 0) return 3;
    return usable_cpus() == 1 && detect_host_cpu().logical_cpus == 1 ? 0 : 4;
  });

  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace spjit
