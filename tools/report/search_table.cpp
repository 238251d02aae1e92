#include "tools/report/search_table.hpp"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "tools/report/table.hpp"
#include "tools/report/tile_grid.hpp"

namespace spjit::cli {
namespace {

bool has_time(const std::optional<TuningResult>& result) {
  return result && result->timing.samples > 0;
}

std::string time_text(const std::optional<TuningResult>& result) {
  return has_time(result) ? fmt::format("{:.2f}", result->timing.median_us) : "";
}

/// "finished, 12 samples, noise 0.4 %", or why there are none.
std::string outcome_text(const std::optional<TuningResult>& result) {
  if (!result) return "";
  if (!result->failure.empty()) return "failed: " + result->failure;
  if (!has_time(result)) return "not reached";
  return fmt::format("{}, {} samples, noise {:.1f} %", to_string(result->outcome),
                     result->timing.samples, 100 * result->timing.noise);
}

/// "in 12.31 us, memory", or why the clock says nothing.
std::string modelled_text(const std::optional<ModelledResult>& result) {
  if (!result) return "";
  if (!result->failure.empty()) return "failed: " + result->failure;
  return fmt::format("in {:.2f} us, {}", result->us, result->bound);
}

/// The ranking's first, as the clock sees them.
std::string modelled_table(const SearchTrace& trace, const Terminal& terminal) {
  Table table({{"", Column::Align::left},
               {"rank"},
               {"tile", Column::Align::left},
               {"score"},
               {"modelled, not timed", Column::Align::left}});
  std::size_t modelled = 0;
  for (std::size_t i = 0; i < trace.entries.size(); ++i) {
    const SearchTraceEntry& entry = trace.entries[i];
    if (!entry.modelled) continue;
    ++modelled;
    const std::string note = entry.note.empty() ? "" : ", " + entry.note;
    table.add({i == trace.chosen ? "*" : " ", std::to_string(i + 1), entry.tile,
               fmt::format("{:.4g}", entry.score), modelled_text(entry.modelled) + note});
  }
  const std::string title = fmt::format("Search: {}, {} of {} tiles modelled, not timed",
                                        to_string(trace.mode), modelled, trace.entries.size());
  return bold(title, terminal) + "\n" +
         fmt::format("  ranked by   {}, {:.0f} ms\n  modelled    {:.0f} ms\n\n", trace.ranked_by,
                     trace.rank_ms, trace.full_ms) +
         table.text(terminal);
}

/// After the outcome of what it is about: a GPU search times either proxies or whole kernels.
std::string note_text(const SearchTraceEntry& entry) {
  if (entry.note.empty()) return "";
  return (entry.proxy ? ", " : "") + entry.note;
}

std::string grid_text(const std::vector<SearchCell>& cells, const Terminal& terminal) {
  std::vector<TileGridCell> grid;
  grid.reserve(cells.size());
  for (const SearchCell& cell : cells) {
    grid.push_back({cell.m1, cell.n1, slower_text(cell), cell.chosen});
  }
  return tile_grid_text(grid, terminal);
}

std::string stages_text(const SearchTrace& trace) {
  std::string text =
      fmt::format("  ranked by   {}, {:.0f} ms\n  proxies     {:.0f} ms\n  in full     {:.0f} ms\n",
                  trace.ranked_by, trace.rank_ms, trace.proxy_ms, trace.full_ms);
  if (!trace.timed) text += "  ranked, not timed\n";
  return text;
}

}  // namespace

std::vector<SearchCell> search_cells(const SearchTrace& trace) {
  std::map<std::pair<std::int64_t, std::int64_t>, SearchCell> best;
  for (std::size_t i = 0; i < trace.entries.size(); ++i) {
    const SearchTraceEntry& entry = trace.entries[i];
    const bool full = has_time(entry.full);
    if (!full && !has_time(entry.proxy)) continue;
    const double us = full ? entry.full->timing.median_us : entry.proxy->timing.median_us;
    SearchCell& cell = best[{entry.m1, entry.n1}];
    // A whole kernel's time says more than any proxy's.
    const bool better = cell.us == 0 || (full && !cell.full) || (full == cell.full && us < cell.us);
    const bool chosen = cell.chosen || i == trace.chosen;
    if (better) cell = {entry.m1, entry.n1, us, full, 0, chosen};
    cell.chosen = chosen;
  }
  std::vector<SearchCell> cells;
  double least = 0;
  for (const auto& [place, cell] : best) {
    cells.push_back(cell);
    if (least == 0 || cell.us < least) least = cell.us;
  }
  for (SearchCell& cell : cells) cell.slower = least > 0 ? cell.us / least - 1 : 0;
  return cells;
}

std::string slower_text(const SearchCell& cell) {
  return fmt::format("{:+.0f} %{}", 100 * cell.slower, cell.full ? "" : "~");
}

std::string search_table(const SearchTrace& trace, const Terminal& terminal) {
  if (trace.entries.empty()) return "";
  if (trace.modelled) return modelled_table(trace, terminal);
  Table table({{"", Column::Align::left},
               {"rank"},
               {"tile", Column::Align::left},
               {"score"},
               {"proxy us"},
               {"full us"},
               {"proxy", Column::Align::left},
               {"full", Column::Align::left}});
  std::size_t timed = 0;
  for (std::size_t i = 0; i < trace.entries.size(); ++i) {
    const SearchTraceEntry& entry = trace.entries[i];
    if (!entry.proxy && !entry.full) continue;
    ++timed;
    table.add({i == trace.chosen ? "*" : " ", std::to_string(i + 1), entry.tile,
               fmt::format("{:.4g}", entry.score), time_text(entry.proxy), time_text(entry.full),
               outcome_text(entry.proxy) + note_text(entry), outcome_text(entry.full)});
  }
  const std::vector<SearchCell> cells = search_cells(trace);
  std::string text = bold(fmt::format("Search: {}, {} of {} tiles timed", to_string(trace.mode),
                                      timed, trace.entries.size()),
                          terminal) +
                     "\n" + stages_text(trace) + "\n";
  if (!cells.empty()) {
    text += "Slower than the fastest, best tile of each cell (~ by proxy):\n" +
            grid_text(cells, terminal) + "\n";
  }
  return timed > 0 ? text + table.text(terminal) : text;
}

}  // namespace spjit::cli
