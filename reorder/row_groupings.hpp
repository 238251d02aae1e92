#pragma once

/// @file
/// Row groupings of one matrix, computed at most once each.

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "base/cancel.hpp"
#include "reorder/row_grouping.hpp"
#include "spjit/matrix.hpp"
#include "spjit/reorder.hpp"

namespace spjit {

/// Row groupings by M1: computed once a matrix, asked for often.
using GroupRows = std::function<const RowGrouping&(std::int64_t m1)>;

/// Groupings by M1. Refers to the matrix; what `at()` returns stays where it is. Both throw what
/// `cancel` throws soon after it is reached.
class RowGroupings {
 public:
  RowGroupings(const CsrMatrix& matrix, ReorderAlgorithm algorithm, Cancellation cancel = {})
      : matrix_(matrix), algorithm_(algorithm), cancel_(std::move(cancel)) {}

  [[nodiscard]] const RowGrouping& at(std::int64_t m1) {
    auto found = by_m1_.find(m1);
    if (found == by_m1_.end()) {
      found = by_m1_.emplace(m1, group_rows(matrix_, m1, algorithm_, cancel_)).first;
    }
    return found->second;
  }

  [[nodiscard]] const GroupingStatistics& statistics(std::int64_t m1) {
    auto found = statistics_.find(m1);
    if (found == statistics_.end()) {
      found = statistics_.emplace(m1, compute_statistics(matrix_, at(m1), cancel_)).first;
    }
    return found->second;
  }

 private:
  const CsrMatrix& matrix_;
  ReorderAlgorithm algorithm_;
  Cancellation cancel_;
  std::map<std::int64_t, RowGrouping> by_m1_;
  std::map<std::int64_t, GroupingStatistics> statistics_;
};

}  // namespace spjit
