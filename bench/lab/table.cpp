#include "bench/lab/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace spjit::bench {
namespace {

/// "1.04 (0.97-1.10)", and how many layers if not all; "-" if the way has no time.
std::string times_of(const std::vector<Case>& cases, std::size_t way) {
  double logarithms = 0;
  double least = 0;
  double most = 0;
  std::int64_t layers = 0;
  std::int64_t layers_in_all = 0;
  std::size_t timed = 0;
  for (const Case& one : cases) {
    layers_in_all += one.layers;
    const std::optional<double> ratio = one.ratio(one.timings[way].way);
    if (!ratio) continue;
    least = timed == 0 ? *ratio : std::min(least, *ratio);
    most = timed == 0 ? *ratio : std::max(most, *ratio);
    logarithms += static_cast<double>(one.layers) * std::log(*ratio);
    layers += one.layers;
    ++timed;
  }
  if (timed == 0) return "-";
  if (timed == 1 && cases.size() == 1) return fmt::format("{:.2f}", least);
  const double mean = std::exp(logarithms / static_cast<double>(layers));
  std::string text = fmt::format("{:.2f} ({:.2f}-{:.2f})", mean, least, most);
  if (layers < layers_in_all) text += fmt::format(" {}/{}", layers, layers_in_all);
  return text;
}

}  // namespace

std::string shortened(const std::string& text, std::size_t width) {
  if (text.size() <= width) return text;
  return "..." + text.substr(text.size() - (width - 3));
}

std::vector<Cell> row_of(const std::vector<Case>& cases) {
  const Case& one = cases.front();
  std::vector<Cell> row = {{"workload", shortened(one.workload, 40)}};
  if (!one.comparison.empty()) row.push_back({"compare", one.comparison});
  row.push_back({"n", std::to_string(one.n)});
  row.push_back({"t", std::to_string(one.threads)});
  row.push_back({"caches", one.hot ? "hot" : "cold"});
  double us = 0;
  double noise = 0;
  for (const Case& some : cases) {
    if (some.timings.empty() || some.timings.front().time.samples == 0) continue;
    us += some.timings.front().time.median_us;
    noise = std::max(noise, some.timings.front().time.noise);
  }
  for (std::size_t way = 0; way < one.timings.size(); ++way) {
    const std::string& name = one.timings[way].way;
    if (way > 0) {
      row.push_back({"x " + name, times_of(cases, way)});
      continue;
    }
    row.push_back({name + " us", us > 0 ? fmt::format("{:.2f}", us) : "-"});
    row.push_back({"+-%", us > 0 ? fmt::format("{:.1f}", 100 * noise) : "-"});
  }
  return row;
}

std::string reasons_of(const std::vector<Case>& cases) {
  std::set<std::string> lines;
  for (const Case& one : cases) {
    for (const WayTiming& timing : one.timings) {
      if (timing.failed.empty()) continue;
      lines.insert(fmt::format("  not timed: {}: {}\n", timing.way, timing.failed));
    }
  }
  return fmt::format("{}", fmt::join(lines, ""));
}

std::string Table::add(const std::vector<Cell>& row) {
  std::vector<std::string> columns;
  columns.reserve(row.size());
  for (const Cell& cell : row) columns.push_back(cell.column);
  std::string text;
  const auto add_line = [&](const auto& text_of) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      // Names are on the left, figures on the right.
      line += i == 0 ? fmt::format("{:<{}}", text_of(i), widths_[i])
                     : fmt::format("  {:>{}}", text_of(i), widths_[i]);
    }
    text += line + '\n';
  };
  if (columns != columns_) {
    columns_ = columns;
    widths_.clear();
    for (const Cell& cell : row) {
      widths_.push_back(std::max(cell.column.size(), cell.text.size()));
    }
    widths_.front() = std::max<std::size_t>(widths_.front(), 16);
    add_line([&](std::size_t i) { return columns_[i]; });
  }
  add_line([&](std::size_t i) { return row[i].text; });
  return text;
}

}  // namespace spjit::bench
