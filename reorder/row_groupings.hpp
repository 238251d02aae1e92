#pragma once

/// @file
/// Row groupings of one matrix, computed at most once each.

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "base/cancel.hpp"
#include "reorder/row_grouping.hpp"
#include "spjit/matrix.hpp"
#include "spjit/reorder.hpp"

namespace spjit {

/// Groupings by M1 and algorithm. Thread-safe: different groupings are made at once. Refers to the
/// matrix; what the functions return stays where it is. All throw what `cancel` throws soon after
/// it is reached.
class RowGroupings {
 public:
  RowGroupings(const CsrMatrix& matrix, ReorderAlgorithm algorithm, Cancellation cancel = {})
      : matrix_(matrix), algorithm_(algorithm), cancel_(std::move(cancel)) {}

  /// The algorithm that was asked for; where no algorithm is named below, it is this one.
  [[nodiscard]] ReorderAlgorithm algorithm() const noexcept { return algorithm_; }

  [[nodiscard]] const RowGrouping& at(std::int64_t m1) { return at(m1, algorithm_); }
  [[nodiscard]] const RowGrouping& at(std::int64_t m1, ReorderAlgorithm algorithm) {
    Entry& entry = entry_of(m1, algorithm);
    const std::lock_guard lock(entry.mutex);
    return grouping_of(entry, m1, algorithm);
  }

  [[nodiscard]] const GroupingStatistics& statistics(std::int64_t m1) {
    return statistics(m1, algorithm_);
  }
  [[nodiscard]] const GroupingStatistics& statistics(std::int64_t m1, ReorderAlgorithm algorithm) {
    Entry& entry = entry_of(m1, algorithm);
    const std::lock_guard lock(entry.mutex);
    if (!entry.statistics) {
      entry.statistics = compute_statistics(matrix_, grouping_of(entry, m1, algorithm), cancel_);
    }
    return *entry.statistics;
  }

 private:
  struct Entry {
    std::mutex mutex;
    std::optional<RowGrouping> grouping;
    std::optional<GroupingStatistics> statistics;
  };

  Entry& entry_of(std::int64_t m1, ReorderAlgorithm algorithm) {
    const std::lock_guard lock(mutex_);
    return entries_[{m1, algorithm}];
  }

  const RowGrouping& grouping_of(Entry& entry, std::int64_t m1, ReorderAlgorithm algorithm) {
    if (!entry.grouping) entry.grouping = group_rows(matrix_, m1, algorithm, cancel_);
    return *entry.grouping;
  }

  const CsrMatrix& matrix_;
  ReorderAlgorithm algorithm_;
  Cancellation cancel_;
  std::mutex mutex_;  ///< of the map
  std::map<std::pair<std::int64_t, ReorderAlgorithm>, Entry> entries_;
};

}  // namespace spjit
