#include "compiler/register_prediction.hpp"

#include <algorithm>

namespace spjit {
namespace {

/// ptxas keeps about this many elements of B in flight even where they are loaded just before use.
constexpr std::int64_t k_least_prefetched = 5;
/// Two 64-bit pointers, the stack pointer and return address of the calling convention, the address
/// and temporaries of a store.
constexpr std::int64_t k_addressing = 9;
/// Row strides, and 64-bit addresses of loads on their way.
constexpr std::int64_t k_runtime_sizes = 14;

}  // namespace

RegisterPrediction predict_registers(const KernelPlan& plan, const CudaTile& tile) {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  for (std::int64_t i = 0; i < plan.grouping.tiles(); ++i) {
    const PlanSegment segment = plan.segment(i, 0);
    columns = std::max(columns, segment.column_end - segment.column_begin);
    rows = std::max<std::int64_t>(rows, std::ssize(plan.tile_rows(i)));
  }
  return predict_registers(rows, columns, tile);
}

RegisterPrediction predict_registers(std::int64_t rows, std::int64_t columns,
                                     const CudaTile& tile) {
  RegisterPrediction prediction;
  prediction.accumulators = rows;
  prediction.prefetched_b =
      std::max(k_least_prefetched, std::min(tile.prefetch_distance + 1, columns));
  prediction.addressing = k_addressing + (tile.runtime_sizes ? k_runtime_sizes : 0);
  return prediction;
}

}  // namespace spjit
