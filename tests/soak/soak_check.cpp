#include "tests/soak/soak_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "base/arithmetic.hpp"
#include "tests/support/sparse_floats.hpp"
#include "tests/support/spmm_testing.hpp"

namespace spjit::soak {
namespace {

using testing_support::same_value;
using testing_support::SparseFloats;

constexpr float k_untouched = -12345.0F;
/// Floats that are looked at on either side of a gap between two rows.
constexpr std::int64_t k_gap = 64;
/// Products of the reference; past this it looks at some of the rows.
constexpr std::int64_t k_compared_products = 8'000'000;
/// Floats of B's rows that nothing reads; past this they stay zero and take no memory.
constexpr std::int64_t k_most_filled = std::int64_t{1} << 22;

std::int64_t floats_between(std::int64_t rows, std::int64_t ld, std::int64_t n) {
  return rows == 0 ? 0 : (rows - 1) * ld + n;
}

void fill_row(const SoakCase& item, std::int64_t row, float* b) {
  for (std::int64_t j = 0; j < item.n; ++j) b[row * item.ldb + j] = b_value(item, row, j);
}

void fill_b(const SoakCase& item, float* b) {
  if (item.matrix.cols * item.n <= k_most_filled) {
    for (std::int64_t row = 0; row < item.matrix.cols; ++row) fill_row(item, row, b);
    return;
  }
  for (const std::int32_t column : item.matrix.col_idxs) fill_row(item, column, b);
}

/// Calls `on_float(index)` for floats that belong to no row but lie near one.
template <class OnFloat>
void for_each_in_gaps(const SoakCase& item, const OnFloat& on_float) {
  for (std::int64_t row = 0; row + 1 < item.matrix.rows; ++row) {
    const std::int64_t begin = row * item.ldc + item.n;
    const std::int64_t end = (row + 1) * item.ldc;
    for (std::int64_t i = begin; i < std::min(begin + k_gap, end); ++i) on_float(i);
    for (std::int64_t i = std::max(end - k_gap, begin + k_gap); i < end; ++i) on_float(i);
  }
}

/// The entries of a row by ascending column.
std::vector<std::int64_t> entries_by_column(const CsrMatrix& matrix, std::int64_t row) {
  const std::int64_t begin = matrix.row_ptrs[to_size(row)];
  std::vector<std::int64_t> entries(to_size(matrix.row_ptrs[to_size(row) + 1] - begin));
  std::iota(entries.begin(), entries.end(), begin);
  std::ranges::sort(entries, {}, [&](std::int64_t i) { return matrix.col_idxs[to_size(i)]; });
  return entries;
}

/// A product that the compiler cannot make part of a fused multiply-add.
float product_of(float a, float b) {
  volatile float product = a * b;
  return product;
}

std::vector<Expected> expected_row(const SoakCase& item, std::int64_t row, const float* b) {
  const bool fused = item.route == Route::ptx || item.isa != HostIsa::generic;
  std::vector<Expected> expected(to_size(item.n));
  const std::vector<std::int64_t> entries = entries_by_column(item.matrix, row);
  for (const std::int64_t i : entries) {
    const float a = item.matrix.values[to_size(i)];
    const float* b_row = b + item.matrix.col_idxs[to_size(i)] * item.ldb;
    for (std::int64_t j = 0; j < item.n; ++j) {
      Expected& element = expected[to_size(j)];
      element.bits =
          fused ? std::fmaf(a, b_row[j], element.bits) : element.bits + product_of(a, b_row[j]);
      const double product = static_cast<double>(a) * static_cast<double>(b_row[j]);
      element.value += product;
      element.bound += std::abs(product);
    }
  }
  // Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 3.1; products below
  // the normal range lose up to half of the smallest subnormal number each, twice if not fused.
  const double roundings = static_cast<double>(entries.size()) * 0x1p-24;
  for (Expected& element : expected) {
    element.bound = roundings / (1 - roundings) * element.bound * (1 + 0x1p-20) +
                    static_cast<double>(entries.size()) * 0x1p-149;
  }
  return expected;
}

/// The sums of a row may pass the largest float on the way although the whole does not; then only
/// the bits are compared.
bool may_overflow(const CsrMatrix& matrix) {
  double magnitude = 0;
  for (const float value : matrix.values) magnitude += std::abs(static_cast<double>(value));
  return !(magnitude < 1e30);
}

std::string check_rows(const SoakCase& item, const float* b, const float* c) {
  const std::int64_t products = item.matrix.nnz() * item.n;
  const std::int64_t step = std::max<std::int64_t>(products / k_compared_products, 1);
  const bool only_bits = item.special_values || may_overflow(item.matrix);
  for (std::int64_t row = 0; row < item.matrix.rows; row += step) {
    const std::vector<Expected> expected = expected_row(item, row, b);
    for (std::int64_t j = 0; j < item.n; ++j) {
      const Expected& element = expected[to_size(j)];
      const float found = c[row * item.ldc + j];
      const bool same = same_value(found, element.bits);
      if (same && (only_bits || is_near(found, element))) continue;
      return fmt::format("C[{}][{}] is {:.9g}; expected {:.9g}, in float64 {:.17g} +- {:.3g}", row,
                         j, found, element.bits, element.value, element.bound);
    }
  }
  return {};
}

std::string check_gaps(const SoakCase& item, const float* c) {
  std::string problem;
  for_each_in_gaps(item, [&](std::int64_t i) {
    if (c[i] == k_untouched || !problem.empty()) return;
    problem = fmt::format("C was touched between rows, {} floats behind row {}",
                          i % item.ldc - item.n, i / item.ldc);
  });
  return problem;
}

}  // namespace

bool is_near(float c, const Expected& expected) {
  const double most = static_cast<double>(std::numeric_limits<float>::max());
  if (!std::isfinite(expected.value) || !std::isfinite(expected.bound)) return !std::isfinite(c);
  if (!std::isfinite(c)) return std::abs(expected.value) + expected.bound > most;
  return std::abs(static_cast<double>(c) - expected.value) <= expected.bound;
}

std::string check_case(const SoakCase& item, const RunCase& run) {
  try {
    const SparseFloats b(floats_between(item.matrix.cols, item.ldb, item.n));
    const SparseFloats c(floats_between(item.matrix.rows, item.ldc, item.n));
    if (!b.mapped() || !c.mapped()) return "no address space for B and C";
    fill_b(item, b.data());
    // What the kernel leaves out stays NaN, which no sum of finite numbers is.
    for (std::int64_t row = 0; row < item.matrix.rows; ++row) {
      std::fill_n(c.data() + row * item.ldc, item.n, std::numeric_limits<float>::quiet_NaN());
    }
    for_each_in_gaps(item, [&](std::int64_t i) { c.data()[i] = k_untouched; });

    run(item, b.data(), c.data());

    const std::string problem = check_rows(item, b.data(), c.data());
    return problem.empty() ? check_gaps(item, c.data()) : problem;
  } catch (const std::exception& error) {
    return fmt::format("exception: {}", error.what());
  }
}

}  // namespace spjit::soak
