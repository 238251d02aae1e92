#include "kernels/host/sliced/sliced_kernel.hpp"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <span>
#include <utility>

#include "base/arithmetic.hpp"
#include "matrix/rows_of_b.hpp"

namespace spjit {
namespace {

constexpr std::int64_t k_lanes = SlicedMatrix::k_lanes;
constexpr std::int64_t k_window = SlicedMatrix::k_window;
constexpr std::uint8_t k_entry = 32;  // in a place: there is an entry
constexpr std::int64_t k_step_bytes = k_lanes * 5 + 4;

// Rows of equal length fill a slice best, but so do neighbours where those have like columns.
// Pruned layers lose little with 128 (at most 7 % of the lanes, most none); matrices of meshes and
// networks have up to twice as many lanes in use as with all rows sorted (bcsstk13,
// facebook_combined).
constexpr std::size_t k_sorted_rows = 128;

// Of a part, for one column: about a microsecond. Two threads instead of one cost half of that.
constexpr std::int64_t k_least_steps = 1000;

std::int64_t entries_of(const CsrView& matrix, std::int32_t row) {
  return matrix.row_ptrs[to_size(row) + 1] - matrix.row_ptrs[to_size(row)];
}

/// Floats of a column of B with its padding.
std::int64_t padded_columns(std::int64_t columns) {
  return std::max(round_up(columns, k_lanes), k_window);
}

/// Rows with entries; of each k_sorted_rows of them, those with most first.
std::vector<std::int32_t> rows_by_length(const CsrView& matrix, const Cancellation& cancel) {
  std::vector<std::int32_t> rows;
  for_each_piece(matrix.rows, cancel, [&](std::int64_t begin, std::int64_t end) {
    for (auto row = static_cast<std::int32_t>(begin); row < end; ++row) {
      if (entries_of(matrix, row) > 0) rows.push_back(row);
    }
  });
  CancelPace pace(cancel);
  for (std::span<std::int32_t> left = rows; !left.empty();) {
    const std::span<std::int32_t> some = left.first(std::min(left.size(), k_sorted_rows));
    pace.spend(std::ssize(some));
    std::ranges::stable_sort(some, std::ranges::greater(),
                             [&](std::int32_t row) { return entries_of(matrix, row); });
    left = left.subspan(some.size());
  }
  return rows;
}

/// The entries of up to sixteen rows, step by step.
class SliceCursor {
 public:
  SliceCursor(const CsrView& matrix, std::span<const std::int32_t> rows)
      : matrix_(matrix), last_start_(padded_columns(matrix.cols) - k_window) {
    columns_.fill(k_none);
    for (std::size_t lane = 0; lane < rows.size(); ++lane) {
      next_[lane] = matrix.row_ptrs[to_size(rows[lane])];
      ends_[lane] = matrix.row_ptrs[to_size(rows[lane]) + 1];
      read_column(lane);
    }
  }

  /// Calls `on_entry(lane, entry, place)` for each entry of the next step, whose window is `start`
  /// then. False if there is none left.
  template <class OnEntry>
  bool step(std::int64_t& start, const OnEntry& on_entry) {
    const std::int64_t first = *std::ranges::min_element(columns_);
    if (first == k_none) return false;
    start = std::min(first / k_lanes * k_lanes, last_start_);
    for (std::size_t lane = 0; lane < k_lanes; ++lane) {
      if (columns_[lane] >= start + k_window) continue;
      on_entry(lane, to_size(next_[lane]), static_cast<std::uint8_t>(columns_[lane] - start));
      ++next_[lane];
      read_column(lane);
    }
    return true;
  }

 private:
  static constexpr std::int64_t k_none = std::numeric_limits<std::int64_t>::max();

  void read_column(std::size_t lane) {
    columns_[lane] = next_[lane] < ends_[lane] ? matrix_.col_idxs[to_size(next_[lane])] : k_none;
  }

