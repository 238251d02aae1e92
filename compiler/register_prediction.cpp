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
  RegisterPrediction prediction;
  std::int64_t longest = 0;  // columns of a tile
  for (std::int64_t i = 0; i < plan.grouping.tiles(); ++i) {
    const PlanSegment segment = plan.segment(i, 0);
    longest = std::max(longest, segment.column_end - segment.column_begin);
    prediction.accumulators =
        std::max<std::int64_t>(prediction.accumulators, std::ssize(plan.tile_rows(i)));
  }
  prediction.prefetched_b =
      std::max(k_least_prefetched, std::min(tile.prefetch_distance + 1, longest));
  prediction.addressing = k_addressing + (tile.runtime_sizes ? k_runtime_sizes : 0);
  return prediction;
}

}  // namespace spjit
