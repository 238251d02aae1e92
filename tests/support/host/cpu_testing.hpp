#pragma once

/// @file
/// CPUs that this machine may not be.

#include "base/host_cpu.hpp"

namespace spjit::testing_support {

/// An AMD EPYC 9354.
[[nodiscard]] inline HostCpu zen4_cpu() {
  HostCpu cpu;
  cpu.vendor = "AuthenticAMD";
  cpu.model_name = "AMD EPYC 9354";
  cpu.family = 0x19;
  cpu.model = 0x11;
  cpu.avx2_fma = true;
  cpu.avx512 = true;
  cpu.l1i_bytes = 32 << 10;
  cpu.l1d_bytes = 32 << 10;
  cpu.l2_bytes = 1 << 20;
  cpu.l3_bytes = 32 << 20;
  cpu.logical_cpus = 32;
  return cpu;
}

/// A Haswell, which no card is of.
[[nodiscard]] inline HostCpu haswell_cpu() {
  HostCpu cpu;
  cpu.vendor = "GenuineIntel";
  cpu.model_name = "Haswell";
  cpu.family = 6;
  cpu.model = 0x3F;
  cpu.avx2_fma = true;
  cpu.l1i_bytes = 32 << 10;
  cpu.l1d_bytes = 32 << 10;
  cpu.l2_bytes = 256 << 10;
  cpu.l3_bytes = 20 << 20;
  cpu.logical_cpus = 8;
  return cpu;
}

}  // namespace spjit::testing_support
