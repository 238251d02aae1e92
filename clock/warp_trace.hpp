#pragma once

/// @file
/// The trace of one warp of a launch: its operations in order, with the memory that they touch.

#include <cstdint>
#include <limits>
#include <vector>

namespace spjit {

inline constexpr std::uint32_t k_no_access = std::numeric_limits<std::uint32_t>::max();

struct TraceStep {
  std::uint32_t operation = 0;
  std::uint32_t access = k_no_access;  ///< index into WarpTrace::accesses
};

/// A load or store of a warp.
struct TraceAccess {
  std::uint32_t first = 0;   ///< of its sectors
  std::uint16_t count = 0;   ///< sectors of 32 bytes; none of shared memory
  std::uint16_t passes = 1;  ///< shared memory: times that a bank is asked, 1 without conflicts
};

struct WarpTrace {
  std::vector<TraceStep> steps;
  std::vector<TraceAccess> accesses;
  std::vector<std::uint64_t> sectors;  ///< address / 32, ascending within an access
  std::uint32_t assumed_branches = 0;  ///< whose predicate was not known: taken as not taken
  std::uint32_t assumed_accesses = 0;  ///< whose address depends on computed values
};

}  // namespace spjit
