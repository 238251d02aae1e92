#pragma once

/// @file
/// The ways to a finished kernel on the host.

#include "bench/search_cost/measure_way.hpp"
#include "spjit/target.hpp"

namespace spjit::bench {

/// Compiles `item` for a host target, as the modes do; `full_undivided` is the exhaustive search
/// without what makes it cheaper: every survivor emitted by itself and timed in seven rounds, none
/// dropped early. There are no units on the host. One thread runs the kernels.
[[nodiscard]] WorkReport run_host_way(const CostCase& item, const Target& target, CostWay way,
                                      const CostSettings& settings, CostReporter& reporter);

}  // namespace spjit::bench
