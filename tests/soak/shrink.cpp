#include "tests/soak/shrink.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/arithmetic.hpp"

namespace spjit::soak {
namespace {

struct Entry {
  std::int64_t row = 0;
  std::int32_t column = 0;
  float value = 0;
};

std::vector<Entry> entries_of(const CsrMatrix& matrix) {
  std::vector<Entry> entries;
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    for (std::int64_t i = matrix.row_ptrs[to_size(row)]; i < matrix.row_ptrs[to_size(row) + 1];
         ++i) {
      entries.push_back({row, matrix.col_idxs[to_size(i)], matrix.values[to_size(i)]});
    }
  }
  return entries;
}

CsrMatrix matrix_of(std::int64_t rows, std::int64_t cols, const std::vector<Entry>& entries) {
  CsrMatrix matrix;
  matrix.rows = rows;
  matrix.cols = cols;
  matrix.row_ptrs.assign(to_size(rows) + 1, 0);
  for (const Entry& entry : entries) {
    ++matrix.row_ptrs[to_size(entry.row) + 1];
    matrix.col_idxs.push_back(entry.column);
    matrix.values.push_back(entry.value);
  }
  for (std::size_t row = 0; row < to_size(rows); ++row) {
    matrix.row_ptrs[row + 1] += matrix.row_ptrs[row];
  }
  return matrix;
}

CsrMatrix without_rows(const CsrMatrix& matrix, std::int64_t begin, std::int64_t end) {
  std::vector<Entry> kept;
  for (Entry entry : entries_of(matrix)) {
    if (entry.row >= begin && entry.row < end) continue;
    if (entry.row >= end) entry.row -= end - begin;
    kept.push_back(entry);
  }
  return matrix_of(matrix.rows - (end - begin), matrix.cols, kept);
}

CsrMatrix without_entries(const CsrMatrix& matrix, std::int64_t begin, std::int64_t end) {
  std::vector<Entry> entries = entries_of(matrix);
  entries.erase(entries.begin() + begin, entries.begin() + end);
  return matrix_of(matrix.rows, matrix.cols, entries);
}

/// Only columns that have entries, in their order.
CsrMatrix without_empty_columns(const CsrMatrix& matrix) {
  std::map<std::int32_t, std::int32_t> numbers;
  for (const std::int32_t column : matrix.col_idxs) numbers.emplace(column, 0);
  std::int32_t next = 0;
  for (auto& [column, number] : numbers) number = next++;
  CsrMatrix result = matrix;
  result.cols = next;
  for (std::int32_t& column : result.col_idxs) column = numbers.at(column);
  return result;
}

/// Only the columns up to the last that has entries.
CsrMatrix without_last_columns(const CsrMatrix& matrix) {
  CsrMatrix result = matrix;
  const auto last = std::ranges::max_element(matrix.col_idxs);
  result.cols = last == matrix.col_idxs.end() ? 0 : *last + 1;
  return result;
}

class Shrinking {
 public:
  Shrinking(SoakCase item, const Fails& fails, int most_tries)
      : item_(std::move(item)), fails_(fails), tries_left_(most_tries) {}

  SoakCase run() && {
    bool smaller = true;
    while (smaller && tries_left_ > 0) {
      smaller = options();
      smaller |= columns();
      smaller |= cut(item_.matrix.rows, without_rows);
      smaller |= cut(item_.matrix.nnz(), without_entries);
      smaller |= width();
    }
    return std::move(item_);
  }

 private:
  /// Takes the case if it still fails.
  bool take(SoakCase candidate) {
    if (tries_left_-- <= 0 || !fails_(candidate)) return false;
    item_ = std::move(candidate);
    return true;
  }

  template <class Member, class Value>
  bool set(Member SoakCase::*member, const Value& value) {
    if (item_.*member == value) return false;
    SoakCase candidate = item_;
    candidate.*member = value;
    return take(std::move(candidate));
  }

  bool options() {
    bool smaller = set(&SoakCase::threads, 1);
    smaller |= set(&SoakCase::search, SearchMode::instant);
    smaller |= set(&SoakCase::reorder, ReorderAlgorithm::none);
    if (item_.route != Route::ptx) smaller |= set(&SoakCase::route, Route::rows);
    if (item_.route != Route::panels) smaller |= set(&SoakCase::panel_vectors, 0);
    smaller |= set(&SoakCase::special_values, false);
    smaller |= set(&SoakCase::compiled_ldb, 0);
    smaller |= set(&SoakCase::no_code, false);
    smaller |= set(&SoakCase::ldb, item_.n);
    smaller |= set(&SoakCase::ldc, item_.n);
    return smaller;
  }

  bool columns() {
    return take_matrix(without_empty_columns(item_.matrix)) ||
           take_matrix(without_last_columns(item_.matrix));
  }

  bool take_matrix(CsrMatrix matrix) {
    if (matrix == item_.matrix) return false;
    SoakCase candidate = item_;
    candidate.matrix = std::move(matrix);
    return take(std::move(candidate));
  }

  /// Leaves out [begin, end) of `size` things: halves first, single ones last.
  template <class Without>
  bool cut(std::int64_t size, const Without& without) {
    bool smaller = false;
    for (std::int64_t length = size; length >= 1; length /= 2) {
      for (std::int64_t begin = 0; begin < size && tries_left_ > 0;) {
        const std::int64_t end = std::min(begin + length, size);
        if (take_matrix(without(item_.matrix, begin, end))) {
          size -= end - begin;
          smaller = true;
        } else {
          begin = end;
        }
      }
    }
    return smaller;
  }

  /// Fewer columns of B and C, what lies between rows as it was.
  bool width() {
    bool smaller = false;
    for (std::int64_t less = item_.n / 2; less >= 1; less /= 2) {
      while (item_.n - less >= 1) {
        SoakCase candidate = item_;
        candidate.n -= less;
        candidate.ldb -= less;
        candidate.ldc -= less;
        if (candidate.compiled_ldb > 0) candidate.compiled_ldb -= less;
        if (!take(std::move(candidate))) break;
        smaller = true;
      }
    }
    return smaller;
  }

  SoakCase item_;
  const Fails& fails_;
  int tries_left_;
};

}  // namespace

SoakCase shrink(const SoakCase& item, const Fails& fails, int most_tries) {
  return Shrinking(item, fails, most_tries).run();
}

}  // namespace spjit::soak
