#include "kernels/host/dense/dense_kernel.hpp"

#include <fmt/format.h>
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <span>
#include <utility>

#include "base/arithmetic.hpp"
#include "kernels/dense_bits.hpp"
#include "kernels/host/operands/magnitude.hpp"
#include "kernels/host/operands/simd.hpp"
#include "spjit/error.hpp"

#if defined(__GNUC__) && !defined(__clang__)
// g++ 12 says it of the registers that its own header leaves undefined (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace spjit {
namespace {

/// Up to so many columns, AVX2 fewer, a vector has rows of C; above, columns.
constexpr std::int64_t k_most_narrow_columns = 14;
/// Strips that are computed at once for so few, at most.
constexpr std::int64_t k_most_strips = 4;
constexpr std::int64_t k_most_narrow_sums =
    std::max(k_most_narrow_columns, 2 * k_most_strips) * k_strip_rows;
/// How far ahead of their use values of A are asked for [bytes]. MiniLM's layers with all their
/// entries, in sequence: without n = 32 takes twice as long, with 2048 1.4 times.
constexpr std::ptrdiff_t k_strips_ahead = 8192;

/// Rows of a strip and columns of B that one pass computes.
struct HostDenseTile {
  const float* a;
  std::int64_t steps;
  const float* b;  ///< packed
  float* c;
  std::int64_t ldc;
  std::int64_t rows;  ///< of C; the others are not stored
  std::int64_t last;  ///< columns of the last vector
  bool is_first;
};

using RunHostDenseTile = void (*)(const HostDenseTile&);

/// Kernels for 4, 2 and 1 strips at once; null: fewer are as fast.
using NarrowKernels = std::array<RunNarrow, 3>;

/// What an instruction set has for panels of so many columns.
struct Panels {
  std::int64_t columns;
  std::int64_t lanes;  ///< of a vector
  RunHostDenseTile sixteen_rows;
  Magnitude (*pack)(const DenseSource& b, std::int64_t rows, std::int64_t columns, float* to);
};

struct DenseKernels {
  std::array<Panels, 3> panels;           ///< ascending columns
  std::span<const NarrowKernels> narrow;  ///< for 1, 2, ... columns
};

/// The sums of a strip's rows `[columns x 16]` to C. A number of columns that is known here lets
/// all of a row be stored at once: 128 x 128, n = 2: 0.1 us, not 0.2.
template <std::int64_t Columns>
void store_strip(const float* sums, std::int64_t rows, float* c, std::int64_t ldc) {
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t j = 0; j < Columns; ++j) c[row * ldc + j] = sums[j * k_strip_rows + row];
  }
}

using StoreStrip = void (*)(const float* sums, std::int64_t rows, float* c, std::int64_t ldc);

template <std::size_t... I>
constexpr std::array<StoreStrip, sizeof...(I)> strip_stores(std::index_sequence<I...> /*columns*/) {
  return {store_strip<I + 1>...};
}

constexpr auto k_stores = strip_stores(std::make_index_sequence<k_most_narrow_columns>());

/// Sixteen rows as two halves, whose sums fit the registers.
template <RunHostDenseTile Half>
void run_halves(const HostDenseTile& tile) {
  constexpr std::int64_t k_half = k_strip_rows / 2;
  HostDenseTile half = tile;
  half.rows = std::min(tile.rows, k_half);
  Half(half);
  if (tile.rows <= k_half) return;
  half.a += k_half;
  half.c += k_half * tile.ldc;
  half.rows = tile.rows - k_half;
  Half(half);
}

/// Sixteen rows as four quarters.
template <RunHostDenseTile Quarter>
void run_quarters(const HostDenseTile& tile) {
  constexpr std::int64_t k_quarter = k_strip_rows / 4;
  for (std::int64_t row = 0; row < tile.rows; row += k_quarter) {
    HostDenseTile quarter = tile;
    quarter.a += row;
    quarter.c += row * tile.ldc;
    quarter.rows = std::min(tile.rows - row, k_quarter);
    Quarter(quarter);
  }
}

namespace dense_avx512 {
#define SPJIT_DENSE_TARGET SPJIT_AVX512_TARGET
#define SPJIT_DENSE_INLINE SPJIT_AVX512_INLINE

using Magnitudes = Avx512Magnitudes;

#include "kernels/host/dense/dense_rows.inc"

using Zmm = Avx512Zmm;
using Ymm = Avx512Ymm;
constexpr std::array k_narrow =
    narrow_kernels<Zmm>(std::make_index_sequence<k_most_narrow_columns>());
constexpr DenseKernels k_kernels = {{{{8, 8, run_tile<Ymm, 1, 16>, pack<Ymm, 1>},
                                      {16, 16, run_tile<Zmm, 1, 16>, pack<Zmm, 1>},
                                      {32, 16, run_halves<run_tile<Zmm, 2, 8>>, pack<Zmm, 2>}}},
                                    k_narrow};

#undef SPJIT_DENSE_TARGET
#undef SPJIT_DENSE_INLINE
}  // namespace dense_avx512

