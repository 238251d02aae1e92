#pragma once

/// @file
/// What a run of a kernel is given.

#include <cstdint>

namespace spjit {

/// How a dense matrix lies in memory.
enum class Layout : std::uint8_t {
  row_major,    ///< rows one after another, a leading dimension apart
  panel_major,  ///< panels of a kernel's panel width, see Kernel::run_panels()
};

/// The operands of C `[m x n]` = A `[m x k]` * B `[k x n]`, borrowed. B and C must not overlap.
struct Arguments {
  const float* b = nullptr;
  std::int64_t ldb = 0;  ///< floats between rows of B, >= n; 0: those it was compiled for
  float* c = nullptr;
  std::int64_t ldc = 0;               ///< the same of C
  std::int64_t n = 0;                 ///< columns of B and C; 0: those it was compiled for
  Layout layout = Layout::row_major;  ///< of B and C
  void* stream = nullptr;             ///< of a launch on a GPU; null: the default stream
};

}  // namespace spjit
