#pragma once

/// @file
/// The kernel for a few columns of B (AVX-512): a vector is sixteen rows of A high, where one of
/// unrolled code would be that few columns wide. It reads A from memory, in sliced ELLPACK form.

#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

#include "base/cancel.hpp"
#include "base/float_buffer.hpp"
#include "kernels/host/object/csr_view.hpp"
#include "kernels/host/operands/product.hpp"
#include "spjit/target.hpp"

namespace spjit {

/// Columns of B up to which it is faster than unrolled code (docs/results/host.md).
inline constexpr std::int64_t k_most_sliced_columns = 4;

/// Whether there is such a kernel.
[[nodiscard]] constexpr bool can_be_sliced(HostIsa isa, std::int64_t n) noexcept {
  return isa == HostIsa::avx512 && n >= 1 && n <= k_most_sliced_columns;
}

/// Bytes of A in slices, padding included. Throws what `cancel` throws.
[[nodiscard]] std::int64_t sliced_bytes(const CsrView& matrix, const Cancellation& cancel = {});

/// B `[k x n]` column by column, each SlicedMatrix::column_floats() long and aligned to 64 bytes,
/// and C `[m x n]`, row-major; borrowed. They must not overlap.
struct SlicedOperands {
  const float* b = nullptr;
  float* c = nullptr;
  std::int64_t ldc = 0;           ///< floats between rows of C, >= n
  std::int64_t n = 0;             ///< columns of B and C, 1 to k_most_sliced_columns
  const float* values = nullptr;  ///< SlicedMatrix::arrange(); null: those of the matrix
};

/// A in slices of sixteen rows of nearly equal length, a lane a row.
///
/// A step takes at most one entry of each lane: the next one, if its column lies in the step's
/// window of 32 columns, which begins at a multiple of 16, with the least column that is next in
/// any lane in its first half (aligned loads are worth more than the entries that are missed). The
/// window of a column of B is two registers, of which one instruction (vpermt2ps) gives each lane
/// its element.
/// A row's entries are added in ascending column, from +0, and a lane adds nothing that is not an
/// entry of its row: the bits are those of every AVX-512 kernel, as KernelPlan states them.
class SlicedMatrix {
 public:
  static constexpr std::int64_t k_lanes = 16;
  static constexpr std::int64_t k_window = 32;

  SlicedMatrix() = default;
  /// Copies the entries of `matrix`, without values if it has none, which each run must bring then.
  /// Throws what `cancel` throws soon after it is reached.
  explicit SlicedMatrix(const CsrView& matrix, const Cancellation& cancel = {});

  /// `values` in CSR order as run() takes them. Precondition: the matrix had none.
  [[nodiscard]] FloatBuffer arrange(std::span<const float> values) const {
    return arrange(entries_, values);
  }

  [[nodiscard]] std::int64_t slices() const noexcept { return std::ssize(slice_ptrs_) - 1; }
  [[nodiscard]] std::int64_t steps() const noexcept { return slice_ptrs_.back(); }

  /// Floats of a column of B that are read: a multiple of 16, k or more, a window at least.
  [[nodiscard]] std::int64_t column_floats() const noexcept;

  /// Whether B can be read where it is.
  [[nodiscard]] bool takes_in_place(const Product& operands) const noexcept;

  /// B `[k x n]` column by column, `column_floats()` each; of its rows those that are read, in
  /// whole blocks (matrix/rows_of_b.hpp).
  void copy_columns(const Product& operands, float* columns) const;

  /// How many floats of a column that writes.
  [[nodiscard]] std::int64_t copied_floats() const noexcept;

  /// At most `parts` ranges of slices of nearly equal work, in order; fewer if a thread would take
  /// longer to wake than its part takes for n columns.
  [[nodiscard]] std::vector<RowRange> split(std::int64_t parts, std::int64_t n) const;

  /// Computes the rows of C in slices [begin, end). Thread-safe; ranges that do not overlap may run
  /// at once. Precondition: this CPU has AVX-512.
  void run(const RowRange& slices, const SlicedOperands& operands) const;

  /// +0 into the rows of C that no slice has: those without entries.
  void zero_empty_rows(const SlicedOperands& operands) const;

 private:
  static constexpr std::int64_t k_no_entry = -1;
  [[nodiscard]] static FloatBuffer arrange(std::span<const std::int64_t> entries,
                                           std::span<const float> values);

  std::int64_t cols_ = 0;
  std::vector<std::int64_t> slice_ptrs_{0};  ///< [slices + 1] steps
  std::vector<std::int32_t> rows_;           ///< [slices x 16] row of each lane; -1: none
  std::vector<std::int32_t> starts_;         ///< [steps] first column of the window
  std::vector<std::uint8_t> places_;         ///< [steps x 16] 32 + place in the window; 0: no entry
  FloatBuffer values_;                       ///< [steps x 16]; or none, and instead
  std::vector<std::int64_t> entries_;        ///< [steps x 16] entry of A, or k_no_entry
  RowRanges empty_rows_;
  RowRanges rows_of_b_;  ///< that are read
};

}  // namespace spjit