namespace dense_avx2 {
#define SPJIT_DENSE_TARGET SPJIT_AVX2_TARGET
#define SPJIT_DENSE_INLINE SPJIT_AVX2_INLINE

using Magnitudes = Avx2Magnitudes;

#include "kernels/host/dense/dense_rows.inc"

using Ymm = Avx2Ymm;
constexpr std::array k_narrow = narrow_kernels<Ymm>(std::make_index_sequence<5>());
constexpr DenseKernels k_kernels = {{{{8, 8, run_halves<run_tile<Ymm, 1, 8>>, pack<Ymm, 1>},
                                      {16, 8, run_quarters<run_tile<Ymm, 2, 4>>, pack<Ymm, 2>},
                                      {24, 8, run_quarters<run_tile<Ymm, 3, 4>>, pack<Ymm, 3>}}},
                                    k_narrow};

#undef SPJIT_DENSE_TARGET
#undef SPJIT_DENSE_INLINE
}  // namespace dense_avx2

const DenseKernels& dense_kernels_of(HostIsa isa) {
  return isa == HostIsa::avx512 ? dense_avx512::k_kernels : dense_avx2::k_kernels;
}

/// Calls `use` with the first column, the columns and the kernels of each panel of n columns, the
/// widest first, until it says no. Whether it never did.
template <class Use>
bool for_each_dense_panel(HostIsa isa, std::int64_t n, const Use& use) {
  const auto& kinds = dense_kernels_of(isa).panels;
  for (std::int64_t first = 0; first < n;) {
    const auto fits = [&](const Panels& panels) { return n - first <= panels.columns; };
    const auto found = std::ranges::find_if(kinds, fits);
    const Panels& panels = found != kinds.end() ? *found : kinds.back();
    const std::int64_t columns = std::min(panels.columns, n - first);
    if (!use(first, columns, panels)) return false;
    first += columns;
  }
  return true;
}

/// Rows of a strip of A, whose columns are gone through in blocks: what is written stays in L1.
class StripOfA {
 public:
  StripOfA(const CsrView& matrix, RowRange rows) : matrix_(matrix), rows_(rows) {
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      next_.at(to_size(row - rows.begin)) = to_size(matrix.row_ptrs[to_size(row)]);
    }
  }

  /// The next columns with their zeros, each sixteen rows.
  void write(RowRange columns, float* to) {
    std::fill_n(to, (columns.end - columns.begin) * k_strip_rows, 0.0F);
    for (std::int64_t row = rows_.begin; row < rows_.end; ++row) {
      write_row(row, columns, to + (row - rows_.begin));
    }
  }

  /// The bits of the smallest magnitude so far other than zero and NaN; infinity: there is none.
  [[nodiscard]] std::uint32_t least() const noexcept { return std::min(least_, k_endless_bits); }

 private:
  void write_row(std::int64_t row, RowRange columns, float* to) {
    std::size_t& entry = next_.at(to_size(row - rows_.begin));
    const auto end = to_size(matrix_.row_ptrs[to_size(row) + 1]);
    std::int64_t past = columns.begin;
    std::uint32_t least = least_;
    for (; entry < end && matrix_.col_idxs[entry] < columns.end; ++entry) {
      const std::int64_t column = matrix_.col_idxs[entry];
      if (column < past) throw Error(fmt::format("the columns of row {} of A do not ascend", row));
      past = column + 1;
      to[(column - columns.begin) * k_strip_rows] = matrix_.values[entry];
      const std::uint32_t bits = magnitude_bits(matrix_.values[entry]);
      if (bits != 0) least = std::min(least, bits);
    }
    least_ = least;
  }

  const CsrView& matrix_;
  RowRange rows_;
  std::array<std::size_t, to_size(k_strip_rows)> next_{};  ///< entry of each row
  std::uint32_t least_ = k_endless_bits;
};

}  // namespace

DenseMatrix::DenseMatrix(const CsrView& matrix, RowRange rows, const Cancellation& cancel)
    : rows_(rows), cols_(matrix.cols) {
  values_ = FloatBuffer(to_size(strips() * k_strip_rows * cols_));
  CancelPace pace(cancel);
  std::uint32_t least_a = k_endless_bits;
  for (std::int64_t index = 0; index < strips(); ++index) {
    const std::int64_t row = rows.begin + index * k_strip_rows;
    StripOfA strip(matrix, {row, std::min(row + k_strip_rows, rows.end)});
    for (std::int64_t first = 0; first < cols_; first += k_block_columns) {
      const RowRange columns{first, std::min(first + k_block_columns, cols_)};
      pace.spend((columns.end - first) * k_strip_rows);
      strip.write(columns, values_.data() + offset_of(first / k_block_columns, index));
    }
    least_a = std::min(least_a, strip.least());
  }
  least_b_ = least_b_for(std::bit_cast<float>(least_a));
}