  const CsrView& matrix_;
  std::int64_t last_start_;
  std::array<std::int64_t, k_lanes> next_{};
  std::array<std::int64_t, k_lanes> ends_{};
  std::array<std::int64_t, k_lanes> columns_{};  ///< of next_, or k_none
};

/// Calls `on_slice(rows)` for sixteen rows at a time, the last ones perhaps fewer.
template <class OnSlice>
void for_each_slice(std::span<const std::int32_t> rows, const OnSlice& on_slice) {
  for (std::size_t first = 0; first < rows.size(); first += k_lanes) {
    on_slice(rows.subspan(first, std::min<std::size_t>(k_lanes, rows.size() - first)));
  }
}

/// What a run goes through, without bounds.
struct Steps {
  const std::int32_t* starts;
  const std::uint8_t* places;
  const float* values;
  std::int64_t stride;  ///< floats between columns of B
};

struct StepRange {
  std::int64_t begin;
  std::int64_t end;
};

/// Adds the entries of one step.
template <std::size_t Columns>
__attribute__((target("avx512f"), always_inline)) inline void add_step(
    const Steps& steps, std::int64_t step, const SlicedOperands& operands, __m512* sums) {
  const float* window = operands.b + steps.starts[step];
  const __m512i places = _mm512_maskz_cvtepu8_epi32(
      0xFFFF, _mm_loadu_si128(reinterpret_cast<const __m128i*>(steps.places + step * k_lanes)));
  const __mmask16 entries = _mm512_test_epi32_mask(places, _mm512_set1_epi32(k_entry));
  const __m512 values = _mm512_load_ps(steps.values + step * k_lanes);
#pragma GCC unroll 8
  for (std::size_t j = 0; j < Columns; ++j) {
    // Of the places, vpermt2ps takes the low five bits.
    const __m512 b =
        _mm512_permutex2var_ps(_mm512_load_ps(window), places, _mm512_load_ps(window + k_lanes));
    sums[j] = _mm512_mask3_fmadd_ps(b, values, sums[j], entries);
    window += steps.stride;
  }
}

/// The sums of a slice's rows to where those are in C: the one place that stores a row of C. An
/// epilogue changes `sums` first, sixteen rows of a column at a time, or the lanes of a row.
template <std::size_t Columns>
__attribute__((target("avx512f"), always_inline)) inline void store_rows(
    const std::int32_t* rows, const SlicedOperands& operands, const __m512* sums) {
  alignas(64) std::array<float, Columns * k_lanes> lanes;
#pragma GCC unroll 8
  for (std::size_t j = 0; j < Columns; ++j) _mm512_store_ps(lanes.data() + j * k_lanes, sums[j]);
  for (std::size_t lane = 0; lane < k_lanes && rows[lane] >= 0; ++lane) {
    float* c = operands.c + rows[lane] * operands.ldc;
    for (std::size_t j = 0; j < Columns; ++j) c[j] = lanes[j * k_lanes + lane];
  }
}

/// One slice.
template <std::size_t Columns>
__attribute__((target("avx512f"))) void run_slice(const Steps& steps, const StepRange& range,
                                                  const std::int32_t* rows,
                                                  const SlicedOperands& operands) {
  __m512 sums[Columns];
  for (__m512& sum : sums) sum = _mm512_setzero_ps();
  for (std::int64_t step = range.begin; step < range.end; ++step) {
    add_step<Columns>(steps, step, operands, sums);
  }
  store_rows<Columns>(rows, operands, sums);
}

/// Two slices at once: the sums of one column alone would wait for each other.
template <std::size_t Columns>
__attribute__((target("avx512f"))) void run_two_slices(const Steps& steps, const StepRange& first,
                                                       const StepRange& second,
                                                       const std::int32_t* rows,
                                                       const SlicedOperands& operands) {
  __m512 sums[2][Columns];
  for (std::size_t j = 0; j < Columns; ++j) sums[0][j] = sums[1][j] = _mm512_setzero_ps();
  const std::int64_t both = std::min(first.end - first.begin, second.end - second.begin);
  for (std::int64_t i = 0; i < both; ++i) {
    add_step<Columns>(steps, first.begin + i, operands, sums[0]);
    add_step<Columns>(steps, second.begin + i, operands, sums[1]);
  }
  for (std::int64_t step = first.begin + both; step < first.end; ++step) {
    add_step<Columns>(steps, step, operands, sums[0]);
  }
  for (std::int64_t step = second.begin + both; step < second.end; ++step) {
    add_step<Columns>(steps, step, operands, sums[1]);
  }
  store_rows<Columns>(rows, operands, sums[0]);
  store_rows<Columns>(rows + k_lanes, operands, sums[1]);
}

template <std::size_t Columns>
void run_slices(const Steps& steps, const std::int64_t* slice_ptrs, const std::int32_t* rows,
                const RowRange& slices, const SlicedOperands& operands) {
  const auto range = [&](std::int64_t slice) {
    return StepRange{slice_ptrs[slice], slice_ptrs[slice + 1]};
  };
  std::int64_t slice = slices.begin;
  if constexpr (Columns <= 2) {
    for (; slice + 1 < slices.end; slice += 2) {
      run_two_slices<Columns>(steps, range(slice), range(slice + 1), rows + slice * k_lanes,
                              operands);
    }
  }
  for (; slice < slices.end; ++slice) {
    run_slice<Columns>(steps, range(slice), rows + slice * k_lanes, operands);
  }
}

using SliceKernel = void (*)(const Steps&, const std::int64_t*, const std::int32_t*,
                             const RowRange&, const SlicedOperands&);

template <std::size_t... I>
constexpr std::array<SliceKernel, sizeof...(I)> slice_kernels(
    std::index_sequence<I...> /*columns*/) {
  return {run_slices<I + 1>...};
}

/// B without padding between its rows: a distance known here lets several rows be copied at once.
template <std::int64_t Columns>
void copy_rows(const float* b, std::int64_t rows, float* columns, std::int64_t stride) {
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t j = 0; j < Columns; ++j) columns[j * stride + row] = b[row * Columns + j];
  }
}

