#pragma once

/// @file
/// Parts of A and of B and C that loops of the family `compact` take, and tables of these loops.

#include <cstddef>
#include <cstdint>

#include "base/arithmetic.hpp"
#include "kernels/host/loops/compact_kernel.hpp"
#include "kernels/host/loops/compact_packing.hpp"
#include "kernels/host/operands/held_values.hpp"

namespace spjit::compact {

/// How far ahead of their use values are asked for [bytes]; column numbers, which are half as
/// large, half as far. A step is so much work that few loads of what comes next are under way by
/// themselves: from memory n = 32 takes 1.5 times as long without, n = 64 1.2 times, n = 8 1.1
/// times.
inline constexpr std::ptrdiff_t k_values_ahead = 4096;
/// Values are asked for into L1 on CPUs that load weights (in sequence n of 8 and 16 take 0.92 to
/// 0.95 of the time with values only, 4 KB ahead, into L2; hot 1.01 to 1.03).
inline constexpr std::ptrdiff_t k_near_ahead = 2048;

/// Slices or rows that a run goes through, without bounds.
struct Streams {
  const CompactMatrix::Slice* slices;
  const CompactMatrix::Slice* end;
  const CompactMatrix::Row* rows;
  const CompactMatrix::Row* end_row;
  const std::uint16_t* offsets;
  const std::byte* values;  ///< as HeldValues has them
  const std::uint16_t* tail_offsets;
  const float* tail_values;
  const float* scales;  ///< of a group of columns: [slices x 8] or of the rows; null: none
};

/// Columns of B and C that one pass computes.
struct Panel {
  const float* b;              ///< the block's first row, or from where places count
  std::int64_t ldb;            ///< of a B that is read in place
  const std::int64_t* places;  ///< of the block's rows of B, from `b` on; null: ldb apart
  float* c;                    ///< row 0
  std::int64_t ldc;
  std::int64_t last;  ///< columns of the last vector
  bool fetches_c;     ///< rows of C may be far away
};

using RunBlock = void (*)(Streams, const Panel&, bool);

/// Loops of an instruction set for an order of entries.
struct Kernels {
  /// Columns of each panel of n but the last.
  std::int64_t (*panel_columns)(std::int64_t n);
  std::int64_t widest;  ///< lanes of vectors of a panel that is not narrow
  /// Where rows of a panel of so many columns are packed.
  PackedLayout (*layout)(std::int64_t columns);
  RunBlock (*packed)(std::int64_t columns);
  RunBlock (*in_place)(std::int64_t columns);
  RunBlock (*in_place_masked)(std::int64_t columns);
  RunBlock (*at_places)(std::int64_t columns);
  RunBlock (*at_places_masked)(std::int64_t columns);
  /// As `packed`, for an A whose blocks are groups of columns with scales; null: it takes none.
  RunBlock (*packed_groups)(std::int64_t columns) = nullptr;

  /// The loop that reads B where it is, by vectors of so many lanes.
  [[nodiscard]] RunBlock reading(const Panel& panel, std::int64_t columns,
                                 std::int64_t lanes) const {
    const bool is_masked = panel.last != lanes;
    if (panel.places == nullptr) return (is_masked ? in_place_masked : in_place)(columns);
    return (is_masked ? at_places_masked : at_places)(columns);
  }
};

constexpr Kernels with_groups(Kernels kernels, RunBlock (*packed_groups)(std::int64_t columns)) {
  kernels.packed_groups = packed_groups;
  return kernels;
}

inline std::int64_t whole_panels(std::int64_t /*n*/) { return k_compact_panel_columns; }
inline std::int64_t narrow_panels(std::int64_t /*n*/) { return k_plane_row; }

/// As many panels as there are of 64 columns, nearly as wide as one another, in vectors: a narrow
/// rest would take as long as a wide one.
template <std::int64_t Floats>
std::int64_t even_panels(std::int64_t n) {
  return round_up(ceil_div(n, ceil_div(n, k_compact_panel_columns)), Floats);
}

/// Loops over values that are no floats; B is packed. Precondition: this CPU has `isa`.
[[nodiscard]] const Kernels& narrow_kernels_of(HostIsa isa, HeldType type, CompactOrder order);

}  // namespace spjit::compact
