#pragma once

/// @file
/// Scales of groups of columns of A.

#include <cstdint>
#include <vector>

namespace spjit {

/// A weight is an integer of A times the scale of its row and group: the columns
/// [g * columns, (g + 1) * columns) are group g, of which the last may have fewer. A sum is
///
///   a_g = the sum of group g's entries: an fp32 FMA each, columns ascending, from +0
///   C = fma(s_g, a_g, C) from +0, for all groups ascending, those without entries too
///
/// (`host-generic` rounds each product, too.) Of `integer` sums a_g is exact, C then their float.
struct GroupScales {
  std::int64_t columns = 0;   ///< of a group: 32, 64 or 128
  std::vector<float> values;  ///< [m x groups()], row by row: finite

  friend bool operator==(const GroupScales&, const GroupScales&) = default;
};

}  // namespace spjit
