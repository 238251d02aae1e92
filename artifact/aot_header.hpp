#pragma once

/// @file
/// The C++ header of a kernel that is linked ahead of time.

#include <string>

#include "kernels/host/object/host_image.hpp"
#include "spjit/kernel.hpp"

namespace spjit {

/// Kernel::aot_header() of a kernel of `image`. `name` may name a function.
[[nodiscard]] std::string aot_header_of(const KernelInfo& info, const HostImage& image,
                                        const std::string& name);

}  // namespace spjit
