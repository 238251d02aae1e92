#pragma once

/// @file
/// Limits of a matrix, and of a file that claims to hold one.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/memory_bytes.hpp"

namespace spjit {

/// Largest number of rows or of columns: column indices are 32-bit.
inline constexpr std::int64_t k_max_dimension = 2147483647;

/// Rows any file may claim without entries to show for them: 128 MiB of row offsets.
inline constexpr std::int64_t k_max_free_rows = std::int64_t{1} << 24;

/// Rows that a file of `file_bytes` may have: each row costs 8 bytes of offsets even when it is
/// empty, so past `k_max_free_rows` there must be a byte of file for each, and memory for all.
[[nodiscard]] inline std::int64_t most_rows(std::size_t file_bytes) {
  const std::int64_t most = std::max(k_max_free_rows, static_cast<std::int64_t>(file_bytes));
  return std::min(most, memory_bytes() / std::int64_t{sizeof(std::int64_t)});
}

}  // namespace spjit
