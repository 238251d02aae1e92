#pragma once

/// @file
/// A search's trace as text.

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/tuning/search_trace.hpp"
#include "tools/report/terminal.hpp"

namespace spjit::cli {

/// The fastest tile of one M1 x N1.
struct SearchCell {
  std::int64_t m1 = 0;
  std::int64_t n1 = 0;
  double us = 0;        ///< a run; in full where that was timed, else of a proxy
  bool full = false;    ///< which of the two
  double slower = 0;    ///< than the fastest cell: 0.1 is 10 %
  bool chosen = false;  ///< has the chosen tile
};

/// Cells with a time, ascending by m1, then n1.
[[nodiscard]] std::vector<SearchCell> search_cells(const SearchTrace& trace);

/// "+12 %~": how much slower than the fastest, and whether by proxy.
[[nodiscard]] std::string slower_text(const SearchCell& cell);

/// Seconds of each stage, the grid, then every tile that was to be timed with both its times. Empty
/// where nothing was searched. A '*' marks the chosen tile.
[[nodiscard]] std::string search_table(const SearchTrace& trace, const Terminal& terminal);

}  // namespace spjit::cli
