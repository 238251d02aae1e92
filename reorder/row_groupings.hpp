#pragma once

/// @file
/// Row groupings of one matrix, computed at most once each.

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "base/cancel.hpp"
#include "reorder/row_grouping.hpp"
#include "spjit/matrix.hpp"
#include "spjit/reorder.hpp"

namespace spjit {

/// Row groupings by M1: computed once a matrix, asked for often.
using GroupRows = std::function<const RowGrouping&(std::int64_t m1)>;

/// Groupings by M1. Thread-safe: groupings of different M1 are made at once. Refers to the matrix;
/// what the functions return stays where it is. Both throw what `cancel` throws soon after it is
/// reached.
class RowGroupings {
 public:
  RowGroupings(const CsrMatrix& matrix, ReorderAlgorithm algorithm, Cancellation cancel = {})
      : matrix_(matrix), algorithm_(algorithm), cancel_(std::move(cancel)) {}

  [[nodiscard]] const RowGrouping& at(std::int64_t m1) {
    Entry& entry = entry_of(m1);
    const std::lock_guard lock(entry.mutex);
    return grouping_of(entry, m1);
  }

  [[nodiscard]] const GroupingStatistics& statistics(std::int64_t m1) {
    Entry& entry = entry_of(m1);
    const std::lock_guard lock(entry.mutex);
    if (!entry.statistics) {
      entry.statistics = compute_statistics(matrix_, grouping_of(entry, m1), cancel_);
    }
    return *entry.statistics;
  }

 private:
  struct Entry {
    std::mutex mutex;
    std::optional<RowGrouping> grouping;
    std::optional<GroupingStatistics> statistics;
  };

  Entry& entry_of(std::int64_t m1) {
    const std::lock_guard lock(mutex_);
    return by_m1_[m1];
  }

  const RowGrouping& grouping_of(Entry& entry, std::int64_t m1) {
    if (!entry.grouping) entry.grouping = group_rows(matrix_, m1, algorithm_, cancel_);
    return *entry.grouping;
  }

  const CsrMatrix& matrix_;
  ReorderAlgorithm algorithm_;
  Cancellation cancel_;
  std::mutex mutex_;  ///< of the map
  std::map<std::int64_t, Entry> by_m1_;
};

}  // namespace spjit
