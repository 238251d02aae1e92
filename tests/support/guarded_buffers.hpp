#pragma once

/// @file
/// Puts the library's own buffers (FloatBuffer: workspaces, packed operands) between pages that
/// cannot be touched, in the test programs that link the target test_allocation.

#include <cstdint>

#include "tests/support/guarded_memory.hpp"

namespace spjit::testing_support {

/// While it lives, arrays that operator new[] makes with an alignment, on all threads, are of exact
/// size up to that alignment. At most one at a time.
class GuardedBuffers {
 public:
  explicit GuardedBuffers(GuardPlacement placement);
  GuardedBuffers(const GuardedBuffers&) = delete;
  GuardedBuffers& operator=(const GuardedBuffers&) = delete;
  ~GuardedBuffers();

  /// Arrays made since the program began.
  [[nodiscard]] static std::int64_t made() noexcept;
};

}  // namespace spjit::testing_support
