#pragma once

/// @file
/// What a Kernel holds.

#include <memory>
#include <string>

#include "kernels/kernel_family.hpp"
#include "spjit/kernel.hpp"

namespace spjit {

/// Immutable once it was handed out.
class Kernel::Impl {
 public:
  KernelInfo info;
  Artifact artifact;
  const KernelFamily* family = nullptr;
  std::shared_ptr<const Executable> executable;  ///< null: for a GPU, and in none
};

/// The arguments with defaults filled in. Throws InvalidArgument for what Kernel::run() says of
/// sizes and pointers.
[[nodiscard]] Arguments checked_arguments(const KernelInfo& info, Arguments arguments);

}  // namespace spjit