using CopyRows = void (*)(const float*, std::int64_t, float*, std::int64_t);

template <std::size_t... I>
constexpr std::array<CopyRows, sizeof...(I)> copies(std::index_sequence<I...> /*columns*/) {
  return {copy_rows<I + 1>...};
}

constexpr auto k_copies = copies(std::make_index_sequence<k_most_sliced_columns>());
constexpr auto k_kernels = slice_kernels(std::make_index_sequence<k_most_sliced_columns>());

}  // namespace

SlicedMatrix::SlicedMatrix(const CsrView& matrix, const Cancellation& cancel)
    : cols_(matrix.cols), rows_of_b_(rows_of_b(matrix.col_idxs, matrix.cols, cancel)) {
  const std::vector<std::int32_t> rows = rows_by_length(matrix, cancel);
  CancelPace pace(cancel);
  std::vector<std::int64_t> entries;
  for_each_slice(rows, [&](std::span<const std::int32_t> of_slice) {
    std::int64_t start = 0;
    SliceCursor cursor(matrix, of_slice);
    std::array<std::uint8_t, k_lanes> places{};
    std::array<std::int64_t, k_lanes> of_step{};
    of_step.fill(k_no_entry);
    while (cursor.step(start, [&](std::size_t lane, std::size_t entry, std::uint8_t place) {
      places[lane] = k_entry + place;
      of_step[lane] = static_cast<std::int64_t>(entry);
    })) {
      starts_.push_back(checked_cast<std::int32_t>(start, "first column of a window"));
      places_.insert(places_.end(), places.begin(), places.end());
      entries.insert(entries.end(), of_step.begin(), of_step.end());
      places.fill(0);
      of_step.fill(k_no_entry);
      pace.spend(k_lanes);
    }
    slice_ptrs_.push_back(std::ssize(starts_));
    rows_.insert(rows_.end(), of_slice.begin(), of_slice.end());
    rows_.resize(to_size(slices() * k_lanes), -1);
  });
  if (matrix.has_values()) {
    values_ = arrange(entries, matrix.values);
  } else {
    entries_ = std::move(entries);
  }
  for_each_piece(matrix.rows, cancel, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      if (entries_of(matrix, static_cast<std::int32_t>(row)) == 0) empty_rows_.add(row, row + 1);
    }
  });
}

