#pragma once

/// @file
/// Scales of groups of columns of A as the pipeline sees them.

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>

#include "base/arithmetic.hpp"
#include "base/cancel.hpp"
#include "base/hash.hpp"
#include "spjit/group_scales.hpp"
#include "spjit/problem.hpp"

namespace spjit {

/// Whether groups may have so many columns.
[[nodiscard]] constexpr bool is_group_size(std::int64_t columns) noexcept {
  return columns == 32 || columns == 64 || columns == 128;
}
/// Groups of a row of A. Precondition: is_group_size().
[[nodiscard]] constexpr std::int64_t groups_of(std::int64_t cols, std::int64_t columns) noexcept {
  return cols / columns + (cols % columns != 0 ? 1 : 0);
}
/// Whether a number can be a scale.
[[nodiscard]] bool is_group_scale(float scale) noexcept;
/// Whether numerics and the rest of a problem can have scales of groups.
[[nodiscard]] bool takes_group_scales(const Numerics& numerics) noexcept;

/// Scales of groups, borrowed.
struct GroupScalesView {
  std::int64_t columns = 0;       ///< of a group; 0: A has none
  std::span<const float> values;  ///< [rows x groups]

  [[nodiscard]] bool empty() const noexcept { return columns == 0; }
  /// Groups of a row of A.
  [[nodiscard]] std::int64_t count(std::int64_t cols) const noexcept {
    return empty() ? 0 : groups_of(cols, columns);
  }
  /// Those of a row. Precondition: not empty().
  [[nodiscard]] std::span<const float> of_row(std::int64_t cols, std::int64_t row) const {
    const std::int64_t groups = count(cols);
    return values.subspan(to_size(row * groups), to_size(groups));
  }
};

/// Those of the problem.
[[nodiscard]] GroupScalesView groups_of(const Problem& problem) noexcept;

/// Throws InvalidArgument for scales that are none, do not fit A, or that the rest of the problem
/// does not take; what `cancel` throws.
void check_group_scales(const Problem& problem, const Cancellation& cancel);

/// Adds nothing where there are none.
void add_group_scales_to_key(const Problem& problem, KeyBuilder& key);

/// {"columns", "hash"}; null of null.
[[nodiscard]] nlohmann::json group_scales_json(const GroupScales* scales);
/// The scales that such JSON was written of: `scales`, which may be null if that is. Throws Error
/// that says which others were given.
[[nodiscard]] std::shared_ptr<const GroupScales> same_group_scales(
    const nlohmann::json& json, std::shared_ptr<const GroupScales> scales);

}  // namespace spjit
