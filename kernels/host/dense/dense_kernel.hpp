#pragma once

/// @file
/// The loop of the family `dense` (AVX-512 and AVX2): A with its zeros, for matrices with too few
/// of them.

#include <cstddef>
#include <cstdint>

#include "base/cancel.hpp"
#include "base/float_buffer.hpp"
#include "kernels/host/object/csr_view.hpp"
#include "kernels/host/operands/product.hpp"
#include "spjit/target.hpp"

namespace spjit {

/// Columns of B and C that are computed at once, at most.
inline constexpr std::int64_t k_dense_panel_columns = 32;

/// Rows of A that are read together.
inline constexpr std::int64_t k_strip_rows = 16;

/// Adds the products of some strips and a few columns of B to sums.
using RunNarrow = void (*)(const float* a, std::int64_t steps, const float* b, std::int64_t ldb,
                           float* sums);

/// Some rows of A with all their zeros: blocks of columns; in each block strips of sixteen rows, a
/// column of a strip after the other. Rows past the last are zeros.
///
/// Sums take products with the zeros as well; the bits are the same all the same where B is as
/// dense_bits.hpp says. run() looks at all of B for that and else computes nothing.
class DenseMatrix {
 public:
  static constexpr std::int64_t k_block_columns = 256;
  /// Columns of B that are packed at once: a multiple of the panels of both instruction sets.
  static constexpr std::int64_t k_packed_columns = 288;
  /// Floats that run() needs, whatever the matrix.
  static constexpr std::int64_t k_workspace_floats = k_block_columns * k_packed_columns;

  /// Writes rows [rows.begin, rows.end) with their zeros. Throws Error if the columns of a row do
  /// not ascend; std::bad_alloc; what `cancel` throws soon after it is reached.
  DenseMatrix(const CsrView& matrix, RowRange rows, const Cancellation& cancel = {});

  /// Computes these rows of C `[rows x n]`, row-major; `workspace` is aligned to 64 bytes. False:
  /// B has a value that it cannot take, and these rows of C are undefined. Thread-safe with a
  /// workspace a thread. Precondition: `isa` is avx512 or avx2, and this CPU has it.
  [[nodiscard]] bool run(const Product& operands, HostIsa isa, float* workspace) const;

  [[nodiscard]] RowRange rows() const noexcept { return rows_; }
  /// The smallest magnitude other than zero that a value of B may have; infinity: there is none.
  [[nodiscard]] float least_b() const noexcept { return least_b_; }
  /// Bytes of A that a run reads.
  [[nodiscard]] std::int64_t bytes() const noexcept;

 private:
  [[nodiscard]] bool run_narrow(const Product& operands, HostIsa isa) const;
  /// C of the strips `some`.
  void run_narrow_rows(const Product& operands, RunNarrow run_strips, RowRange some) const;
  [[nodiscard]] bool run_wide(const Product& operands, HostIsa isa, float* workspace) const;
  void run_block(const Product& operands, HostIsa isa, std::int64_t block,
                 const float* packed) const;

  [[nodiscard]] std::int64_t strips() const noexcept;
  /// Offset of the first value of a strip in a block of columns.
  [[nodiscard]] std::int64_t offset_of(std::int64_t block, std::int64_t strip) const noexcept;

  RowRange rows_;
  std::int64_t cols_;
  float least_b_ = 0;
  FloatBuffer values_;
};

}  // namespace spjit
