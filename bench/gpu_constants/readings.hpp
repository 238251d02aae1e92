#pragma once

/// @file
/// From clocks of warps to constants: arithmetic alone, no device.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace spjit::bench {

/// One warp's clock before and after its loop. [cycles of its SM]
struct WarpClocks {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// Of each block of a launch the cycles from its first warp's begin to its last one's end. `warps`
/// a block, clocks in the order of the grid. Throws Error where a warp ends before it begins or
/// clocks are not of whole blocks.
[[nodiscard]] std::vector<double> cycles_of_blocks(std::span<const WarpClocks> clocks,
                                                   std::size_t warps);

/// The middle one, of an even number the mean of both. Throws Error for none.
[[nodiscard]] double median_of(std::vector<double> values);

/// Straight-line code of a size, and the cycles that an instruction of a warp takes in it.
struct FetchPoint {
  std::int64_t code_bytes = 0;
  double cycles = 0;
};

/// Knees of a curve of fetches, ascending by size.
struct FetchKnees {
  /// Largest size that takes at most 5 % more than the smallest one: what the first level holds.
  /// None where all do.
  std::optional<std::int64_t> first_bytes;
  /// Largest size that takes less than half way from what follows the first level to the largest
  /// size: what the second level holds. None without a second step, where the largest size takes
  /// less than 1.2 times that.
  std::optional<std::int64_t> second_bytes;
};

[[nodiscard]] FetchKnees knees_of(std::span<const FetchPoint> curve);

/// A cycle through `lines` places in an order drawn with `seed`: next[i] is the place after i.
/// Every place is met once before the first comes again. Throws Error for none.
[[nodiscard]] std::vector<std::uint32_t> random_cycle(std::uint32_t lines, std::uint64_t seed);

}  // namespace spjit::bench
