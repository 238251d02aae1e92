#pragma once

/// @file
/// The options of spjit that a way sets, on the host and on a GPU.

#include "base/tuning.hpp"
#include "bench/search_cost/cost_row.hpp"
#include "spjit/compiler.hpp"

namespace spjit::bench {

/// Options of a way, without the target. The search's own budget is beyond the way's limit.
[[nodiscard]] CompileOptions way_options(CostWay way, const CostSettings& settings);

/// `tuning` with seven rounds for every candidate: the cost of timing in full if none is dropped.
[[nodiscard]] TuningOptions without_drops(const TuningOptions& tuning);

}  // namespace spjit::bench
