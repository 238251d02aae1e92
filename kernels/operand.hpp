#pragma once

/// @file
/// Where elements of B, C and a residual are.

#include <cstdint>

#include "kernels/packing.hpp"
#include "spjit/layout.hpp"

namespace spjit {

/// B, C or a residual of one product.
struct Operand {
  Layout layout = Layout::row_major;
  std::int64_t ld = 0;      ///< floats between rows, tokens-major between tokens; not of panels
  PanelLayout panels = {};  ///< its sizes; its panels, if it has any

  /// Floats from the first to the one of a row (feature) and a column (token).
  [[nodiscard]] std::int64_t offset(std::int64_t row, std::int64_t column) const noexcept {
    switch (layout) {
      case Layout::tokens_major:
        return column * ld + row;
      case Layout::panel_major:
        return column / panels.width * panels.stride() + row * panels.width + column % panels.width;
      case Layout::row_major:
        break;
    }
    return row * ld + column;
  }
};

}  // namespace spjit
