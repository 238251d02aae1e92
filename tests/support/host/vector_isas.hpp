#pragma once

/// @file
/// Instruction sets in which functions of the library itself run here.

#include <vector>

#include "spjit/target.hpp"

namespace spjit::testing_support {

/// Functions need no compiler, so the generic ones run everywhere.
inline std::vector<HostIsa> vector_isas() {
  std::vector<HostIsa> result;
  for (const HostIsa isa : {HostIsa::avx512, HostIsa::avx2, HostIsa::generic}) {
    if (isa == HostIsa::generic || Target(isa).runs_here()) result.push_back(isa);
  }
  return result;
}

}  // namespace spjit::testing_support
