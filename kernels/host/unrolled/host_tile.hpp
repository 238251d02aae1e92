#pragma once

/// @file
/// The host's tile: everything about the host kernel that can be chosen.

#include <cstdint>
#include <string>

#include "runtime/host/host_device_info.hpp"
#include "spjit/target.hpp"

namespace spjit {

/// How the product of one column with its rows is encoded.
enum class WeightForm : std::uint8_t {
  broadcast,  ///< every FMA broadcasts its weight from memory: least code
  register_,  ///< a weight is broadcast once into a register: least loads when nv > 1
  balanced,   ///< as many of a column's weights in registers as keep loads <= FMAs, the rest
              ///< broadcast
};

/// One choice for the host kernel. Loop nest, outermost first:
///   row group > panel group > k block > row tile > panel of the group
/// so `panel_group` panels run through one tile's code while it is hot.
struct HostTile {
  std::int64_t m1 = 28;          ///< rows a tile
  std::int64_t nv = 1;           ///< vectors a panel row; the panel is nv * lanes columns wide
  std::int64_t k_block = 0;      ///< columns a block; 0: all of k
  std::int64_t panel_group = 1;  ///< panels that share one visit to a tile's code
  std::int64_t row_group = 0;    ///< row tiles a group; 0: all
  bool pack_b = true;            ///< copy B into panels; false: read B in place at a fixed ldb
  WeightForm form = WeightForm::broadcast;
  std::int64_t memory_rows = 1;  ///< columns with at most this many entries use B from memory
  bool stream_c = false;         ///< stores to aligned C bypass the caches (avx512, avx2)
  /// Reads the next tile's code as data while panels run through this one: straight-line code
  /// comes from memory several times faster like that.
  bool read_ahead = false;
  /// Neighbouring row tiles share a function while their code together has so many bytes (avx512,
  /// avx2): a panel of B passes through all of them while it is in L1. 0: each has its own.
  std::int64_t join_bytes = 0;

  friend bool operator==(const HostTile&, const HostTile&) = default;
};

/// Greatest distance between rows of B that is built into code: 1 MiB, in floats. Rows that lie
/// farther apart are packed.
inline constexpr std::int64_t k_max_built_in_ldb = std::int64_t{1} << 18;

/// Whether B `[k x n]` can be read where it is, for any k. The last panel reaches back instead of
/// past the row's end, so n must fill one. The distance between rows must be one that is built into
/// code.
[[nodiscard]] constexpr bool can_read_in_place(const HostTile& tile, std::int64_t lanes,
                                               std::int64_t n, std::int64_t ldb) {
  return n >= tile.nv * lanes && ldb <= k_max_built_in_ldb;
}

/// "rows=28 vectors=1 panels=8 packed", for tables and records: rows a tile, vectors a panel row,
/// panels a visit to a tile's code, and whether B is packed or read in place. "k_block=",
/// "row_group=", "weights=", "memory_rows=", "join=", "stream" and "read-ahead" are there only
/// where they are not the default. Different tiles have different texts.
[[nodiscard]] std::string to_string(const HostTile& tile);

/// Registers a tile needs: accumulators, one row of the panel of B, one weight.
[[nodiscard]] constexpr std::int64_t registers_needed(const HostTile& tile) {
  return tile.m1 * tile.nv + tile.nv + 1;
}

}  // namespace spjit
