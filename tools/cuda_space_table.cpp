#include "cuda_space_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "table.hpp"

namespace spjit::cli {
namespace {

void sort_unique(std::vector<std::int64_t>& values) {
  std::ranges::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

std::size_t position(const std::vector<std::int64_t>& values, std::int64_t value) {
  return static_cast<std::size_t>(std::ranges::find(values, value) - values.begin());
}

std::string grid_text(const CudaSpaceGrid& grid, const Terminal& terminal) {
  std::vector<Column> columns = {{"M1 \\ N1"}};
  for (const std::int64_t n1 : grid.widths) columns.push_back({fmt::format("{}", n1)});
  Table table(std::move(columns));
  for (std::size_t row = 0; row < grid.heights.size(); ++row) {
    std::vector<std::string> line(grid.widths.size() + 1);
    line[0] = fmt::format("{}", grid.heights[row]);
    for (const CudaSpaceCell& cell : grid.cells) {
      if (cell.row == row) line[cell.column + 1] = label_of(cell);
    }
    table.add(std::move(line));
  }
  return table.text(terminal);
}

std::string relaxed_text(const CudaTileSpace& space) {
  if (space.relaxed.empty()) return "";
  std::string names;
  for (const CudaRule rule : space.relaxed) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", to_string(rule));
  }
  return fmt::format("relaxed, because no candidate was left: {}\n", names);
}

std::string list_text(const CudaSpaceGrid& grid, const Terminal& terminal) {
  std::vector<CudaSpaceCell> cells = grid.cells;
  std::ranges::stable_sort(cells, {}, [](const CudaSpaceCell& cell) {
    return std::pair(cell.candidate->dropped.has_value(), cell.rank);
  });
  Table table({{"rank"},
               {"tile", Column::Align::left},
               {"registers"},
               {"blocks"},
               {"active"},
               {"waves"},
               {"code bytes"},
               {"why not", Column::Align::left}});
  for (const CudaSpaceCell& cell : cells) {
    const CudaCandidate& c = *cell.candidate;
    const std::string reason =
        c.dropped ? fmt::format("{}: {}", to_string(c.dropped->rule), c.dropped->numbers) : "";
    table.add({label_of(cell), to_string(c.tile), fmt::format("{}", c.registers.total()),
               fmt::format("{}", c.blocks), fmt::format("{}", c.occupancy.active_blocks),
               fmt::format("{:.2f}", c.waves), fmt::format("{}", c.code_bytes), reason});
  }
  return table.text(terminal);
}

}  // namespace

CudaSpaceGrid make_grid(const CudaSpaceView& view) {
  CudaSpaceGrid grid;
  for (const CudaCandidate& candidate : view.space.candidates) {
    grid.heights.push_back(candidate.tile.m1);
    grid.widths.push_back(candidate.tile.n1);
  }
  sort_unique(grid.heights);
  sort_unique(grid.widths);
  for (const CudaCandidate& candidate : view.space.candidates) {
    CudaSpaceCell cell;
    cell.candidate = &candidate;
    cell.row = position(grid.heights, candidate.tile.m1);
    cell.column = position(grid.widths, candidate.tile.n1);
    const auto found = std::ranges::find(view.ranked, candidate.tile, &CudaCandidate::tile);
    if (!candidate.dropped && found != view.ranked.end()) {
      cell.rank = found - view.ranked.begin() + 1;
    }
    cell.chosen = view.chosen == candidate.tile;
    grid.cells.push_back(cell);
  }
  return grid;
}

char letter_of(CudaRule rule) {
  switch (rule) {
    case CudaRule::registers:
      return 'R';
    case CudaRule::code_budget:
      return 'C';
    case CudaRule::occupancy:
      return 'O';
    case CudaRule::balance:
      return 'B';
  }
  return '?';
}

std::string label_of(const CudaSpaceCell& cell) {
  std::string label = cell.chosen ? "*" : "";
  if (cell.candidate->dropped) return label + letter_of(cell.candidate->dropped->rule);
  return label + (cell.rank > 0 ? fmt::format("{}", cell.rank) : "?");
}

std::string cuda_space_table(const CudaSpaceView& view, const Terminal& terminal) {
  const CudaSpaceGrid grid = make_grid(view);
  return grid_text(grid, terminal) +
         "number: rank, * chosen; dropped by R registers, C code budget, O occupancy, B balance\n" +
         relaxed_text(view.space) + "\n" + list_text(grid, terminal);
}

}  // namespace spjit::cli
