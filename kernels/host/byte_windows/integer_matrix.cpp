#include "kernels/host/byte_windows/integer_matrix.hpp"

#include <immintrin.h>

#include <algorithm>
#include <cmath>

#include "base/arithmetic.hpp"
#include "base/host_cpu.hpp"
#include "kernels/host/operands/held_values.hpp"
#include "kernels/host/operands/simd.hpp"

namespace spjit {
namespace {

/// Up to here a float has every integer.
constexpr double k_most_exact = 16'777'216;

/// Floats that are integers become i32, where they are.
SPJIT_AVX2_TARGET void make_ints(float* values, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256i ints = _mm256_cvttps_epi32(_mm256_loadu_ps(values + i));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(values + i), ints);
  }
  for (; i < count; ++i) {
    const __m128i one = _mm_cvttps_epi32(_mm_load_ss(values + i));
    _mm_store_ss(values + i, _mm_castsi128_ps(one));
  }
}

}  // namespace

IntegerMatrix::IntegerMatrix(const CsrView& matrix, const Use& use, const Cancellation& cancel)
    : cpu_(compact_cpu_of(use.isa, host_cpu())),
      largest_of_b_(use.largest_of_b),
      has_scales_(!matrix.groups.empty()),
      row_ptrs_(matrix.row_ptrs.begin(), matrix.row_ptrs.end()),
      rows_(split_rows(matrix, use.parts)) {
  const std::int64_t columns =
      use.tokens < k_many_tokens ? k_many_tokens - 1 : k_compact_panel_columns;
  CompactBlocks blocks = compact_blocks(matrix, cpu_, Extent(columns), columns);
  blocks.columns = std::min(blocks.columns, CompactMatrix::k_most_packed_columns);
  // Where weights are loaded one by one, an FMA takes a float from memory, but of groups.
  if (!cpu_.loads_weights || has_scales_) blocks.held = HeldType::i8;
  rows_of_blocks_ = matrix.rows * ceil_div(matrix.cols, blocks.columns);
  CsrView pattern = matrix;
  pattern.values = {};
  for (const RowRange& rows : rows_) parts_.emplace_back(pattern, rows, blocks, cancel);
  if (matrix.has_values()) values_ = arrange(matrix.values);
}

double IntegerMatrix::cost(std::int64_t tokens) const noexcept {
  // An FMA waits for the one before it where there are few sums of a row.
  constexpr double k_entry_ns = 0.45;
  constexpr double k_vector_ns = 0.135;
  constexpr double k_row_ns = 5;
  // Eight rows at a time.
  constexpr double k_entry_of_few_ns = 0.6;
  constexpr double k_row_of_few_ns = 2;
  // Of a group with scales a row is added to its sum.
  constexpr double k_scaled_row_ns = 1;
  constexpr double k_scaled_vector_ns = 0.5;
  const auto entries = as_double(row_ptrs_.back());
  const auto rows = as_double(rows_of_blocks_);
  if (tokens < k_many_tokens) return entries * k_entry_of_few_ns + rows * k_row_of_few_ns;
  const double vectors = as_double(ceil_div(tokens, 8));
  const double row_ns = has_scales_ ? k_scaled_row_ns + k_scaled_vector_ns * vectors : k_row_ns;
  return entries * (k_entry_ns + k_vector_ns * vectors) + rows * row_ns;
}

bool IntegerMatrix::are_exact(std::span<const float> values) const {
  constexpr double k_most_in_a_group = 128.0 * 128 * 255;
  static_assert(k_most_in_a_group <= k_most_exact);
  if (has_scales_) return true;
  for (std::size_t row = 0; row + 1 < row_ptrs_.size(); ++row) {
    double sum = 0;
    for (std::int64_t entry = row_ptrs_[row]; entry < row_ptrs_[row + 1]; ++entry) {
      sum += std::abs(values[to_size(entry)]);
    }
    if (sum * as_double(largest_of_b_) > k_most_exact) return false;
  }
  return true;
}

IntegerMatrix::Values IntegerMatrix::arrange(std::span<const float> values) const {
  Values arranged;
  arranged.are_exact = are_exact(values);
  if (!arranged.are_exact) return arranged;
  for (const CompactMatrix& part : parts_) arranged.parts.push_back(part.arrange(values));
  return arranged;
}

void IntegerMatrix::run(std::int64_t part, const Product& product, bool as_ints,
                        const Values& values, float* workspace) const {
  parts_[to_size(part)].run(product, cpu_, workspace, &values.parts[to_size(part)]);
  if (!as_ints) return;
  const RowRange& rows = rows_[to_size(part)];
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    make_ints(product.c + row * product.ldc, product.n);
  }
}

}  // namespace spjit
