#pragma once

/// @file
/// Operands of a kernel that is checked, with guards around all that they have.

#include <cstdint>
#include <string>

#include "base/cancel.hpp"
#include "base/float_buffer.hpp"
#include "base/refusal.hpp"
#include "base/row_ranges.hpp"
#include "kernels/host/operands/placement.hpp"

namespace spjit {

/// A place in B, C or a residual.
struct Element {
  std::int64_t row = 0;
  std::int64_t column = 0;
};

/// Elements that follow one another, of one row or one token.
struct FloatRun {
  float* data = nullptr;
  std::int64_t count = 0;
  Element first = {};
  bool has_tokens = false;  ///< the next one is of the next row; else of the next column

  [[nodiscard]] Element at(std::int64_t i) const noexcept {
    return has_tokens ? Element{first.row + i, first.column} : Element{first.row, first.column + i};
  }
};

/// B, C or a residual in a buffer. Around and between its rows (tokens, panels) every float is a
/// guard. The guards are signalling NaN, which no arithmetic ever gives: what is not written stays
/// one, and what reads one spoils a sum. Rows that are not used take no memory.
class GuardedOperand {
 public:
  /// Memory for the operand at `place`, with every size; tokens may overlap. None of it is written.
  /// Of row-major ones only the rows in `used` are used, of others all. Throws what `pace` throws,
  /// std::bad_alloc, and InvalidArgument if there are too many floats to count.
  GuardedOperand(const Placement& place, const RowRanges& used, CancelPace& pace);

  [[nodiscard]] const Placement& place() const noexcept { return place_; }
  [[nodiscard]] float* data() const noexcept;
  [[nodiscard]] float* at(std::int64_t row, std::int64_t column) const noexcept {
    return data() + place_.offset(row, column);
  }

  /// Calls `visit` with each run of elements of rows [begin, end), in the order of memory. What
  /// panels have past the last column are elements too.
  template <class Visit>
  void for_each_run(std::int64_t begin, std::int64_t end, const Visit& visit) const;

  /// Whether no guard was written over, else where: "behind token 3". Every row must be used.
  [[nodiscard]] Refusal touched(CancelPace& pace) const;

  /// Bytes of one with so many rows that are used.
  [[nodiscard]] static double bytes(const Placement& place, std::int64_t used_rows) noexcept;

 private:
  /// Rows, tokens or panels.
  struct Lines {
    const char* name;
    std::int64_t count;
    std::int64_t floats;    ///< that each has
    std::int64_t distance;  ///< between two
  };
  [[nodiscard]] static Lines lines_of(const Placement& place) noexcept;

  Placement place_;
  FloatBuffer floats_;
};

template <class Visit>
void GuardedOperand::for_each_run(std::int64_t begin, std::int64_t end, const Visit& visit) const {
  const PanelLayout& panels = place_.panels;
  switch (place_.layout) {
    case Layout::tokens_major:
      for (std::int64_t token = 0; token < panels.n; ++token) {
        visit(FloatRun{at(begin, token), end - begin, {begin, token}, true});
      }
      return;
    case Layout::panel_major:
      for (std::int64_t column = 0; column < panels.n; column += panels.width) {
        for (std::int64_t row = begin; row < end; ++row) {
          visit(FloatRun{at(row, column), panels.width, {row, column}, false});
        }
      }
      return;
    case Layout::row_major:
      for (std::int64_t row = begin; row < end; ++row) {
        visit(FloatRun{at(row, 0), panels.n, {row, 0}, false});
      }
      return;
  }
}

/// All rows of so many.
[[nodiscard]] RowRanges all_rows(std::int64_t rows);

/// Whether the float is a guard, or an element that was never written.
[[nodiscard]] bool is_unwritten(float value) noexcept;

}  // namespace spjit
