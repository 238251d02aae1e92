#pragma once

/// @file
/// The kernel of bytes: a window of B is a table in registers, of which a shuffle gives each row of
/// A four bytes, whose products are added up exactly.

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <vector>

#include "base/arithmetic.hpp"
#include "base/cancel.hpp"
#include "base/float_buffer.hpp"
#include "base/row_ranges.hpp"
#include "kernels/host/byte_windows/byte_form.hpp"
#include "kernels/host/byte_windows/byte_masks.hpp"
#include "kernels/host/byte_windows/byte_operands.hpp"
#include "kernels/host/byte_windows/byte_steps.hpp"
#include "kernels/host/object/csr_view.hpp"

namespace spjit {

/// The order in which rows of A are multiplied, with ByteForm::vbmi.
enum class RowsOfC : std::uint8_t {
  any,   ///< the one with the fewest steps
  near,  ///< rows of C that follow one another: their bytes are stored together
};

/// Bytes that begin at a cache line, not initialized.
class ByteBuffer {
 public:
  ByteBuffer() = default;
  explicit ByteBuffer(std::int64_t bytes) : floats_(to_size(ceil_div(bytes, 4))) {}

  [[nodiscard]] std::uint8_t* data() const noexcept {
    return reinterpret_cast<std::uint8_t*>(floats_.data());
  }

 private:
  FloatBuffer floats_;
};

/// A's values of a run.
struct ByteValues {
  ByteBuffer steps;                    ///< [steps x slots], zeros where there is no entry
  std::vector<std::int32_t> row_sums;  ///< [groups x lanes] of A
};

/// Scales of groups of columns, as the loops read them. A window begins less than 128 columns from
/// the first of its group.
struct ScaledBytes {
  std::int64_t group_columns = 0;
  std::int64_t column_groups = 0;         ///< 0: there are no scales
  std::vector<std::uint8_t> counts = {};  ///< [groups x column groups] steps of each
  std::vector<std::uint8_t> starts = {};  ///< [steps] columns from the first of their group
  FloatBuffer scales = {};                ///< [groups x column groups x lanes]
  std::vector<std::int16_t> sums = {};    ///< the same, of A's values

  [[nodiscard]] std::int64_t bytes() const noexcept;
};

/// How a matrix is used, and what it shall be. Without a wish, what is faster.
struct ByteWishes {
  std::int64_t tokens = 64;                 ///< about those of a run
  std::optional<ByteSlots> slots = {};      ///< where groups of columns have scales
  std::optional<std::int64_t> window = {};  ///< one of the form's, where slots are apart
  RowsOfC rows = RowsOfC::any;
};

/// A of i8. Thread-safe.
///
/// Sums are exact. Without vpdpbusd, products of an unsigned and a signed byte are added up in
/// pairs of 16 bits: two of |w| and a signed x stay within 2 * 128 * 127. Of an unsigned x each has
/// 16 bits for itself. vpdpbusd adds four in 32 bits. What wraps around on the way wraps back, as a
/// whole sum fits int32.
///
/// Where groups of columns have scales, a group's sum becomes a float exactly, and one FMA adds it,
/// times its scale. Values of i4 may be packed then.
class ByteMatrix {
 public:
  /// Copies the entries of `matrix`, without values if it has none, which each run must bring then.
  /// Throws what `cancel` throws. Preconditions: values are those of i8; A has at most
  /// k_most_byte_columns columns.
  /// With scales of groups there are values.
  ByteMatrix(const CsrView& matrix, ByteForm form, const Cancellation& cancel = {},
             const ByteWishes& wishes = {});

  /// A as masks. Precondition: MaskedBytes::runs_here().
  explicit ByteMatrix(MaskedBytes masked);

  /// `values` in CSR order as run() takes them. Precondition: the matrix had none.
  [[nodiscard]] ByteValues arrange(std::span<const float> values) const;
  /// The values of the matrix.
  [[nodiscard]] const ByteValues& values() const noexcept { return values_; }

  [[nodiscard]] ByteForm form() const noexcept { return form_; }
  [[nodiscard]] const ByteShape& shape() const noexcept { return steps_.shape; }
  [[nodiscard]] std::int64_t groups() const noexcept {
    return masked_ ? masked_->groups() : steps_.groups();
  }
  /// Or rows of blocks, which take a little longer.
  [[nodiscard]] std::int64_t steps() const noexcept {
    if (masked_) return masked_->blocks();
    return steps_.ends.empty() ? 0 : steps_.ends.back();
  }
  [[nodiscard]] ByteSlots slots() const noexcept { return shape().held; }
  [[nodiscard]] bool has_scales() const noexcept {
    return masked_ ? masked_->has_scales() : scaled_.column_groups > 0;
  }
  /// That A takes in this form.
  [[nodiscard]] std::int64_t bytes() const noexcept;
  /// That it holds, with its rows and what is not used.
  [[nodiscard]] std::int64_t held_bytes() const noexcept;
  /// The column that each step's window begins with.
  [[nodiscard]] std::span<const std::uint32_t> starts() const noexcept { return steps_.starts; }

  /// Whether sums can be bytes of C before they are stored.
  [[nodiscard]] bool has_blocks() const noexcept { return !block_order_.empty(); }
  /// Lanes of all groups.
  [[nodiscard]] std::int64_t lanes() const noexcept { return std::ssize(steps_.rows); }
  /// Numbers of rows in the order of lanes(), 0 where there is no row.
  void in_lanes(const float* of_rows, float* of_lanes) const;

  /// Bytes between tokens of B: an odd number of cache lines, so that windows of some tokens lie in
  /// different sets of L1. The last window reads past A's last column.
  [[nodiscard]] std::int64_t token_bytes() const noexcept;

  /// About how long a run takes, as IntegerMatrix::cost() counts.
  [[nodiscard]] double cost(std::int64_t tokens) const noexcept;

  /// At most `parts` ranges of groups of nearly equal work, in order.
  [[nodiscard]] std::vector<RowRange> split(std::int64_t parts) const;

  /// Computes the rows of C in groups [begin, end); ranges that do not overlap may run at once.
  /// Preconditions: a kind that the form takes; this CPU has its instructions.
  void run(const RowRange& groups, const ByteOperands& operands, const ByteValues& values) const;

 private:
  [[nodiscard]] std::int64_t step_bytes() const noexcept;
  [[nodiscard]] std::int64_t tokens_with_scales() const noexcept;
  [[nodiscard]] std::int64_t first_step(std::int64_t group) const noexcept;
  [[nodiscard]] std::int64_t end_of_near(std::int64_t group, std::int64_t last,
                                         std::int64_t step_bytes,
                                         std::int64_t together) const noexcept;
  void order_blocks(std::int64_t rows);
  void run_scaled(const RowRange& groups, const ByteOperands& operands) const;

  ByteForm form_;
  std::int64_t cols_;
  ScaledBytes scaled_;  ///< none: no scales
  ByteSteps steps_;     ///< without places; entries only if there are no values
  ByteBuffer places_;   ///< [steps x slots] as the loop takes them, or packed slots
  ByteValues values_;
  std::int64_t rows_ = 0;                  ///< where there are blocks
  std::vector<std::uint8_t> block_order_;  ///< [blocks x their rows] place of each in lanes
  std::optional<MaskedBytes> masked_;      ///< in place of all that
};

}  // namespace spjit
