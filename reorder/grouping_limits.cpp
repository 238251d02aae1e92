#include "reorder/grouping_limits.hpp"

#include <algorithm>

namespace spjit::reorder {
namespace {

// Sums of squares of counts up to 2^31 do not fit 64 bits; past 2^62 all that matters is "too
// much".
constexpr double k_work_max = 4.6e18;

// Most rows are compared in a vectorized scan.
constexpr double k_compares_per_visit = 8;

std::int64_t to_work(double work) { return static_cast<std::int64_t>(std::min(work, k_work_max)); }

}  // namespace

std::int64_t count_shards(std::int64_t work, std::int64_t nnz, std::int64_t tiles,
                          const GroupingLimits& limits) {
  const std::int64_t allowed =
      std::max({limits.exact_work, limits.work_per_nonzero * nnz, std::int64_t{1}});
  const std::int64_t shards = work / allowed + (work % allowed != 0 ? 1 : 0);
  return std::clamp(shards, std::int64_t{1}, std::max(tiles, std::int64_t{1}));
}

std::int64_t estimate_balanced_work(const RowSubset& rows, std::int64_t tiles) {
  double work = 0;
  for (const std::int64_t count : rows.col_counts) {
    const auto nnz = static_cast<double>(count);
    work += nnz * std::min(nnz / 2, static_cast<double>(tiles));
  }
  return to_work(work);
}

std::int64_t estimate_similarity_work(const RowSubset& rows, std::int64_t m1) {
  if (rows.rows() == 0) return 0;
  double visits = 0;
  for (const std::int64_t count : rows.col_counts) {
    visits += static_cast<double>(count) * static_cast<double>(count) / 2;
  }
  const auto row_count = static_cast<double>(rows.rows());
  const double visits_per_tile = visits / row_count * static_cast<double>(m1);
  const double compares = row_count * std::min(row_count / 2, visits_per_tile);
  return to_work(visits + compares / k_compares_per_visit);
}

}  // namespace spjit::reorder
