#pragma once

/// @file
/// A table in plain text.

#include <cstdint>
#include <string>
#include <vector>

#include "tools/report/terminal.hpp"

namespace spjit::cli {

struct Column {
  enum class Align : std::uint8_t { left, right };

  std::string title;
  Align align = Align::right;
};

/// Columns as wide as their widest cell, two spaces apart, a line a row.
class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// One cell a column; a missing cell is "-".
  void add(std::vector<std::string> cells);

  [[nodiscard]] std::string text(const Terminal& terminal) const;

 private:
  [[nodiscard]] std::string line(const std::vector<std::string>& cells,
                                 const std::vector<std::size_t>& widths) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace spjit::cli
