#include "kernels/unrolled_cuda/register_prediction.hpp"

#include <algorithm>

namespace spjit {
namespace {

/// ptxas moves loads of B up: it keeps about this many elements in flight.
constexpr std::int64_t k_b_in_flight = 5;
/// Two 64-bit pointers, the stack pointer and return address of the calling convention, the address
/// and temporaries of a store.
constexpr std::int64_t k_addressing = 9;
/// Row strides, and 64-bit addresses of loads on their way.
constexpr std::int64_t k_runtime_sizes = 14;

}  // namespace

RegisterPrediction predict_registers(const KernelPlan& plan, const CudaTile& tile) {
  std::int64_t rows = 0;
  for (std::int64_t i = 0; i < plan.grouping.tiles(); ++i) {
    rows = std::max<std::int64_t>(rows, std::ssize(plan.tile_rows(i)));
  }
  return predict_registers(rows, tile);
}

RegisterPrediction predict_registers(std::int64_t rows, const CudaTile& tile) {
  RegisterPrediction prediction;
  prediction.accumulators = rows;
  prediction.b_in_flight = k_b_in_flight;
  prediction.addressing = k_addressing + (tile.runtime_sizes ? k_runtime_sizes : 0);
  return prediction;
}

}  // namespace spjit
