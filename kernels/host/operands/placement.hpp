#pragma once

/// @file
/// Where elements of B, C and a residual are.

#include <cstdint>

#include "kernels/host/operands/packing.hpp"
#include "plan/convolution.hpp"
#include "spjit/layout.hpp"

namespace spjit {

/// B, C or a residual of one product.
struct Placement {
  Layout layout = Layout::row_major;
  std::int64_t ld = 0;      ///< elements between rows, tokens-major between tokens; not of panels
  PanelLayout panels = {};  ///< its sizes; its panels, if it has any

  /// Elements from the first to the one of a row (feature) and a column (token).
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
  /// Elements between rows whose columns lie together, or between tokens.
  [[nodiscard]] std::int64_t row_distance() const noexcept {
    return layout == Layout::panel_major ? panels.width : ld;
  }
};

/// Rows of B where they are stored: those of B, or elements of the image of a convolution.
struct PlacementOfB {
  Placement stored = {};
  const Convolution* convolution = nullptr;  ///< borrowed; null: it is B

  /// Elements from the first to the one of a row and a column of B; below 0: +0 that is stored
  /// nowhere.
  [[nodiscard]] std::int64_t offset(std::int64_t row, std::int64_t column) const noexcept {
    if (convolution == nullptr) return stored.offset(row, column);
    const PatchElement element = patch_element(*convolution, row, column);
    return element.pixel < 0 ? -1 : stored.offset(element.channel, element.pixel);
  }
  [[nodiscard]] std::int64_t columns() const noexcept {
    return convolution == nullptr ? stored.panels.n
                                  : convolution->output_height() * convolution->output_width();
  }
};

}  // namespace spjit
