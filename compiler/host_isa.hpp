#pragma once

/// @file
/// Which CPU runs which instruction set.

#include "runtime/host_cpu.hpp"
#include "spjit/target.hpp"

namespace spjit {

/// Whether code for `isa` runs on `cpu`; `generic` does on every x86-64.
[[nodiscard]] bool has_isa(const HostCpu& cpu, HostIsa isa) noexcept;

/// Throws NotSupported, in one line that says what to do, if it does not.
void require_isa(const HostCpu& cpu, HostIsa isa);

}  // namespace spjit
