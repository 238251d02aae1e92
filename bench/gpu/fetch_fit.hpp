#pragma once

/// @file
/// What part of a kernel's time is fetching instructions, from its times at several N1.

#include <cstdint>
#include <optional>
#include <span>

namespace spjit::bench {

/// One kernel: threads of a tile, and its time.
struct N1Time {
  std::int64_t n1 = 0;
  double us = 0;
};

/// us(N1) = other_us + fetch_us_columns / N1. A tile's code is fetched by each of its ceil(n / N1)
/// blocks, so at the same n what fetching takes falls as 1 / N1; FMAs, loads of B and stores of C
/// are the same at every N1.
struct FetchFit {
  double other_us = 0;
  double fetch_us_columns = 0;
  double relative_error = 0;  ///< root mean square of (us - fit) / us

  /// What falls as 1 / N1, as a share of the time at an N1: 0 to 1.
  [[nodiscard]] double share_at(std::int64_t n1) const;
};

/// The least squares fit with no negative part; nothing for times of fewer than three different N1
/// or any that is not positive.
[[nodiscard]] std::optional<FetchFit> fit_fetch(std::span<const N1Time> times);

}  // namespace spjit::bench
