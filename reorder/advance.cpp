#include "reorder/advance.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <limits>

#include "base/arithmetic.hpp"

namespace spjit {
namespace {

constexpr std::size_t k_ends = 8;
constexpr std::size_t k_most_choices = 128;

/// Entries before the end of each eighth of the columns.
using Advance = std::array<float, k_ends>;

Advance advance_of(const RowColumns& matrix, std::int32_t row) {
  const auto begin = to_size(matrix.row_ptrs[to_size(row)]);
  const auto end = to_size(matrix.row_ptrs[to_size(row) + 1]);
  const std::span<const std::int32_t> columns = matrix.col_idxs.subspan(begin, end - begin);
  Advance advance{};
  for (std::size_t i = 0; i < k_ends; ++i) {
    const std::int64_t bound =
        matrix.cols * static_cast<std::int64_t>(i + 1) / static_cast<std::int64_t>(k_ends);
    advance[i] = static_cast<float>(std::ranges::lower_bound(columns, bound) - columns.begin());
  }
  return advance;
}

struct RowAdvance {
  std::int32_t row;
  Advance advance;
};

/// Between the least and the greatest of some rows.
class Band {
 public:
  using Rows = std::vector<RowAdvance>::iterator;

  explicit Band(const Advance& first) : least_(first), most_(first) {}

  /// The row that widens it least, the first of several. Precondition: there is one.
  [[nodiscard]] Rows nearest(Rows begin, Rows end) const {
    auto nearest = begin;
    float least = std::numeric_limits<float>::infinity();
    for (auto row = begin; row != end; ++row) {
      const float width = width_with(row->advance);
      if (width < least) {
        least = width;
        nearest = row;
      }
    }
    return nearest;
  }

  void add(const Advance& row) {
    for (std::size_t i = 0; i < k_ends; ++i) {
      least_[i] = std::min(least_[i], row[i]);
      most_[i] = std::max(most_[i], row[i]);
    }
  }

 private:
  /// Its squared width, were the row in it.
  [[nodiscard]] float width_with(const Advance& row) const {
    float sum = 0;
    for (std::size_t i = 0; i < k_ends; ++i) {
      const float width = std::max(most_[i], row[i]) - std::min(least_[i], row[i]);
      sum += width * width;
    }
    return sum;
  }

  Advance least_;
  Advance most_;
};

}  // namespace

std::vector<std::int32_t> rows_by_advance(const RowColumns& matrix,
                                          std::span<const std::int32_t> rows, std::int64_t lanes) {
  std::vector<RowAdvance> left;
  left.reserve(rows.size());
  for (const std::int32_t row : rows) left.push_back({row, advance_of(matrix, row)});
  std::vector<std::int32_t> ordered;
  ordered.reserve(rows.size());
  const auto take = [&](std::vector<RowAdvance>::iterator which) {
    ordered.push_back(which->row);
    left.erase(which);
  };
  while (!left.empty()) {
    Band band(left.front().advance);
    take(left.begin());
    for (std::int64_t lane = 1; lane < lanes && !left.empty(); ++lane) {
      const auto end = left.begin() + std::min<std::ptrdiff_t>(std::ssize(left), k_most_choices);
      const auto nearest = band.nearest(left.begin(), end);
      band.add(nearest->advance);
      take(nearest);
    }
  }
  return ordered;
}

}  // namespace spjit
