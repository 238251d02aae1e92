#pragma once

/// @file
/// What the tile space holds: candidates with their statistics, and why some were dropped.

#include <cstdint>
#include <optional>
#include <string_view>

#include "kernels/candidate_space.hpp"
#include "kernels/unrolled_host/host_tile.hpp"
#include "reorder/row_grouping.hpp"

namespace spjit {

/// The hardware rules, in the order they are tried.
enum class TileRule : std::uint8_t {
  registers,    ///< accumulators + a row of the panel of B + a weight fit the register file
  code_budget,  ///< estimated machine code fits the budget
  utilisation,  ///< work divides between the threads: mean / busiest >= k_min_utilisation
  balance,      ///< padded columns <= k_max_padding of n
};

[[nodiscard]] std::string_view to_string(TileRule rule);

/// Seed 001 asks for row tiles and column padding within 25 %; on the host only the padding and the
/// division between threads cost time (tiles of one thread run one after another).
inline constexpr double k_max_padding = 0.25;
inline constexpr double k_min_utilisation = 0.75;

using DroppedCandidate = DroppedBy<TileRule>;

/// One tile for one matrix.
struct TileCandidate {
  HostTile tile;
  std::int64_t panels = 0;      ///< ceil(n / panel width)
  double column_padding = 0;    ///< padded columns / n
  std::int64_t registers = 0;   ///< vector registers needed
  std::int64_t code_bytes = 0;  ///< estimate of the machine code
  double utilisation = 1;       ///< mean / busiest thread's work
  GroupingStatistics grouping;  ///< of the rows at this m1; in a space none where m1 does not fit
  std::optional<DroppedCandidate> dropped;
};

using TileSpace = CandidateSpace<TileCandidate, TileRule>;

}  // namespace spjit
