#pragma once

/// @file
/// The order of A's rows for kernels whose vectors have a row of A in each lane.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/arithmetic.hpp"
#include "base/cancel.hpp"
#include "kernels/host/object/csr_view.hpp"

namespace spjit {

/// Calls `on_group(rows)` for the rows of a vector at a time, the last ones perhaps fewer.
template <class OnGroup>
void for_each_group(std::span<const std::int32_t> rows, std::int64_t lanes,
                    const OnGroup& on_group) {
  while (!rows.empty()) {
    const std::span<const std::int32_t> group = rows.first(std::min(rows.size(), to_size(lanes)));
    on_group(group);
    rows = rows.subspan(group.size());
  }
}

struct OrderedRows {
  std::vector<std::int32_t> rows;
  std::int64_t steps = 0;
};

/// Steps that such rows need, in groups of a vector's.
using StepsOfRows = std::function<std::int64_t(std::span<const std::int32_t>)>;

/// Rows that are ordered together, if no fewer are asked for.
inline constexpr std::int64_t k_ordered_rows = 512;

/// All rows, those of a group beside each other. Of each `together` rows none goes to others.
/// Throws what `cancel` throws.
[[nodiscard]] OrderedRows order_rows(const CsrView& matrix, std::int64_t lanes,
                                     const StepsOfRows& steps_of, const Cancellation& cancel,
                                     std::int64_t together = k_ordered_rows);

}  // namespace spjit
