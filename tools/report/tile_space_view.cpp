#include "tools/report/tile_space_view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "tools/report/table.hpp"
#include "tools/report/tile_grid.hpp"

namespace spjit::cli {
namespace {

/// Behind all that have one.
constexpr std::int64_t k_no_rank = std::numeric_limits<std::int64_t>::max();

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
  std::string verdict = verdict_on(candidate);
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

std::string legend(const TileSpaceView& view) {
  std::string text = "number: rank, * chosen";
  for (const std::string& rule : view.rules) {
    text += fmt::format("{} {} {}", &rule == view.rules.data() ? "; dropped by" : ",",
                        letter_of(rule), rule);
  }
  return text + "\n";
}

std::string grid_text(const TileSpaceView& view, const Terminal& terminal) {
  if (!view.has_grid) return "";
  std::vector<TileGridCell> grid;
  for (const TileSpaceCell& cell : grid_cells(view)) {
    grid.push_back({cell.m1, cell.n1, label_of(cell), cell.chosen});
  }
  return tile_grid_text(grid, terminal) + legend(view) + "\n";
}

std::string list_text(const Json& space, const TileSpaceView& view, const Terminal& terminal) {
  const bool ranked = space.contains("ranked");
  const std::vector<std::string> numbers = numbers_of(space);
  std::vector<Column> columns = {{ranked ? "rank" : ""}, {"tile", Column::Align::left}};
  for (std::string name : numbers) {
    std::ranges::replace(name, '_', ' ');
    columns.push_back({std::move(name)});
  }
  columns.push_back({"kept, or the rule that dropped it", Column::Align::left});
  std::vector<std::size_t> order(view.cells.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, {}, [&](std::size_t i) {
    return std::pair(ranked && !view.cells[i].rule.empty(), view.cells[i].rank);
  });
  Table table(std::move(columns));
  for (const std::size_t i : order) {
    const TileSpaceCell& cell = view.cells[i];
    const Json& candidate = space.at("candidates")[i];
    const std::string mark = cell.chosen ? "*" : " ";
    std::vector<std::string> row = {ranked ? mark + label_of(cell) : mark, cell.tile};
    for (const std::string& name : numbers) {
      row.push_back(candidate.contains(name) ? number_text(candidate[name]) : "");
    }
    row.push_back(cell.rule.empty() ? "kept" : cell.description);
    table.add(std::move(row));
  }
  return table.text(terminal);
}

}  // namespace

TileSpaceView view_of(const Json& space, std::string_view chosen) {
  TileSpaceView view;
  view.has_grid = space.contains("ranked");
  std::set<std::string> rules;
  for (const Json& candidate : space.at("candidates")) {
    const Json& tile = candidate.at("tile");
    TileSpaceCell cell;
    cell.tile = tile.at("name").get<std::string>();
    const std::string verdict = verdict_on(candidate);
    cell.rule = verdict.substr(0, verdict.find(':'));
    if (cell.rule.empty()) cell.rank = rank_in(space, cell.tile);
    cell.description = description_of(candidate, cell.rank);
    cell.m1 = tile.value("m1", std::int64_t{0});
    cell.n1 = tile.value("n1", std::int64_t{0});
    cell.chosen = cell.tile == chosen;
    view.has_grid = view.has_grid && cell.m1 > 0 && cell.n1 > 0;
    if (!cell.rule.empty()) rules.insert(cell.rule);
    view.cells.push_back(std::move(cell));
  }
  view.rules.assign(rules.begin(), rules.end());
  return view;
}

std::vector<TileSpaceCell> grid_cells(const TileSpaceView& view) {
  const auto order = [](const TileSpaceCell& cell) {
    return std::pair(!cell.chosen, cell.rank > 0 ? cell.rank : k_no_rank);
  };
  std::map<std::pair<std::int64_t, std::int64_t>, TileSpaceCell> places;
  for (const TileSpaceCell& cell : view.cells) {
    const auto [place, is_new] = places.try_emplace({cell.m1, cell.n1}, cell);
    if (!is_new && order(cell) < order(place->second)) place->second = cell;
  }
  std::vector<TileSpaceCell> cells;
  cells.reserve(places.size());
  for (auto& [place, cell] : places) cells.push_back(std::move(cell));
  return cells;
}

char letter_of(std::string_view rule) {
  return rule.empty() ? '?'
                      : static_cast<char>(std::toupper(static_cast<unsigned char>(rule.front())));
}

std::string label_of(const TileSpaceCell& cell) {
  if (!cell.rule.empty()) return {letter_of(cell.rule)};
  return cell.rank > 0 ? std::to_string(cell.rank) : "?";
}

std::string tile_space_table(const Json& space, std::string_view chosen, const Terminal& terminal) {
  const TileSpaceView view = view_of(space, chosen);
  const auto kept = std::ranges::count(view.cells, std::string(), &TileSpaceCell::rule);
  std::string text =
      bold(fmt::format("{} candidates, {} kept", view.cells.size(), kept), terminal) + "\n";
  for (const Json& rule : space.at("relaxed")) {
    text +=
        fmt::format("The rule '{}' was relaxed: it left no candidate.\n", rule.get<std::string>());
  }
  return text + grid_text(view, terminal) + list_text(space, view, terminal);
}

}  // namespace spjit::cli
