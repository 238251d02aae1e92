#pragma once

/// @file
/// The cache key of a compilation.

#include <string>

#include "compiler/device_limits.hpp"
#include "spjit/compiler.hpp"
#include "spjit/matrix.hpp"

namespace spjit {

/// SHA-256 over everything that decides the artifact: A's pattern and value bits, the options, what
/// the choice of the tile looks at in the device, and the versions of emitter and library.
/// docs/cache-format.md lists the fields. 64 hexadecimal digits.
[[nodiscard]] std::string cache_key(const CsrMatrix& matrix, const CompileOptions& options,
                                    const HostLimits& limits);

}  // namespace spjit
