#include "compiler/float64_reference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/arithmetic.hpp"
#include "plan/elements.hpp"

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

double error_bound(const Accumulate& accumulate, std::int64_t products, double magnitude) noexcept {
  switch (accumulate.promise) {
    case Promise::tensor:
      return 2 * error_bound(products, magnitude);
    case Promise::bounded:
      return (accumulate.eps + as_double(products) * 0x1p-52) * magnitude;
    case Promise::integer:
      return 0;
    case Promise::ordered:
      break;
  }
  return error_bound(products, magnitude);
}

double judge(double value, const Reference& reference) noexcept {
  constexpr double k_hopeless = std::numeric_limits<double>::infinity();
  if (!std::isfinite(reference.value)) {
    // NaN is right beside an infinity too: fp32 may have met both infinities on the way.
    const bool same = std::isnan(value) || value == reference.value;
    return same ? 0 : k_hopeless;
  }
  if (!std::isfinite(value)) return reference.may_overflow ? 0 : k_hopeless;
  const double error = std::abs(value - reference.value);
  return error == 0 ? 0 : error / reference.bound;  // infinite where nothing may be off
}

ReferenceRows::ReferenceRows(const CsrMatrix& matrix, const void* b, const PlacementOfB& layout,
                             const EvenSpread& columns, const QuantizedNumerics& how)
    : matrix_(matrix),
      b_(b),
      numerics_(how.numerics),
      groups_(how.groups),
      layout_(layout),
      row_distance_(layout.stored.offset(1, 0)),
      references_(to_size(columns.count)) {
  columns_.reserve(to_size(columns.count));
  offsets_.reserve(to_size(columns.count));
  for (std::int64_t i = 0; i < columns.count; ++i) {
    columns_.push_back(columns.at(i));
    if (layout.convolution == nullptr) offsets_.push_back(layout.offset(0, columns.at(i)));
  }
  if (is_quantized(numerics_)) {
    quantized_.emplace(b, layout, matrix.cols, columns_, how);
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

template <class Load>
void ReferenceRows::add_row(double a, std::int64_t column, const Load& load) {
  if (layout_.convolution == nullptr) {
    const std::int64_t row = column * row_distance_;
    add(a, [&](std::size_t j) { return load(row + offsets_[j]); });
  } else {
    add(a, [&](std::size_t j) {
      const std::int64_t offset = layout_.offset(column, columns_[j]);
      return offset < 0 ? 0 : load(offset);
    });
  }
}

std::span<const Reference> ReferenceRows::row(std::int64_t row, CancelPace& pace) {
  const std::int64_t begin = matrix_.row_ptrs[to_size(row)];
  const std::int64_t end = matrix_.row_ptrs[to_size(row) + 1];
  const std::span<const float> scales =
      groups_.empty() ? std::span<const float>() : groups_.of_row(matrix_.cols, row);
  std::ranges::fill(references_, Reference{});  // bound: the sum of magnitudes at first
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t column = matrix_.col_idxs[to_size(i)];
    auto a = static_cast<double>(matrix_.values[to_size(i)]);
    if (!scales.empty()) a *= scales[to_size(column / groups_.columns)];  // exact
    if (quantized_) {
      add(a, [&](std::size_t j) { return quantized_->difference(column, j); });
    } else if (numerics_.b == DataType::f32) {
      add_row(a, column, [b = static_cast<const float*>(b_)](std::int64_t at) { return b[at]; });
    } else {
      add_row(a, column, [&](std::int64_t at) { return load_element(numerics_.b, b_, at); });
    }
    pace.spend(static_cast<std::int64_t>(columns_.size()));
  }
  const Promise promise = numerics_.accumulate.promise;
  const bool is_scaled_integer = promise == Promise::integer && !groups_.empty();
  const bool is_float =
      promise == Promise::ordered || promise == Promise::tensor || is_scaled_integer;
  // Sums of integers are rounded where a group ends.
  const std::int64_t products = is_scaled_integer ? 0 : end - begin;
  const Accumulate accumulate = is_scaled_integer ? Accumulate::ordered() : numerics_.accumulate;
  const std::int64_t roundings = products + groups_.count(matrix_.cols);
  for (Reference& reference : references_) {
    const double magnitude = reference.bound;
    reference.bound = error_bound(accumulate, roundings, magnitude);
    reference.may_overflow = is_float && magnitude + reference.bound > k_largest_float;
  }
  return references_;
}

}  // namespace spjit
