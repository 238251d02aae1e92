#include "tile_space_view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>
#include <utility>

#include "table.hpp"

namespace spjit::cli {
namespace {

std::string name_of(const Json& candidate) {
  return candidate.at("tile").at("name").get<std::string>();
}

/// "balance: pads 33 %", or empty.
std::string verdict_on(const Json& candidate) {
  const Json dropped = candidate.value("dropped", Json());
  if (dropped.is_null()) return "";
  return fmt::format("{}: {}", dropped.at("rule").get<std::string>(),
                     dropped.at("numbers").get<std::string>());
}

std::string number_text(const Json& number) {
  if (number.is_number_float()) return fmt::format("{:.3f}", number.get<double>());
  return number.dump();
}

/// The numbers of candidates, in the order of the first one that has them. A score says nothing
/// beside a rank.
std::vector<std::string> numbers_of(const Json& space) {
  std::vector<std::string> names;
  for (const Json& candidate : space.at("candidates")) {
    for (const auto& [name, value] : candidate.items()) {
      if (!value.is_number() || name == "score") continue;
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

std::string description_of(const Json& candidate, std::int64_t rank) {
  const std::string verdict = verdict_on(candidate);
  if (!verdict.empty()) return verdict;
  std::string text = rank > 0 ? fmt::format("rank {}", rank) : "";
  for (const std::string& name : numbers_of({{"candidates", {candidate}}})) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, number_text(candidate[name]));
  }
  return text;
}

/// 1 is the best; 0: it has none.
std::int64_t rank_in(const Json& space, const std::string& tile) {
  const auto found = space.find("ranked");
  if (found == space.end()) return 0;
  const auto at = std::ranges::find(
      *found, tile, [](const Json& entry) { return entry.at("tile").get<std::string>(); });
  return at == found->end() ? 0 : at - found->begin() + 1;
}

/// Values in ascending order, each once.
std::vector<std::int64_t> sides(const Json& space, const char* side) {
  std::set<std::int64_t> values;
  for (const Json& candidate : space.at("candidates")) {
    values.insert(candidate.at("tile").at(side).get<std::int64_t>());
  }
  return {values.begin(), values.end()};
}

bool has_places(const Json& space) {
  return space.contains("ranked") &&
         std::ranges::all_of(space.at("candidates"), [](const Json& candidate) {
           return candidate.at("tile").contains("m1") && candidate.at("tile").contains("n1");
         });
}

std::size_t position(const std::vector<std::int64_t>& values, const Json& value) {
  const auto found = std::ranges::find(values, value.get<std::int64_t>());
  return static_cast<std::size_t>(found - values.begin());
}

std::string legend(const TileSpaceGrid& grid) {
  std::string text = "number: rank, * chosen";
  for (const std::string& rule : grid.rules) {
    text += fmt::format("{} {} {}", &rule == grid.rules.data() ? "; dropped by" : ",",
                        letter_of(rule), rule);
  }
  return text + "\n";
}

std::string grid_text(const TileSpaceGrid& grid, const Terminal& terminal) {
  if (grid.heights.empty()) return "";
  std::vector<Column> columns = {{"M1 \\ N1"}};
  for (const std::int64_t n1 : grid.widths) columns.push_back({fmt::format("{}", n1)});
  Table table(std::move(columns));
  for (std::size_t row = 0; row < grid.heights.size(); ++row) {
    std::vector<std::string> line(grid.widths.size() + 1);
    line[0] = fmt::format("{}", grid.heights[row]);
    for (const TileSpaceCell& cell : grid.cells) {
      if (cell.row == row) line[cell.column + 1] = label_of(cell);
    }
    table.add(std::move(line));
  }
  return table.text(terminal) + legend(grid) + "\n";
}

std::string list_text(const Json& space, const TileSpaceGrid& grid, const Terminal& terminal) {
  const bool ranked = space.contains("ranked");
  const std::vector<std::string> numbers = numbers_of(space);
  std::vector<Column> columns = {{ranked ? "rank" : ""}, {"tile", Column::Align::left}};
  for (std::string name : numbers) {
    std::ranges::replace(name, '_', ' ');
    columns.push_back({std::move(name)});
  }
  columns.push_back({"kept, or the rule that dropped it", Column::Align::left});
  std::vector<std::size_t> order(grid.cells.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, {}, [&](std::size_t i) {
    return std::pair(ranked && !grid.cells[i].rule.empty(), grid.cells[i].rank);
  });
  Table table(std::move(columns));
  for (const std::size_t i : order) {
    const TileSpaceCell& cell = grid.cells[i];
    const Json& candidate = space.at("candidates")[i];
    std::vector<std::string> row = {ranked ? label_of(cell) : cell.chosen ? "*" : " ", cell.tile};
    for (const std::string& name : numbers) {
      row.push_back(candidate.contains(name) ? number_text(candidate[name]) : "");
    }
    row.push_back(cell.rule.empty() ? "kept" : cell.description);
    table.add(std::move(row));
  }
  return table.text(terminal);
}

}  // namespace

TileSpaceGrid make_grid(const Json& space, std::string_view chosen) {
  TileSpaceGrid grid;
  const bool places = has_places(space);
  if (places) {
    grid.heights = sides(space, "m1");
    grid.widths = sides(space, "n1");
  }
  std::set<std::string> rules;
  for (const Json& candidate : space.at("candidates")) {
    const Json& tile = candidate.at("tile");
    TileSpaceCell cell;
    cell.tile = name_of(candidate);
    const std::string verdict = verdict_on(candidate);
    cell.rule = verdict.substr(0, verdict.find(':'));
    if (cell.rule.empty()) cell.rank = rank_in(space, cell.tile);
    cell.description = description_of(candidate, cell.rank);
    if (places) cell.row = position(grid.heights, tile.at("m1"));
    if (places) cell.column = position(grid.widths, tile.at("n1"));
    cell.chosen = cell.tile == chosen;
    if (!cell.rule.empty()) rules.insert(cell.rule);
    grid.cells.push_back(std::move(cell));
  }
  grid.rules.assign(rules.begin(), rules.end());
  return grid;
}

char letter_of(std::string_view rule) {
  return rule.empty() ? '?'
                      : static_cast<char>(std::toupper(static_cast<unsigned char>(rule.front())));
}

std::string label_of(const TileSpaceCell& cell) {
  const std::string mark = cell.chosen ? "*" : "";
  if (!cell.rule.empty()) return mark + letter_of(cell.rule);
  return mark + (cell.rank > 0 ? fmt::format("{}", cell.rank) : "?");
}

std::string tile_space_table(const Json& space, std::string_view chosen, const Terminal& terminal) {
  const TileSpaceGrid grid = make_grid(space, chosen);
  const auto kept = std::ranges::count(grid.cells, std::string(), &TileSpaceCell::rule);
  std::string text =
      bold(fmt::format("{} candidates, {} kept", grid.cells.size(), kept), terminal) + "\n";
  for (const Json& rule : space.at("relaxed")) {
    text +=
        fmt::format("The rule '{}' was relaxed: it left no candidate.\n", rule.get<std::string>());
  }
  return text + grid_text(grid, terminal) + list_text(space, grid, terminal);
}

}  // namespace spjit::cli
