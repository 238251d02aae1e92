#pragma once

/// @file
/// A as the family `packed` reads it: a bitmap of each row's columns, and the values of its entries
/// alone.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/cancel.hpp"
#include "spjit/data_type.hpp"
#include "spjit/matrix.hpp"

namespace spjit {

/// Columns of a chunk: four bitmaps of 32.
inline constexpr std::int64_t k_packed_chunk = 128;
inline constexpr std::int64_t k_packed_words = k_packed_chunk / 32;
/// A lane loads a unit at once.
inline constexpr std::int64_t k_packed_unit_bytes = 16;
/// Rows of a group at most.
inline constexpr std::int64_t k_packed_most_rows = 32;
/// Chunks of all rows, at most, so that a number of 32 bits finds each bitmap.
inline constexpr std::int64_t k_most_packed_chunks = std::int64_t{1} << 28;

/// The arrangement of A depends on these beside A.
struct PackedForm {
  std::int64_t group_rows = k_packed_most_rows;  ///< 8, 16 or 32
  DataType values = DataType::f32;               ///< or bf16, or f16

  /// Values of a unit.
  [[nodiscard]] std::int64_t unit() const { return k_packed_unit_bytes / bytes_of(values); }

  friend bool operator==(const PackedForm&, const PackedForm&) = default;
};

/// Sizes of the arrays below, and of all of them together.
struct PackedSizes {
  std::int64_t groups = 0;
  std::int64_t chunks = 0;  ///< of a row
  std::int64_t units = 0;   ///< of all rows

  /// Bytes that a GPU has of A.
  [[nodiscard]] double bytes(const PackedForm& form) const noexcept;
};
/// They are counted of a valid matrix with sorted rows. Throws what `cancel` throws soon after it
/// is reached.
[[nodiscard]] PackedSizes packed_sizes(const CsrMatrix& matrix, const PackedForm& form,
                                       const Cancellation& cancel = {});

/// As many rows a group as leave no SM without one, but 8 at least.
[[nodiscard]] std::int64_t packed_group_rows(std::int64_t rows, std::int64_t sms) noexcept;

/// The arrays that kernels read. Rows past the last one fill the last group; they have no entries.
struct PackedRows {
  /// Throws std::bad_alloc, what `cancel` throws. Precondition as of packed_sizes().
  PackedRows(const CsrMatrix& matrix, const PackedForm& form_in, const Cancellation& cancel = {});

  PackedForm form;
  PackedSizes sizes;
  std::vector<std::int64_t> row_ptrs;  ///< A's
  /// [groups][chunks][group_rows][4] Bit c of word w: the row has column 128 chunk + 32 w + c.
  std::vector<std::uint32_t> bitmaps;
  /// [groups][chunks][group_rows], and then one more group and one more: the first unit of a row's
  /// chunk. The next start is its end. What lies behind the last chunk is the number of units.
  std::vector<std::uint32_t> starts;

  /// Where a chunk of a row is in `starts`; its bitmaps are four times as far.
  [[nodiscard]] std::int64_t place_of(std::int64_t row, std::int64_t chunk) const noexcept {
    return (row / form.group_rows * sizes.chunks + chunk) * form.group_rows + row % form.group_rows;
  }

  /// A's values, in CSR order, as units: entries of a row's chunk side by side in ascending column,
  /// and -0 up to whole units. Times +0 that is -0, which changes no sum.
  [[nodiscard]] std::vector<std::byte> arrange(std::span<const float> values,
                                               const Cancellation& cancel = {}) const;
};

}  // namespace spjit
