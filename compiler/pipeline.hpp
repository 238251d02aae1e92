#pragma once

/// @file
/// From a problem to an artifact: the families in their order, the first that accepts and can
/// build.

#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "compiler/compile_record.hpp"
#include "kernels/kernel_family.hpp"

namespace spjit {

/// A compiled kernel that is not loaded yet.
struct CompiledKernel {
  const KernelFamily* family = nullptr;
  std::vector<Artifact::File> files;
  nlohmann::json record;
};

/// Asks `families` one after another. Throws NotSupported with all verdicts if none accepts and
/// builds; what building and the context throw.
[[nodiscard]] CompiledKernel compile_problem(const BuildRequest& request,
                                             std::span<const KernelFamily* const> families);

}  // namespace spjit
