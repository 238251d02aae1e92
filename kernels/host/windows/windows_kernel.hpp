#pragma once

/// @file
/// The kernel for a few columns of B (AVX-512 and AVX2): a vector is some rows of A high, where one
/// of unrolled code would be that few columns wide. B is a table in registers, of which a shuffle
/// gives each row its element.

#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

#include "base/cancel.hpp"
#include "kernels/host/object/csr_view.hpp"
#include "kernels/host/operands/held_values.hpp"
#include "kernels/host/operands/product.hpp"
#include "kernels/host/windows/window_steps.hpp"
#include "spjit/target.hpp"

namespace spjit {

/// A's values of a run.
struct WindowValues {
  HeldValues steps;  ///< [steps x lanes], zeros where there is no entry
  /// The smallest magnitude other than zero that a value of B may have (kernels/dense_bits.hpp).
  float least_b = 0;
};

/// B `[k x n]` column by column, each WindowsMatrix::column_floats() long, and C `[m x n]`,
/// row-major; borrowed. They must not overlap.
struct WindowOperands {
  const float* b = nullptr;  ///< aligned to 64 bytes, with AVX2 to a float
  float* c = nullptr;
  std::int64_t ldc = 0;  ///< floats between rows of C, >= n
  std::int64_t n = 0;    ///< columns of B and C: has_windows()
};

/// A in the steps of window_steps.hpp, whose windows of B are two registers each: one instruction
/// (vpermt2ps), with AVX2 three, gives each lane its element.
///
/// A row's entries are added in ascending column, from +0, with scales as GroupScales says. With
/// AVX-512 a lane adds nothing that is not an entry of its row. With AVX2 it adds zeros: the bits
/// are the same all the same where B is as kernels/dense_bits.hpp says, which takes() looks at.
class WindowsMatrix {
 public:
  /// Copies the entries of `matrix`, without values if it has none, which each run must bring then.
  /// Values are held as `held`, which has them, with scales as i8. Throws what `cancel` throws soon
  /// after it is reached. Preconditions: `isa` is avx512 or avx2; A has at most most_cols()
  /// columns.
  /// With scales of groups and values of i4, `packed` is what slots are if all entries can be.
  WindowsMatrix(const CsrView& matrix, HostIsa isa, HeldType held = HeldType::f32,
                const Cancellation& cancel = {}, WindowSlots slots = WindowSlots::apart);

  /// `values` in CSR order as run() takes them. Precondition: the matrix had none.
  [[nodiscard]] WindowValues arrange(std::span<const float> values) const;
  /// The values of the matrix.
  [[nodiscard]] const WindowValues& values() const noexcept { return values_; }

  [[nodiscard]] std::int64_t pairs() const noexcept { return std::ssize(steps_.pairs); }
  [[nodiscard]] std::int64_t steps() const noexcept {
    return std::ssize(steps_.places) / steps_.shape.lanes;
  }

  /// Floats of a column of B that are read.
  [[nodiscard]] std::int64_t column_floats() const noexcept {
    return steps_.shape.column_floats(cols_);
  }

  /// Whether B can be read where it is.
  [[nodiscard]] bool takes_in_place(const Product& operands) const noexcept;

  /// B `[k x n]` column by column, `column_floats()` each.
  void copy_columns(const Product& operands, float* columns) const;

  /// Whether the bits are those of A's entries alone. Looks at all of B if they might not.
  [[nodiscard]] bool takes(const WindowOperands& operands, const WindowValues& values) const;

  /// At most `parts` ranges of pairs of nearly equal work, in order; fewer if a thread would take
  /// longer to wake than its part takes for n columns.
  [[nodiscard]] std::vector<RowRange> split(std::int64_t parts, std::int64_t n) const;

  /// Bytes of A that a run reads.
  [[nodiscard]] std::int64_t bytes() const noexcept;
  /// That it holds, with its rows and what is not used.
  [[nodiscard]] std::int64_t held_bytes() const noexcept;

  /// Computes the rows of C in pairs of groups [begin, end). Thread-safe; ranges that do not
  /// overlap may run at once. Preconditions: takes(); this CPU has the instruction set.
  void run(const RowRange& pairs, const WindowOperands& operands, const WindowValues& values) const;

 private:
  [[nodiscard]] WindowValues arrange(std::span<const std::int64_t> entries,
                                     std::span<const float> values) const;

  /// Places and values become slots.
  void pack(std::span<const float> values);

  [[nodiscard]] FloatBuffer arrange_scales(const CsrView& matrix) const;
  /// Floats of scales of the pairs before one.
  [[nodiscard]] std::int64_t scales_before(std::int64_t pair) const noexcept;

  HostIsa isa_;
  HeldType held_;
  std::int64_t cols_;
  WindowSlots slots_;
  std::int64_t group_columns_;
  std::int64_t column_groups_;  ///< that have scales; 0: none
  WindowSteps steps_;  ///< entries only if there are no values; places as the loop takes them
  WindowValues values_;
  FloatBuffer scales_;                     ///< [pairs x groups of columns x 2 x lanes]
  std::vector<std::uint8_t> near_starts_;  ///< [steps] of packed ones, columns from their group's
};

}  // namespace spjit
