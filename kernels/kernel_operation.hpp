#pragma once

/// @file
/// The operation of a kernel, by its facts.

#include "plan/operation.hpp"
#include "spjit/kernel_info.hpp"

namespace spjit {

[[nodiscard]] inline const OperationRules& rules_of(const KernelInfo& info) {
  return rules_of(info.convolution);
}
/// Sizes of a run as it was compiled.
[[nodiscard]] inline OperationSizes sizes_of(const KernelInfo& info) noexcept {
  return sizes_of(info.cols, info.n, info.convolution);
}

}  // namespace spjit
