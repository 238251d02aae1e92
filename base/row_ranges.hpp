#pragma once

/// @file
/// Many rows as few ranges of neighbours.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace spjit {

/// Rows [begin, end).
struct RowRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  friend bool operator==(const RowRange&, const RowRange&) = default;
};

/// Ascending rows, neighbours as one range: memory follows the gaps between them.
class RowRanges {
 public:
  RowRanges() = default;

  /// Adds [begin, end), which must not be empty and lie behind all rows so far.
  void add(std::int64_t begin, std::int64_t end) {
    if (!ranges_.empty() && ranges_.back().end == begin) {
      ranges_.back().end = end;
    } else {
      before_.push_back(count_);
      ranges_.push_back({begin, end});
    }
    count_ += end - begin;
  }

  [[nodiscard]] std::int64_t count() const noexcept { return count_; }
  [[nodiscard]] std::span<const RowRange> ranges() const noexcept { return ranges_; }

  /// The rows in places [first, first + most) of all of them, or up to the last.
  [[nodiscard]] std::vector<std::int32_t> list(std::int64_t first, std::int64_t most) const {
    std::vector<std::int32_t> rows;
    const std::int64_t end = std::min(count_, first + most);
    auto range = std::upper_bound(before_.begin(), before_.end(), first) - before_.begin() - 1;
    while (first < end) {
      const RowRange& from = ranges_[static_cast<std::size_t>(range)];
      const std::int64_t before = before_[static_cast<std::size_t>(range++)];
      const std::int64_t last = std::min(end, before + from.end - from.begin);
      for (; first < last; ++first) {
        rows.push_back(static_cast<std::int32_t>(from.begin + first - before));
      }
    }
    return rows;
  }

  /// Calls `visit` with what of each range lies in `rows`, which is not empty, where that is any.
  template <class Visit>
  void for_each_within(const RowRange& rows, const Visit& visit) const {
    auto range = std::ranges::upper_bound(ranges_, rows.begin, {}, &RowRange::end);
    for (; range != ranges_.end() && range->begin < rows.end; ++range) {
      visit(RowRange{std::max(range->begin, rows.begin), std::min(range->end, rows.end)});
    }
  }

  friend bool operator==(const RowRanges&, const RowRanges&) = default;

 private:
  std::vector<RowRange> ranges_;
  std::vector<std::int64_t> before_;  ///< rows in front of each range
  std::int64_t count_ = 0;
};

}  // namespace spjit
