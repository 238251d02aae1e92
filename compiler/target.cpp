#include "spjit/target.hpp"

#include <fmt/format.h>

#include "runtime/host_cpu.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

HostIsa best_isa() {
  const HostCpu& cpu = host_cpu();
  if (cpu.avx512) return HostIsa::avx512;
  if (cpu.avx2_fma) return HostIsa::avx2;
  return HostIsa::generic;
}

}  // namespace

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

Target::Target() : isa_(best_isa()) {}

Target Target::parse(std::string_view name) {
  if (name == "host" || name == "native") return {};
  for (const HostIsa isa : {HostIsa::avx512, HostIsa::avx2, HostIsa::generic}) {
    if (name == Target(isa).name()) return Target(isa);
  }
  if (name.starts_with("sm_") || name == "cuda") {
    throw NotSupported(fmt::format(
        "target {} is not in this version, which compiles for host, host-avx512, host-avx2 and "
        "host-generic",
        name));
  }
  throw InvalidArgument(fmt::format(
      "target \"{}\" is unknown; expected host, host-avx512, host-avx2 or host-generic", name));
}

std::string Target::name() const { return "host-" + to_string(isa_); }

bool Target::runs_here() const {
  const HostCpu& cpu = host_cpu();
  switch (isa_) {
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

}  // namespace spjit
