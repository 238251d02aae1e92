#pragma once

/// @file
/// Elements of C = A * B in float64, and whether an element of a kernel is close enough to one.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/cancel.hpp"
#include "compiler/quantized_reference.hpp"
#include "kernels/host/operands/placement.hpp"
#include "spjit/matrix.hpp"
#include "spjit/numerics.hpp"

namespace spjit {

/// `count` numbers of [0, size) at even distances, ascending; if there are two or more, the first
/// and the last of the range are among them. count <= size < 2^31.
struct EvenSpread {
  std::int64_t size = 0;
  std::int64_t count = 0;

  [[nodiscard]] std::int64_t at(std::int64_t i) const noexcept {
    return count <= 1 ? 0 : i * (size - 1) / (count - 1);
  }
  /// Whether `number` is one of them.
  [[nodiscard]] bool contains(std::int64_t number) const noexcept;
};

/// Which elements of C are compared.
struct ReferenceSample {
  EvenSpread rows;
  std::optional<std::int64_t> fullest_row = {};  ///< where `rows` lack it
  EvenSpread columns;

  [[nodiscard]] std::int64_t row_count() const noexcept {
    return rows.count + (fullest_row ? 1 : 0);
  }
  [[nodiscard]] std::int64_t row(std::int64_t i) const noexcept {
    return i < rows.count ? rows.at(i) : *fullest_row;
  }
};

/// Whether a row of A has no entries.
[[nodiscard]] bool is_empty_row(const CsrMatrix& matrix, std::int64_t row) noexcept;

/// All of C.
[[nodiscard]] ReferenceSample whole_sample(const CsrMatrix& matrix, std::int64_t n);

/// All of C if that takes at most `most_products` multiply-adds; else so many rows and columns that
/// about so many are enough, the row with the most entries always among them. Columns go first,
/// down to 16: a column says as much about the code as another, a row does not. Throws what
/// `cancel` throws.
[[nodiscard]] ReferenceSample choose_sample(const CsrMatrix& matrix, std::int64_t n,
                                            std::int64_t most_products,
                                            const Cancellation& cancel = {});

/// An element of C.
struct Reference {
  double value = 0;
  double bound = 0;           ///< on |result - value|
  bool may_overflow = false;  ///< a partial sum may be beyond the range of fp32
};

/// The bound on the error of `products` products summed in fp32 in any order, the sum of their
/// magnitudes being `magnitude`: p u / (1 - p u) * magnitude with u = 2^-24, and what products
/// below the normal range lose. From p u = 1/2 on, where that grows without end, 2 p u * magnitude,
/// twice the bound p u of Jeannerod and Rump (SIAM J. Matrix Anal. Appl. 34, 2013).
[[nodiscard]] double error_bound(std::int64_t products, double magnitude) noexcept;

/// The bound that a promise gives: error_bound() of fp32; of `tensor`, which rounds towards zero,
/// twice that; of `bounded` eps * magnitude, and what this reference itself may be off; of
/// `integer` 0: float64 has such sums exactly. (ReferenceRows have one above 0 where groups of
/// columns have scales.)
[[nodiscard]] double error_bound(const Accumulate& accumulate, std::int64_t products,
                                 double magnitude) noexcept;

/// The error as a share of its bound: at most 1 if the element is right, infinite if it is
/// hopeless. Where the reference is infinite, the same infinity and NaN are right; where it is NaN,
/// NaN.
[[nodiscard]] double judge(double value, const Reference& reference) noexcept;

/// Rows of A * B in float64 at some columns.
class ReferenceRows {
 public:
  /// B `[k x n]`, of the type that the numerics say, which lies as `layout` says, and the matrix
  /// are borrowed. Of a B that is quantised the rows are those of A * (q - z).
  ReferenceRows(const CsrMatrix& matrix, const void* b, const PlacementOfB& layout,
                const EvenSpread& columns, const QuantizedNumerics& how = {});

  /// An element for each of the columns; valid until the next call. Throws what `pace` throws.
  [[nodiscard]] std::span<const Reference> row(std::int64_t row, CancelPace& pace);

  [[nodiscard]] std::span<const std::int64_t> columns() const noexcept { return columns_; }

  /// The scale of what the i-th of the columns is quantised to; 1 where B is not.
  [[nodiscard]] float scale_of_b(std::size_t i) const {
    return quantized_ ? quantized_->scale(i) : 1.0F;
  }

 private:
  /// Adds an entry of A times the row of B that it reads, whose elements `b_at(j)` gives.
  template <class Element>
  void add(double a, const Element& b_at);
  /// Adds one times the row `column` of B, whose elements `load(offset)` gives.
  template <class Load>
  void add_row(double a, std::int64_t column, const Load& load);

  const CsrMatrix& matrix_;
  const void* b_;
  Numerics numerics_;
  GroupScalesView groups_;
  PlacementOfB layout_;
  std::int64_t row_distance_;  ///< elements between rows of B, at any column; not of a convolution
  std::vector<std::int64_t> columns_;
  std::optional<QuantizedColumns> quantized_;
  std::vector<std::int64_t> offsets_;  ///< of each of the columns in row 0 of B; the same
  std::vector<Reference> references_;
};

}  // namespace spjit
