#include "compiler/float64_reference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/arithmetic.hpp"

namespace spjit {
namespace {

constexpr std::int64_t k_least_sampled_columns = 16;
constexpr double k_largest_float = std::numeric_limits<float>::max();

std::int64_t row_nnz(const CsrMatrix& matrix, std::int64_t row) {
  return matrix.row_ptrs[to_size(row) + 1] - matrix.row_ptrs[to_size(row)];
}

std::int64_t fullest_row_of(const CsrMatrix& matrix, const Cancellation& cancel) {
  std::int64_t fullest = 0;
  for_each_piece(matrix.rows, cancel, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      if (row_nnz(matrix, row) > row_nnz(matrix, fullest)) fullest = row;
    }
  });
  return fullest;
}

EvenSpread spread(std::int64_t size, std::int64_t count) {
  return {size, std::min(size, std::max<std::int64_t>(count, 2))};
}

}  // namespace

bool EvenSpread::contains(std::int64_t number) const noexcept {
  std::int64_t begin = 0;
  std::int64_t end = count;
  while (begin < end) {
    const std::int64_t middle = begin + (end - begin) / 2;
    if (at(middle) == number) return true;
    if (at(middle) < number) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return false;
}

bool is_empty_row(const CsrMatrix& matrix, std::int64_t row) noexcept {
  return matrix.row_ptrs[to_size(row)] == matrix.row_ptrs[to_size(row) + 1];
}

ReferenceSample whole_sample(const CsrMatrix& matrix, std::int64_t n) {
  return {.rows = {matrix.rows, matrix.rows}, .columns = {n, n}};
}

ReferenceSample choose_sample(const CsrMatrix& matrix, std::int64_t n, std::int64_t most_products,
                              const Cancellation& cancel) {
  const std::int64_t nnz = std::max<std::int64_t>(matrix.nnz(), 1);
  const std::int64_t columns =
      std::clamp(most_products / nnz, std::min(k_least_sampled_columns, n), n);
  const double affordable =
      as_double(most_products) / as_double(columns) / as_double(nnz) * as_double(matrix.rows);
  ReferenceSample sample{.rows = {matrix.rows, matrix.rows}, .columns = spread(n, columns)};
  if (affordable >= as_double(matrix.rows)) return sample;
  sample.rows = spread(matrix.rows, static_cast<std::int64_t>(affordable));
  const std::int64_t fullest = fullest_row_of(matrix, cancel);
  if (!sample.rows.contains(fullest)) sample.fullest_row = fullest;
  return sample;
}

double error_bound(std::int64_t products, double magnitude) noexcept {
  const double units = as_double(products) * 0x1p-24;
  const double factor = units < 0.5 ? units / (1 - units) : 2 * units;
  // Products below the normal range lose up to half of the smallest subnormal number each.
  const double underflow =
      as_double(products) * static_cast<double>(std::numeric_limits<float>::denorm_min());
  return factor * magnitude + underflow;
}

double judge(float value, const Reference& reference) noexcept {
  constexpr double k_hopeless = std::numeric_limits<double>::infinity();
  if (!std::isfinite(reference.value)) {
    // NaN is right beside an infinity too: fp32 may have met both infinities on the way.
    const bool same = std::isnan(value) || static_cast<double>(value) == reference.value;
    return same ? 0 : k_hopeless;
  }
  if (!std::isfinite(value)) return reference.may_overflow ? 0 : k_hopeless;
  const double error = std::abs(static_cast<double>(value) - reference.value);
  return error == 0 ? 0 : error / reference.bound;  // infinite where nothing may be off
}

ReferenceRows::ReferenceRows(const CsrMatrix& matrix, const float* b, const PlacementOfB& layout,
                             const EvenSpread& columns)
    : matrix_(matrix),
      b_(b),
      layout_(layout),
      row_distance_(layout.stored.offset(1, 0)),
      references_(to_size(columns.count)) {
  columns_.reserve(to_size(columns.count));
  offsets_.reserve(to_size(columns.count));
  for (std::int64_t i = 0; i < columns.count; ++i) {
    columns_.push_back(columns.at(i));
    if (layout.convolution == nullptr) offsets_.push_back(layout.offset(0, columns.at(i)));
  }
}

template <class Element>
void ReferenceRows::add(double a, const Element& b_at) {
  for (std::size_t j = 0; j < references_.size(); ++j) {
    const double product = a * static_cast<double>(b_at(j));
    references_[j].value += product;
    references_[j].bound += std::abs(product);
  }
}

std::span<const Reference> ReferenceRows::row(std::int64_t row, CancelPace& pace) {
  const std::int64_t begin = matrix_.row_ptrs[to_size(row)];
  const std::int64_t end = matrix_.row_ptrs[to_size(row) + 1];
  std::ranges::fill(references_, Reference{});  // bound: the sum of magnitudes at first
  for (std::int64_t i = begin; i < end; ++i) {
    const auto a = static_cast<double>(matrix_.values[to_size(i)]);
    const std::int64_t column = matrix_.col_idxs[to_size(i)];
    if (layout_.convolution == nullptr) {
      const float* b_row = b_ + column * row_distance_;
      add(a, [&](std::size_t j) { return b_row[offsets_[j]]; });
    } else {
      add(a, [&](std::size_t j) {
        const std::int64_t offset = layout_.offset(column, columns_[j]);
        return offset < 0 ? 0.0F : b_[offset];
      });
    }
    pace.spend(static_cast<std::int64_t>(columns_.size()));
  }
  for (Reference& reference : references_) {
    const double magnitude = reference.bound;
    reference.bound = error_bound(end - begin, magnitude);
    reference.may_overflow = magnitude + reference.bound > k_largest_float;
  }
  return references_;
}

}  // namespace spjit
