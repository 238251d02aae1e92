#pragma once

/// @file
/// Shows how a search stands, on stderr.

#include <functional>

#include "spjit/compiler.hpp"
#include "tools/report/terminal.hpp"

namespace spjit::cli {

/// For CompileControl::progress; stages without candidates are not shown. On a terminal one line
/// that is redrawn a few times a second, with candidates done, the best so far and the seconds
/// left. Elsewhere the same numbers as JSON lines, `{"event": "search", "stage", "done", "total",
/// "best", "best_us", "seconds_left"}`, the first one of each stage and then two a second.
[[nodiscard]] std::function<void(const SearchProgress&)> show_search_progress(
    const Terminal& terminal);

}  // namespace spjit::cli
