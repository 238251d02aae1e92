#pragma once

/// @file
/// Whether operands of a run share memory.

#include <cstdint>

namespace spjit {

/// Bytes [begin, end) from the pointer on that a batch touches. All sizes are bytes.
struct TouchedBytes {
  const void* data;
  std::int64_t begin;
  std::int64_t end;
  std::int64_t ld = 0;  ///< of which only the first `width` are touched; 0: all are
  std::int64_t width = 0;
  std::int64_t distance = 0;  ///< of products
  std::int64_t last = 0;      ///< where the last begins

  /// The address of a byte.
  [[nodiscard]] std::uintptr_t at(std::int64_t byte) const noexcept {
    return reinterpret_cast<std::uintptr_t>(data) + static_cast<std::uintptr_t>(byte);
  }
};

/// Whether two operands share memory. Parts of the rows of one wider array do not.
[[nodiscard]] bool overlap(const TouchedBytes& left, const TouchedBytes& right);

}  // namespace spjit
