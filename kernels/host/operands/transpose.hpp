#pragma once

/// @file
/// Between tokens-major X and Y `[tokens x features]` and feature-major B and C
/// `[features x tokens]` in panels. What changes values on their way includes
/// kernels/host/operands/transpose.inc.

#include <cstdint>

#include "kernels/host/operands/packing.hpp"
#include "spjit/target.hpp"

namespace spjit {

/// A dense row-major destination.
struct DenseTarget {
  float* data = nullptr;
  std::int64_t ld = 0;  ///< floats between rows
};

/// A dense matrix whose columns are in panels: element (i, j) is
/// data[j / width * stride + i * ld + j % width]. With a panel of all columns it is row-major.
template <class Float>
struct PanelView {
  Float* data = nullptr;
  std::int64_t width = 1;   ///< columns a panel, >= 1
  std::int64_t ld = 0;      ///< floats between rows of a panel
  std::int64_t stride = 0;  ///< floats between panels
};

/// Rows `[rows x columns]` of a matrix on their way into panels of its transpose. Each panel is
/// written in its full width, with +0 past the last row.
struct IntoPanels {
  DenseSource from;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  PanelView<float> to;  ///< `[columns x rows]`
};

/// Rows `[rows x columns]` of a matrix in panels on their way into its transpose.
struct OutOfPanels {
  PanelView<const float> from;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  DenseTarget to;  ///< `[columns x rows]`
};

/// Rows `[rows x columns]` that keep their order (kernels/host/operands/map_rows.inc). `to` may be
/// where `from` is, if both are alike; else they must not overlap.
struct RowsInPanels {
  PanelView<const float> from;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  PanelView<float> to;
};

/// A vector of the result on its way there.
struct VectorPlace {
  std::int64_t row;     ///< of the result
  std::int64_t column;  ///< of its first float
  std::int64_t floats;  ///< that are stored, 1 or more; the others have no place
};

/// Copies bit for bit; nothing else is read or written. Source and result must not overlap; rows of
/// the source may, or be the same (from.ld of 0). Precondition: this CPU has `isa`.
///
/// Written for few rows of many columns: sixteen rows at a time, along their columns.
void transpose(const IntoPanels& task, HostIsa isa);

/// Transposes many rows of few columns: a few columns at a time, along the rows of the result.
void transpose(const OutOfPanels& task, HostIsa isa);

}  // namespace spjit
