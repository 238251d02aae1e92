#pragma once

/// @file
/// The host's tile space: candidates with their statistics, the hardware rules and which of them
/// dropped some, and all of it as JSON.

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

#include "base/cancel.hpp"
#include "kernels/host/unrolled/host_tile.hpp"
#include "kernels/tuning/candidate_space.hpp"
#include "reorder/row_grouping.hpp"
#include "runtime/host/host_device_info.hpp"
#include "spjit/options.hpp"
#include "spjit/problem.hpp"

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

/// The statistics of a grouping by M1: of a real one, or estimated.
using DescribeGrouping = std::function<GroupingStatistics(std::int64_t m1)>;

/// All tiles for a problem on the host: shapes that fill the register file x blocks of k x panel
/// groups x row groups x packing x weight forms, each checked against the rules. If none is left,
/// rules are relaxed in the order balance, utilisation, until one is (registers and the code budget
/// never are). Blocks of k are left out where most would be empty, and packing where B is mostly
/// unread. Throws what `cancel` throws soon after it is reached.
[[nodiscard]] TileSpace enumerate_host_tiles(const Problem& problem, const CompileOptions& options,
                                             const HostDeviceInfo& limits,
                                             const DescribeGrouping& describe,
                                             const Cancellation& cancel = {});

/// The candidate for one tile: statistics and the first rule that drops it.
[[nodiscard]] TileCandidate examine_host_tile(const Problem& problem, const HostTile& tile,
                                              const CompileOptions& options,
                                              const HostDeviceInfo& limits,
                                              const GroupingStatistics& grouping);

/// Machine code of a tile in bytes, from counts: instructions x their usual size. Never below what
/// the emitter makes; at most 1.10 times it for one-vector AVX-512 tiles, up to 1.64 times it for
/// others, where columns of a single entry need less
/// (tests/unit/kernels/host/unrolled/tile_space_test.cpp).
[[nodiscard]] std::int64_t estimate_code_bytes(const HostTile& tile, HostIsa isa, std::int64_t nnz,
                                               std::int64_t nnc_sum, std::int64_t segments);

/// docs/design/cache-format.md lists the members.
[[nodiscard]] nlohmann::json to_json(const HostTile& tile);
[[nodiscard]] nlohmann::json to_json(const TileSpace& space);

}  // namespace spjit