std::int64_t DenseMatrix::strips() const noexcept {
  return ceil_div(rows_.end - rows_.begin, k_strip_rows);
}

std::int64_t DenseMatrix::bytes() const noexcept {
  return static_cast<std::int64_t>(values_.size() * sizeof(float));
}

std::int64_t DenseMatrix::offset_of(std::int64_t block, std::int64_t strip) const noexcept {
  const std::int64_t first = block * k_block_columns;
  const std::int64_t columns = std::min(k_block_columns, cols_ - first);
  return (first * strips() + strip * columns) * k_strip_rows;
}

bool DenseMatrix::run(const Product& operands, HostIsa isa, float* workspace) const {
  const bool is_narrow = operands.n <= std::ssize(dense_kernels_of(isa).narrow);
  if (is_narrow && operands.places == nullptr) return run_narrow(operands, isa);
  // B of so many columns stays in L2 while A passes by.
  for (std::int64_t first = 0; first < operands.n; first += k_packed_columns) {
    Product some = operands;
    some.b += first;
    some.c += first;
    some.n = std::min(k_packed_columns, operands.n - first);
    if (!run_wide(some, isa, workspace)) return false;
  }
  return true;
}

bool DenseMatrix::run_narrow(const Product& operands, HostIsa isa) const {
  const Magnitude seen = look_at(isa, operands.b, operands.ldb, cols_, operands.n);
  if (!takes(seen, least_b_)) return false;
  std::int64_t at_once = k_most_strips;
  std::int64_t index = 0;
  for (const RunNarrow run_strips : dense_kernels_of(isa).narrow[to_size(operands.n - 1)]) {
    for (; run_strips != nullptr && index + at_once <= strips(); index += at_once) {
      run_narrow_rows(operands, run_strips, {index, index + at_once});
    }
    at_once /= 2;
  }
  return true;
}

void DenseMatrix::run_narrow_rows(const Product& operands, RunNarrow run_strips,
                                  RowRange some) const {
  alignas(64) std::array<float, to_size(k_most_narrow_sums)> sums;
  const std::int64_t floats = (some.end - some.begin) * operands.n * k_strip_rows;
  std::fill_n(sums.begin(), floats, 0.0F);
  for (std::int64_t first = 0; first < cols_; first += k_block_columns) {
    run_strips(values_.data() + offset_of(first / k_block_columns, some.begin),
               std::min(k_block_columns, cols_ - first), operands.b + first * operands.ldb,
               operands.ldb, sums.data());
  }
  const std::int64_t begin = rows_.begin + some.begin * k_strip_rows;
  const std::int64_t end = std::min(rows_.begin + some.end * k_strip_rows, rows_.end);
  if (operands.n == 1 && operands.ldc == 1) {
    std::copy_n(sums.begin(), end - begin, operands.c + begin);
    return;
  }
  const StoreStrip store = k_stores[to_size(operands.n - 1)];
  const float* of_strip = sums.data();
  for (std::int64_t row = begin; row < end; row += k_strip_rows) {
    store(of_strip, std::min(k_strip_rows, end - row), operands.c + row * operands.ldc,
          operands.ldc);
    of_strip += operands.n * k_strip_rows;
  }
}

bool DenseMatrix::run_wide(const Product& operands, HostIsa isa, float* workspace) const {
  std::int64_t block = 0;
  do {
    const std::int64_t first_row = block * k_block_columns;
    const std::int64_t rows = std::min(k_block_columns, cols_ - first_row);
    float* to = workspace;
    const bool is_taken = for_each_dense_panel(
        isa, operands.n, [&](std::int64_t first, std::int64_t columns, const Panels& panels) {
          const Magnitude seen =
              panels.pack(operands.rows_of_b().from(first_row, first), rows, columns, to);
          to += rows * panels.columns;
          return takes(seen, least_b_);
        });
    if (!is_taken) return false;
    run_block(operands, isa, block, workspace);
    ++block;
  } while (block * k_block_columns < cols_);
  return true;
}

void DenseMatrix::run_block(const Product& operands, HostIsa isa, std::int64_t block,
                            const float* packed) const {
  const std::int64_t steps = std::min(k_block_columns, cols_ - block * k_block_columns);
  for (std::int64_t index = 0; index < strips(); ++index) {
    const std::int64_t row = rows_.begin + index * k_strip_rows;
    const float* b = packed;
    for_each_dense_panel(
        isa, operands.n, [&](std::int64_t first, std::int64_t columns, const Panels& panels) {
          panels.sixteen_rows({.a = values_.data() + offset_of(block, index),
                               .steps = steps,
                               .b = b,
                               .c = operands.c + row * operands.ldc + first,
                               .ldc = operands.ldc,
                               .rows = std::min(k_strip_rows, rows_.end - row),
                               .last = columns - (columns - 1) / panels.lanes * panels.lanes,
                               .is_first = block == 0});
          b += steps * panels.columns;
          return true;
        });
  }
}

}  // namespace spjit
