#pragma once

/// @file
/// Copying dense rows into panels and back, and the panel-major layout itself.

#include <cstdint>
#include <span>

#include "base/row_ranges.hpp"
#include "runtime/host/host_device_info.hpp"

namespace spjit {

/// Panel-major layout of a dense `[rows x n]` matrix: panel p holds columns
/// [p * width, (p + 1) * width) as `rows` consecutive rows of `width` floats, zero past column n.
/// Panels are `stride` floats apart: one cache line more than they hold, because panels a power of
/// two apart fall into the same sets of the L1 cache. Up to 2^31 - 1 rows and columns no size
/// overflows.
struct PanelLayout {
  std::int64_t rows = 0;
  std::int64_t n = 0;
  std::int64_t width = 16;  ///< columns a panel

  static constexpr std::int64_t k_spare_floats = 16;

  [[nodiscard]] std::int64_t panels() const noexcept { return n / width + (n % width > 0 ? 1 : 0); }
  [[nodiscard]] std::int64_t stride() const noexcept { return rows * width + k_spare_floats; }
  /// Floats a buffer in this layout has.
  [[nodiscard]] std::int64_t size() const noexcept { return panels() * stride(); }
};

/// Vectors of the widest panel: one row of it fits the registers; at most 8.
[[nodiscard]] constexpr std::int64_t widest_panel_vectors(HostIsa isa) {
  constexpr std::int64_t k_most = 8;
  const std::int64_t fit = (registers_of(isa) - 1) / 2;
  return fit < k_most ? fit : k_most;
}

/// A dense row-major source or destination.
struct DenseSource {
  const float* data = nullptr;
  std::int64_t ld = 0;  ///< floats between rows
  /// Floats from `data` to each row, which may overlap; null: they are `ld` apart.
  const std::int64_t* places = nullptr;

  [[nodiscard]] const float* row(std::int64_t index) const noexcept {
    return data + (places == nullptr ? index * ld : places[index]);
  }
  /// The rows from `index` on, for some columns from `column` on.
  [[nodiscard]] DenseSource from(std::int64_t index, std::int64_t column) const noexcept {
    if (places == nullptr) return {data + index * ld + column, ld, nullptr};
    return {data + column, ld, places + index};
  }
};

/// Panels [begin, end) of a layout.
struct PanelRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// Copies the columns of some panels from a row-major matrix, padding the last with +0. `to` is
/// where the first of them begins (begin < end <= panels()); the others follow at the layout's
/// stride. Panels packed together are read row by row, which the hardware prefetcher follows
/// (measured 1.4 times as fast for 16 together as for one at a time); one alone is a column of
/// lines. Only `rows`, ascending ranges, are copied: the others of `to` stay as they are.
void pack_panels(const PanelLayout& layout, PanelRange panels, DenseSource source,
                 std::span<const RowRange> rows, float* to);

}  // namespace spjit
