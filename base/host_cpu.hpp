#pragma once

/// @file
/// Capabilities of the CPU that this process runs on.

#include <cstdint>
#include <string>

namespace spjit {

/// A plain description of the CPU: tests fill it by hand, `detect_host_cpu()` fills it from the
/// machine. Feature flags are true only if the operating system saves the registers too (XCR0).
struct HostCpu {
  std::string vendor;      ///< CPUID leaf 0, e.g. "AuthenticAMD"; empty off x86
  std::string model_name;  ///< CPUID brand string, trimmed; "unknown" where there is none
  int family = 0;          ///< display family (base + extended)
  int model = 0;           ///< display model (base + extended << 4)
  int stepping = 0;
  bool avx2_fma = false;     ///< AVX2, FMA3 and F16C, which all CPUs with the first two have
  bool avx512 = false;       ///< AVX-512 F + DQ + BW + VL
  bool avx512_bf16 = false;  ///< `avx512`, and AVX512_BF16
  bool avx512_vbmi = false;  ///< the same with other extensions
  bool avx512_vbmi2 = false;
  bool avx512_vnni = false;
  bool avx_vnni = false;  ///< `avx2_fma`, and AVX-VNNI
  std::int64_t l1i_bytes = 0;
  std::int64_t l1d_bytes = 0;
  std::int64_t l2_bytes = 0;  ///< of one core
  std::int64_t l3_bytes = 0;  ///< shared; 0 if there is none
  int logical_cpus = 1;       ///< see `usable_cpus()`
};

/// Never throws for what it cannot find out: caches the system does not describe get 32 KiB (L1i,
/// L1d), 512 KiB (L2) and 0 (L3).
[[nodiscard]] HostCpu detect_host_cpu();

/// The first result of `detect_host_cpu()`. A hypervisor makes every CPUID instruction cost tens of
/// microseconds, which would be most of loading a kernel.
[[nodiscard]] const HostCpu& host_cpu();

/// CPUs the calling thread may run on (sched_getaffinity), at least 1. Cheap: one system call.
[[nodiscard]] int usable_cpus();

}  // namespace spjit
