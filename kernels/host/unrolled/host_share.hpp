#pragma once

/// @file
/// How the work of a run is cut, and what it keeps in memory: packed B and partial sums.

#include <cstdint>

#include "kernels/host/operands/packing.hpp"
#include "kernels/host/unrolled/host_executor.hpp"

namespace spjit {

/// The part of the B it reads that a thread packs.
enum class Packing : std::uint8_t {
  none,      ///< nothing: it is done, or B is read where it is
  panels,    ///< the panels of a group, before the group's first block
  by_block,  ///< of these one block of rows, before the block
};

/// The share of one thread.
struct Share {
  std::int64_t panel_begin = 0;
  std::int64_t panel_end = 0;
  std::int64_t tile_begin = 0;
  std::int64_t tile_end = 0;
  float* packed = nullptr;         ///< panels of packed B, from `packed_panel` on
  PanelLayout packed_layout = {};  ///< that of packed B
  std::int64_t packed_panel = 0;
  std::int64_t packed_panels = 0;  ///< how many there is room for; later ones start over
  Packing packing = Packing::none;
  float* partial = nullptr;
};

/// The share of thread `part`. `workspace` has workspace_floats().
[[nodiscard]] Share share_of(const HostProgram& program, const HostSplit& split, std::int64_t part,
                             float* workspace);

[[nodiscard]] std::int64_t row_group_tiles(const HostProgram& program);
[[nodiscard]] std::int64_t panel_group_size(const HostProgram& program, std::int64_t n);
/// Floats between tiles of accumulators kept between k blocks.
[[nodiscard]] std::int64_t partial_tile_floats(const HostProgram& program);
[[nodiscard]] constexpr bool packs_b(const HostProgram& program) {
  return program.in_place_ldb == 0;
}

}  // namespace spjit
