#pragma once

/// @file
/// The instruction sets of the host, and which CPU runs which.

#include <cstdint>

#include "base/host_cpu.hpp"
#include "spjit/target.hpp"

namespace spjit {

/// Floats a vector register holds.
[[nodiscard]] constexpr std::int64_t lanes_of(HostIsa isa) {
  return isa == HostIsa::avx512 ? 16 : isa == HostIsa::avx2 ? 8 : 4;
}
/// Vector registers of the instruction set.
[[nodiscard]] constexpr std::int64_t registers_of(HostIsa isa) {
  return isa == HostIsa::avx512 ? 32 : 16;
}

/// Whether code for `isa` runs on `cpu`; `generic` does on every x86-64.
[[nodiscard]] bool has_isa(const HostCpu& cpu, HostIsa isa) noexcept;

/// Throws NotSupported, in one line that says what to do, if it does not.
void require_isa(const HostCpu& cpu, HostIsa isa);

}  // namespace spjit