FloatBuffer SlicedMatrix::arrange(std::span<const std::int64_t> entries,
                                  std::span<const float> values) {
  FloatBuffer arranged(entries.size());
  float* to = arranged.data();
  for (const std::int64_t entry : entries) *to++ = entry < 0 ? 0.0F : values[to_size(entry)];
  return arranged;
}

std::int64_t SlicedMatrix::column_floats() const noexcept { return padded_columns(cols_); }

std::int64_t SlicedMatrix::copied_floats() const noexcept {
  return rows_of_b_.count() + column_floats() - cols_;
}

bool SlicedMatrix::takes_in_place(const Product& operands) const noexcept {
  return operands.n == 1 && operands.ldb == 1 && cols_ == column_floats() &&
         reinterpret_cast<std::uintptr_t>(operands.b) % FloatBuffer::k_alignment == 0;
}

void SlicedMatrix::copy_columns(const Product& operands, float* columns) const {
  const std::int64_t stride = column_floats();
  for (std::int64_t j = 0; j < operands.n; ++j) {
    std::fill(columns + j * stride + cols_, columns + (j + 1) * stride, 0.0F);
  }
  for (const RowRange& rows : rows_of_b_.ranges()) {
    if (operands.ldb == operands.n) {
      k_copies[to_size(operands.n - 1)](operands.b + rows.begin * operands.n, rows.end - rows.begin,
                                        columns + rows.begin, stride);
      continue;
    }
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      for (std::int64_t j = 0; j < operands.n; ++j) {
        columns[j * stride + row] = operands.b[row * operands.ldb + j];
      }
    }
  }
}

std::vector<RowRange> SlicedMatrix::split(std::int64_t parts, std::int64_t n) const {
  parts = std::clamp<std::int64_t>(steps() * n / k_least_steps, 1, parts);
  return split_evenly(slices(), parts,
                      [&](std::int64_t slice) { return slice_ptrs_[to_size(slice)]; });
}

void SlicedMatrix::run(const RowRange& slices, const SlicedOperands& operands) const {
  const float* const values = operands.values == nullptr ? values_.data() : operands.values;
  const Steps steps{starts_.data(), places_.data(), values, column_floats()};
  k_kernels[to_size(operands.n - 1)](steps, slice_ptrs_.data(), rows_.data(), slices, operands);
}

// The one place that writes empty rows of C, those without gaps at once. What an epilogue makes of
// zeros goes here.
void SlicedMatrix::zero_empty_rows(const SlicedOperands& operands) const {
  for (const RowRange& rows : empty_rows_.ranges()) {
    const std::int64_t at_once = operands.ldc == operands.n ? rows.end - rows.begin : 1;
    for (std::int64_t row = rows.begin; row < rows.end; row += at_once) {
      std::fill_n(operands.c + row * operands.ldc, at_once * operands.n, 0.0F);
    }
  }
}

std::int64_t sliced_bytes(const CsrView& matrix, const Cancellation& cancel) {
  std::int64_t steps = 0;
  const std::vector<std::int32_t> rows = rows_by_length(matrix, cancel);
  CancelPace pace(cancel);
  for_each_slice(rows, [&](std::span<const std::int32_t> of_slice) {
    std::int64_t start = 0;
    SliceCursor cursor(matrix, of_slice);
    while (cursor.step(start, [](std::size_t, std::size_t, std::uint8_t) {})) {
      ++steps;
      pace.spend(k_lanes);
    }
  });
  return steps * k_step_bytes;
}

}  // namespace spjit
