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
#include "plan/elements.hpp"
#include "spjit/data_type.hpp"

namespace spjit {

/// A place in B, C or a residual.
struct Element {
  std::int64_t row = 0;
  std::int64_t column = 0;
};

/// Elements that follow one another, of one row or one token.
struct ElementRun {
  std::int64_t offset = 0;  ///< of the first one in the operand
  std::int64_t count = 0;
  Element first = {};
  bool has_tokens = false;  ///< the next one is of the next row; else of the next column

  [[nodiscard]] Element at(std::int64_t i) const noexcept {
    return has_tokens ? Element{first.row + i, first.column} : Element{first.row, first.column + i};
  }
};

/// The type of elements, and which guards lie around them. A guard of a float type is a signalling
/// NaN, which no arithmetic ever gives. An integer type has no such number: it has two guards, of
/// which no kernel that computes the same twice writes both.
struct ElementKind {
  DataType type = DataType::f32;
  bool has_other_guards = false;  ///< of integers
};

/// B, C or a residual in a buffer. Around and between its rows (tokens, panels) every element is a
/// guard: what is not written stays one, and what reads one spoils a sum. Rows that are not used
/// take no memory.
class GuardedOperand {
 public:
  /// Memory for the operand at `place`, with every size; tokens may overlap. None of it is written.
  /// Of row-major ones only the rows in `used` are used, of others all. Throws what `pace` throws,
  /// std::bad_alloc, and InvalidArgument if there are too many elements to count.
  GuardedOperand(const Placement& place, const RowRanges& used, CancelPace& pace,
                 const ElementKind& kind = {});

  [[nodiscard]] const Placement& place() const noexcept { return place_; }
  [[nodiscard]] void* data() const noexcept;
  /// Precondition: elements are f32.
  [[nodiscard]] float* floats() const noexcept { return static_cast<float*>(data()); }

  [[nodiscard]] double load(std::int64_t offset) const {
    return load_element(kind_.type, data(), offset);
  }
  /// Rounds to the type.
  void store(std::int64_t offset, double value) const {
    store_element(kind_.type, data(), offset, value);
  }
  /// Whether the element is a guard, or was never written. Of integers it may have been.
  [[nodiscard]] bool is_guard(std::int64_t offset) const noexcept;

  /// Calls `visit` with each run of elements of rows [begin, end), in the order of memory. What
  /// panels have past the last column are elements too.
  template <class Visit>
  void for_each_run(std::int64_t begin, std::int64_t end, const Visit& visit) const;

  /// Whether no guard was written over, else where: "behind token 3". Every row must be used.
  [[nodiscard]] Refusal touched(CancelPace& pace) const;

  /// Bytes of one with so many rows that are used.
  [[nodiscard]] static double bytes(const Placement& place, std::int64_t used_rows,
                                    DataType type) noexcept;

 private:
  /// Rows, tokens or panels.
  struct Lines {
    const char* name;
    std::int64_t count;
    std::int64_t elements;  ///< that each has
    std::int64_t distance;  ///< between two
  };
  [[nodiscard]] static Lines lines_of(const Placement& place) noexcept;
  /// Elements from the start of the memory, guards in front included.
  void fill_guards(std::int64_t begin, std::int64_t count, CancelPace& pace) const;
  [[nodiscard]] bool has_guards_only(std::int64_t begin, std::int64_t count,
                                     CancelPace& pace) const;

  Placement place_;
  ElementKind kind_;
  FloatBuffer memory_;
};

template <class Visit>
void GuardedOperand::for_each_run(std::int64_t begin, std::int64_t end, const Visit& visit) const {
  const PanelLayout& panels = place_.panels;
  switch (place_.layout) {
    case Layout::tokens_major:
      for (std::int64_t token = 0; token < panels.n; ++token) {
        visit(ElementRun{place_.offset(begin, token), end - begin, {begin, token}, true});
      }
      return;
    case Layout::panel_major:
      for (std::int64_t column = 0; column < panels.n; column += panels.width) {
        for (std::int64_t row = begin; row < end; ++row) {
          visit(ElementRun{place_.offset(row, column), panels.width, {row, column}, false});
        }
      }
      return;
    case Layout::row_major:
      for (std::int64_t row = begin; row < end; ++row) {
        visit(ElementRun{place_.offset(row, 0), panels.n, {row, 0}, false});
      }
      return;
  }
}

/// All rows of so many.
[[nodiscard]] RowRanges all_rows(std::int64_t rows);

}  // namespace spjit
