#include "runtime/host/host_device_info.hpp"

#include <fmt/format.h>

#include "spjit/error.hpp"

namespace spjit {
namespace {

/// AMD's Zen 4 (family 19h; models 10h-1Fh, 60h-7Fh, A0h-AFh: AMD's revision guides) runs a 512-bit
/// FMA over two cycles of its 256-bit units, so it starts one a cycle.
bool is_zen4(const HostCpu& cpu) {
  constexpr int k_family = 0x19;
  const bool model = (cpu.model >= 0x10 && cpu.model <= 0x1F) ||
                     (cpu.model >= 0x60 && cpu.model <= 0x7F) ||
                     (cpu.model >= 0xA0 && cpu.model <= 0xAF);
  return cpu.vendor == "AuthenticAMD" && cpu.family == k_family && model;
}

/// Intel's Xeons. AMD's cores share an L3 by eight or sixteen, however large it is.
bool has_far_l3(const HostCpu& cpu) {
  constexpr std::int64_t k_near_bytes = std::int64_t{32} << 20;
  return cpu.vendor == "GenuineIntel" && cpu.l3_bytes > k_near_bytes;
}

}  // namespace

HostDeviceInfo host_device_info(HostIsa isa) { return host_device_info(isa, host_cpu()); }

HostDeviceInfo host_device_info(HostIsa isa, const HostCpu& cpu) {
  HostDeviceInfo limits;
  limits.isa = isa;
  limits.name = cpu.model_name;
  limits.lanes = lanes_of(isa);
  limits.registers = registers_of(isa);
  limits.l1i_bytes = cpu.l1i_bytes;
  limits.l1d_bytes = cpu.l1d_bytes;
  limits.l2_bytes = cpu.l2_bytes;
  limits.l3_bytes = cpu.l3_bytes;
  limits.l3_is_far = has_far_l3(cpu);
  limits.cpus = cpu.logical_cpus;
  limits.fmas_per_cycle = isa == HostIsa::avx512 && is_zen4(cpu) ? 1 : 2;
  return limits;
}

std::string to_string(HostIsa isa) {
  switch (isa) {
    case HostIsa::avx512:
      return "avx512";
    case HostIsa::avx2:
      return "avx2";
    case HostIsa::generic:
      return "generic";
  }
  return "?";
}

bool has_isa(const HostCpu& cpu, HostIsa isa) noexcept {
  switch (isa) {
    case HostIsa::avx512:
      return cpu.avx512;
    case HostIsa::avx2:
      return cpu.avx2_fma;
    case HostIsa::generic:
#if defined(__x86_64__)
      return true;
#else
      return false;
#endif
  }
  return false;
}

void require_isa(const HostCpu& cpu, HostIsa isa) {
  if (has_isa(cpu, isa)) return;
  throw NotSupported(fmt::format(
      "the kernel is for {}, which this CPU ({}) cannot run; compile it with --target host",
      Target(isa).name(), cpu.model_name));
}

}  // namespace spjit
