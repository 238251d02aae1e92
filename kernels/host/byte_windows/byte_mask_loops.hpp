#pragma once

/// @file
/// The loops over bytes with masks.

#include <cstddef>
#include <cstdint>

#include "spjit/data_type.hpp"

namespace spjit {

/// A bit for each column of a block.
using ColumnMask = std::uint64_t;

/// Rows of a group, where groups of columns have scales: as many as a vector has sums.
inline constexpr std::int64_t k_scaled_lanes = 16;
/// Else the sums of each row and token are a register: of so many tokens with few lanes.
inline constexpr std::int64_t k_many_lanes = 8;
inline constexpr std::int64_t k_few_lanes = 4;
inline constexpr std::int64_t k_pass_of_many_lanes = 2;
inline constexpr std::int64_t k_pass_of_few_lanes = 4;
inline constexpr std::int64_t k_scaled_pass = 8;
/// A load reads so many bytes behind the last value.
inline constexpr std::size_t k_read_behind = 64;

/// Groups of rows that follow one another, for some tokens.
struct MaskedPass {
  const std::uint8_t* stream;
  std::int64_t groups;
  std::int64_t blocks;  ///< of columns
  std::int64_t first_row;
  std::int64_t rows;
  const std::int32_t* row_sums;  ///< [rows]
  const std::uint8_t* b;
  std::int64_t distance;  ///< bytes between tokens
  std::int64_t tokens;
  std::int32_t zero_point;
  std::byte* c;  ///< of the first token
  std::int64_t row_bytes;
  std::int64_t token_bytes;
  bool has_floats;
};

/// Scales of the same groups.
struct MaskedScales {
  std::int64_t group_columns;
  std::int64_t column_groups;
  DataType type;
  const std::uint8_t* data;
};

using RunMasks = void (*)(const MaskedPass&);
using RunScaledMasks = void (*)(const MaskedPass&, const MaskedScales&);

/// The loop for groups of so many rows. Precondition: as many tokens as a pass of them may have.
[[nodiscard]] RunMasks masks_kernel(bool has_nibbles, std::int64_t lanes, std::int64_t tokens);
/// That of k_scaled_lanes rows. A row's sum of a group of columns becomes a float exactly; one FMA
/// adds it, times its scale, groups in order. Values have 128 added, of i4 8.
[[nodiscard]] RunScaledMasks scaled_masks_kernel(bool has_nibbles, const MaskedPass& pass);

}  // namespace spjit
