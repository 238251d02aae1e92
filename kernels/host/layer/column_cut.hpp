#pragma once

/// @file
/// Columns of B and C in groups that are computed one after another, or by threads.

#include <algorithm>
#include <cstdint>

#include "base/arithmetic.hpp"
#include "base/row_ranges.hpp"

namespace spjit {

/// Columns [0, n) in groups of nearly as many panels each.
class ColumnCut {
 public:
  /// Properties that groups are to have.
  struct Wish {
    std::int64_t columns;     ///< at most, in whole panels, but for what `whole` adds to the last
    std::int64_t panel = 16;  ///< columns of a panel, where groups begin
    bool whole = false;       ///< no group has less than a panel: the last has the rest besides
    int threads = 1;          ///< if there is more than one group, as many a thread
  };

  ColumnCut() = default;
  /// Preconditions: n > 0; columns >= panel > 0; threads > 0.
  ColumnCut(std::int64_t n, const Wish& wish) : n_(n), panel_(wish.panel) {
    panels_ = wish.whole ? std::max<std::int64_t>(n / panel_, 1) : ceil_div(n, panel_);
    groups_ = ceil_div(panels_, wish.columns / panel_);
    if (groups_ > 1) groups_ = std::min(round_up(groups_, wish.threads), panels_);
  }

  [[nodiscard]] std::int64_t groups() const noexcept { return groups_; }
  [[nodiscard]] RowRange group(std::int64_t index) const noexcept {
    return {begin_of(index), index + 1 == groups_ ? n_ : begin_of(index + 1)};
  }
  /// Columns of the largest group.
  [[nodiscard]] std::int64_t most() const noexcept {
    const std::int64_t rest = std::max<std::int64_t>(n_ - panels_ * panel_, 0);
    return std::min(ceil_div(panels_, groups_) * panel_ + rest, n_);
  }

 private:
  [[nodiscard]] std::int64_t begin_of(std::int64_t index) const noexcept {
    // Not index * panels / groups, which could pass 2^63.
    const std::int64_t more = panels_ % groups_;
    return (index * (panels_ / groups_) + std::min(index, more)) * panel_;
  }

  std::int64_t n_ = 0;
  std::int64_t panel_ = 1;
  std::int64_t panels_ = 0;
  std::int64_t groups_ = 1;
};

}  // namespace spjit
