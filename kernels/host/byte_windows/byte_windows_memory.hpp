#pragma once

/// @file
/// What a run of the family `byte_windows` computes at once, and where.

#include <cstdint>

#include "base/arithmetic.hpp"
#include "kernels/host/byte_windows/byte_operands.hpp"
#include "kernels/host/byte_windows/byte_windows_executable.hpp"
#include "plan/quantization.hpp"

namespace spjit {

/// Bytes that a run borrows, each a multiple of a cache line.
struct ByteWindowsExecutable::Sizes {
  std::int64_t tokens = 0;    ///< that are computed at once
  std::int64_t b = 0;         ///< bytes of these
  std::int64_t starts = 0;    ///< of windows in an image
  std::int64_t packed = 0;    ///< of what packs integers
  std::int64_t sums = 0;      ///< of what is no C yet
  std::int64_t residual = 0;  ///< of what is f32 only here
  std::int64_t factors = 0;   ///< of rows and of tokens, where B is quantised
  std::int64_t lanes = 0;     ///< of operands of ByteFinish

  [[nodiscard]] std::int64_t all() const {
    const char* const what = "bytes of a workspace";
    const std::int64_t of_b =
        checked_add(checked_add(b, packed, what), factors + starts + lanes, what);
    return checked_add(of_b, checked_add(sums, residual, what), what);
  }
};

struct ByteWindowsExecutable::Memory {
  std::uint8_t* b;        ///< or floats that are integers
  std::uint32_t* starts;  ///< [steps] of windows in an image
  float* packed;          ///< of each thread, CompactMatrix::k_workspace_floats
  std::byte* sums;        ///< [m x tokens] of i32 or, for an epilogue, f32
  float* residual;        ///< [m x tokens]
  float* of_tokens;       ///< [k_most_quantized_tokens] scales of Quantization::token
  float* of_rows;         ///< [m] products of scales
  float* of_lanes;        ///< [2 x lanes], where there is a `finish`
  ByteScale of_tensor;
  ByteFinish finish;
};

/// Sums as f32, where they are.
struct ByteWindowsExecutable::Sums {
  float* data;
  std::int64_t ld;  ///< floats between rows
};

/// Columns of B and C that are computed at once.
struct ByteWindowsExecutable::Tokens {
  std::int64_t first;
  std::int64_t count;
};

}  // namespace spjit
