#pragma once

/// @file
/// What a run prints while it goes on.

#include <string>
#include <vector>

#include "bench/lab/record.hpp"

namespace spjit::bench {

/// Cases that were measured together, a line: the first way's time over all layers and its noise,
/// and how many times as long every other way takes, the geometric mean over layers. Brackets have
/// the range over cases. Below it a line for each way that was not timed, with the reason.
[[nodiscard]] std::string to_text(const std::vector<Case>& cases);

}  // namespace spjit::bench
