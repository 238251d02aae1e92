#include "tools/report/table.hpp"

#include <algorithm>
#include <string_view>

namespace spjit::cli {
namespace {

// Code points, which for file names and the few signs used here is what a terminal shows.
std::size_t display_width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

}  // namespace

void Table::add(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  for (std::string& cell : cells) {
    cell = cell.empty() ? "-" : one_line(cell);
  }
  rows_.push_back(std::move(cells));
}

std::string Table::line(const std::vector<std::string>& cells,
                        const std::vector<std::size_t>& widths) const {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string padding(widths[i] - display_width(cells[i]), ' ');
    if (i > 0) line += "  ";
    line += columns_[i].align == Column::Align::right ? padding + cells[i] : cells[i] + padding;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

std::string Table::text(const Terminal& terminal) const {
  std::vector<std::string> titles;
  std::vector<std::size_t> widths;
  for (const Column& column : columns_) {
    titles.push_back(column.title);
    widths.push_back(display_width(column.title));
  }
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], display_width(row[i]));
    }
  }
  std::string text = bold(line(titles, widths), terminal) + "\n";
  for (const auto& row : rows_) text += line(row, widths) + "\n";
  return text;
}

}  // namespace spjit::cli
