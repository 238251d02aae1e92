#pragma once

/// @file
/// The table that a run prints while it goes on.

#include <cstddef>
#include <string>
#include <vector>

#include "bench/lab/record.hpp"

namespace spjit::bench {

/// Names are paths; their end tells them apart: "...end" of so many characters at most.
[[nodiscard]] std::string shortened(const std::string& text, std::size_t width);

struct Cell {
  std::string column;
  std::string text;

  friend bool operator==(const Cell&, const Cell&) = default;
};

/// Cases that were measured together: the first way's time over all layers and its noise, and how
/// many times as long every other way takes, the geometric mean over layers. Brackets have the
/// range over cases.
[[nodiscard]] std::vector<Cell> row_of(const std::vector<Case>& cases);

/// A line for each way that was not timed, with the reason.
[[nodiscard]] std::string reasons_of(const std::vector<Case>& cases);

/// Rows under each other, with a header wherever columns change.
class Table {
 public:
  [[nodiscard]] std::string add(const std::vector<Cell>& row);

 private:
  std::vector<std::string> columns_;
  std::vector<std::size_t> widths_;
};

}  // namespace spjit::bench
