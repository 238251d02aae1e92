#pragma once

/// @file
/// What the record of every kernel has, whatever its family (docs/cache-format.md).

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "reorder/row_grouping.hpp"
#include "spjit/kernel.hpp"

namespace spjit {

/// The family that a record names. Throws Error for what is no record of a kernel.
[[nodiscard]] std::string family_in(const nlohmann::json& record);

/// Fills the members of `info` that only the record knows: device, tile, reason, note. A record
/// that lacks them leaves them.
void apply_record(const nlohmann::json& record, KernelInfo& info);

/// The member "grouping" of families with row tiles.
[[nodiscard]] nlohmann::json to_json(const GroupingStatistics& grouping);

}  // namespace spjit
