#include "runtime/host/host_isa.hpp"

#include <fmt/format.h>

#include "spjit/error.hpp"

namespace spjit {

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
