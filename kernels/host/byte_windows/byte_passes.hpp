#pragma once

/// @file
/// The loops of bytes of each form, and what they take.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/host/byte_windows/byte_form.hpp"
#include "kernels/host/byte_windows/byte_operands.hpp"
#include "kernels/host/byte_windows/byte_steps.hpp"

namespace spjit {

/// Tokens that are computed together: their sums are registers.
inline constexpr std::size_t k_pass_tokens = 8;
/// Where a window's halves are tables of their own: columns of one.
inline constexpr std::int64_t k_half_window = 16;
/// Where it is one table: its columns.
inline constexpr std::int64_t k_whole_window = 64;
/// In a place of halves: it is in the other half of the window, and vpshufb gives 0.
inline constexpr std::uint8_t k_other_half = 0x80;

/// Where a run is, without bounds.
struct ByteStream {
  const std::uint32_t* starts;
  const std::uint8_t* places;
  const std::uint8_t* values;
};

/// Groups that follow one another.
struct ByteGroups {
  std::int64_t first_step;
  std::span<const std::int64_t> ends;
  const std::int32_t* rows;      ///< [groups x lanes]
  const std::int32_t* row_sums;  ///< the same, of A; null: 0 is stored as 0
  std::int32_t zero_point;
};

/// Operands of up to k_pass_tokens tokens.
struct BytePass {
  const std::uint8_t* b;
  std::int64_t stride;
  std::byte* c;
  std::int64_t row_bytes;
  std::int64_t token_bytes;
  bool has_floats;
};

using RunByteGroups = void (*)(const ByteStream&, const ByteGroups&, const BytePass&);

/// Rows that follow one another in C, and groups of them.
inline constexpr std::int64_t k_near_rows = 64;
inline constexpr std::int64_t k_near_lanes = 16;
inline constexpr std::size_t k_near_groups = k_near_rows / k_near_lanes;

/// How sums become bytes of C.
struct BlockTarget {
  ByteFinish finish;          ///< of the first group on
  const std::uint8_t* order;  ///< [blocks x k_near_rows] place of each row among bytes of lanes
  std::int64_t rows;          ///< of the first group on
  float reciprocal;           ///< of the unit of C
  bool is_one;                ///< that unit is 1: quotients are exact
};

using RunByteBlocks = void (*)(const ByteStream&, const ByteGroups&, const BytePass&,
                               const BlockTarget&);

/// Where a run with scales of groups is, without bounds.
struct ScaledStream {
  const std::uint8_t* counts;
  const std::uint8_t* starts;
  const std::uint8_t* places;  ///< or packed slots
  const std::uint8_t* values;  ///< null where those are packed
  const float* scales;
  const std::int16_t* sums;
};

/// Groups of rows that follow one another, whose groups of columns have scales.
struct ScaledGroups {
  std::int64_t count;
  std::int64_t group_columns;
  std::int64_t column_groups;
  const std::int32_t* rows;  ///< [count x lanes]
  std::int32_t zero_point;
};

using RunScaledGroups = void (*)(const ScaledStream&, const ScaledGroups&, const BytePass&);

/// A loop for 1 to k_pass_tokens tokens.
struct ByteLoop {
  std::array<RunByteGroups, k_pass_tokens> groups;  ///< null of packed slots
  std::array<RunScaledGroups, k_pass_tokens> scaled;
};

/// The loop of a form. Preconditions: `shape` is one of the form's; it takes `kind`.
[[nodiscard]] const ByteLoop& byte_loop_of(ByteForm form, const ByteShape& shape, ByteKind kind);

/// The loop of ByteForm::vbmi over whole windows whose sums become bytes of C. 1 to k_pass_tokens
/// tokens.
[[nodiscard]] RunByteBlocks block_loop_of(std::size_t tokens);

}  // namespace spjit
