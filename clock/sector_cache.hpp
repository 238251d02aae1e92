#pragma once

/// @file
/// A cache of lines of which sectors come one by one, as the clock replays it.

#include <array>
#include <cstdint>
#include <vector>

namespace spjit {

inline constexpr std::uint32_t k_sector_bytes = 32;
inline constexpr std::uint32_t k_line_bytes = 128;

/// Sets of lines with the least recently used one replaced. A sector is there from the cycle on
/// that its fill said.
class SectorCache {
 public:
  static constexpr std::uint64_t k_sectors_a_line = 4;
  static constexpr std::uint64_t k_hashed_ways = 16;

  /// Room for as many bytes, in lines of 128; none for less than a line. `sets`: line i is in set
  /// i modulo their number; 0: sets are hashed, of 16 lines each.
  explicit SectorCache(double bytes, std::uint64_t sets = 0);

  /// The cycle from which on the sector is there, or a negative number if it is to be fetched.
  /// Counts as a use of its line.
  [[nodiscard]] double find(std::uint64_t sector);
  /// The cycle from `at` on in which there is a line for the sector: one that waits for its own
  /// sectors cannot be replaced.
  [[nodiscard]] double room_from(std::uint64_t sector, double at) const;
  /// The sector, asked for at `at`, will be there at `ready`.
  void fill(std::uint64_t sector, double at, double ready);

  [[nodiscard]] std::uint64_t hits() const noexcept { return hits_; }
  [[nodiscard]] std::uint64_t misses() const noexcept { return misses_; }

 private:
  struct Line {
    std::uint64_t tag = ~std::uint64_t{0};
    std::uint64_t used = 0;
    double until = -1;  ///< when all of it that was asked for is there
    std::array<double, k_sectors_a_line> ready = {-1, -1, -1, -1};
  };

  [[nodiscard]] std::size_t set_of(std::uint64_t line) const noexcept;
  [[nodiscard]] std::size_t place_of(std::uint64_t line) const noexcept;

  std::vector<Line> lines_;
  std::uint64_t sets_ = 0;
  std::uint64_t ways_ = 0;
  bool is_hashed_ = false;
  std::uint64_t uses_ = 0;
  std::uint64_t hits_ = 0;
  std::uint64_t misses_ = 0;
};

}  // namespace spjit
