#pragma once

/// @file
/// Memory of vectors.

#include <cstdint>
#include <vector>

namespace spjit {

/// Empties a vector and gives its memory back, which `values = {}` keeps.
template <class T>
void free_memory(std::vector<T>& values) noexcept {
  std::vector<T>().swap(values);
}

/// Bytes that a vector holds, used or not.
template <class T>
[[nodiscard]] std::int64_t held_bytes(const std::vector<T>& values) noexcept {
  return static_cast<std::int64_t>(values.capacity() * sizeof(T));
}

}  // namespace spjit
