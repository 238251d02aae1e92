#include "kernels/host/operands/row_order.hpp"

#include <functional>
#include <iterator>
#include <numeric>

#include "reorder/advance.hpp"

namespace spjit {
namespace {

// Rows of equal length that advance alike fill a group best (rows_by_advance()): 384 x 384 at 80
// and 90 %, AVX2: 4 and 5 % fewer steps than sorted by length alone, with 1536 columns 1 %. But so
// do neighbours where those have like columns: matrices of meshes and networks need up to twice as
// many steps with all rows sorted (bcsstk13, facebook_combined). So of each 512 rows that order is
// taken which has fewer steps: by advance, or each 128 neighbours by length.
constexpr std::size_t k_neighbours = 128;

std::int64_t entries_of_row(const CsrView& matrix, std::int32_t row) {
  return matrix.row_ptrs[to_size(row) + 1] - matrix.row_ptrs[to_size(row)];
}

void sort_by_length(const CsrView& matrix, std::span<std::int32_t> rows) {
  std::ranges::stable_sort(rows, std::ranges::greater(),
                           [&](std::int32_t row) { return entries_of_row(matrix, row); });
}

}  // namespace

OrderedRows order_rows(const CsrView& matrix, std::int64_t lanes, const StepsOfRows& steps_of,
                       const Cancellation& cancel, std::int64_t together) {
  OrderedRows ordered;
  ordered.rows.resize(to_size(matrix.rows));
  std::iota(ordered.rows.begin(), ordered.rows.end(), 0);
  CancelPace pace(cancel);
  for (std::span<std::int32_t> left = ordered.rows; !left.empty();) {
    const std::span<std::int32_t> some = left.first(std::min(left.size(), to_size(together)));
    left = left.subspan(some.size());
    std::vector<std::int32_t> by_length(some.begin(), some.end());
    sort_by_length(matrix, by_length);
    const std::vector<std::int32_t> by_advance =
        rows_by_advance({matrix.row_ptrs, matrix.col_idxs, matrix.cols}, by_length, lanes);
    for (std::size_t first = 0; first < some.size(); first += k_neighbours) {
      sort_by_length(matrix, some.subspan(first, std::min(some.size() - first, k_neighbours)));
    }
    const std::int64_t steps = steps_of(some);
    const std::int64_t fewer = std::min(steps, steps_of(by_advance));
    if (fewer < steps) std::ranges::copy(by_advance, some.begin());
    ordered.steps += fewer;
    pace.spend(std::ssize(some) + 2 * steps * lanes);
  }
  return ordered;
}

}  // namespace spjit
