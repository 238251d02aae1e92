#pragma once

/// @file
/// All families of kernels.

#include <span>
#include <string_view>

#include "kernels/kernel_family.hpp"

namespace spjit {

/// In the order in which they are asked: the first that accepts a problem compiles it.
[[nodiscard]] std::span<const KernelFamily* const> kernel_families();

/// The family of that name. Throws Error that lists those there are.
[[nodiscard]] const KernelFamily& find_family(std::string_view name);

}  // namespace spjit
