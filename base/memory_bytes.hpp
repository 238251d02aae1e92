#pragma once

/// @file
/// How much memory there is.

#include <cstdint>

namespace spjit {

/// Bytes of memory this machine has, or what its container may have of it: a file or an array that
/// is larger is refused before anything is allocated for it.
[[nodiscard]] std::int64_t memory_bytes();

}  // namespace spjit
