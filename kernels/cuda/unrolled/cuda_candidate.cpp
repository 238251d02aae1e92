#include "kernels/cuda/unrolled/cuda_candidate.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/arithmetic.hpp"
#include "kernels/cuda/unrolled/cuda_patches.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

/// ptxas moves loads of B up: it keeps about this many elements in flight.
constexpr std::int64_t k_b_in_flight = 5;
/// Of A's values at run time: a pointer, and two loads in flight.
constexpr std::int64_t k_values = 10;
/// Two 64-bit pointers, the stack pointer and return address of the calling convention, the address
/// and temporaries of a store.
constexpr std::int64_t k_addressing = 9;
/// Row strides, and 64-bit addresses of loads on their way.
constexpr std::int64_t k_runtime_sizes = 14;

/// Of tokens: places in shared memory, strides, and tokens on their way.
constexpr std::int64_t k_tokens = 10;
/// Pieces of the GELUs' polynomials on their way, after the loads of B and their addresses.
constexpr std::int64_t k_pieces = 16;

/// Of the epilogue's operands: pointers, and the leading dimension of the residual.
std::int64_t pointer_registers(const Epilogue& epilogue) {
  return (epilogue.scale ? 2 : 0) + (epilogue.bias ? 2 : 0) + (epilogue.residual ? 3 : 0);
}

}  // namespace

double floats_of_b(const CudaCandidate& candidate) noexcept {
  const Workload& work = candidate.work;
  return as_double(b_rows(candidate.layer, work.cols)) *
         as_double(b_columns(candidate.layer, work.n));
}

double floats_of_c(const CudaCandidate& candidate) noexcept {
  return as_double(candidate.work.m) * as_double(candidate.work.n);
}

std::string_view to_string(CudaRule rule) {
  switch (rule) {
    case CudaRule::registers:
      return "registers";
    case CudaRule::code_budget:
      return "code_budget";
    case CudaRule::occupancy:
      return "occupancy";
    case CudaRule::balance:
      return "balance";
  }
  return "?";
}

std::int64_t register_cap(const CudaDeviceInfo& limits, std::int64_t threads,
                          std::int64_t min_blocks) {
  if (threads < 1 || min_blocks < 1) {
    throw InvalidArgument(
        fmt::format("register cap of {} blocks of {} threads; expected at least one of each",
                    min_blocks, threads));
  }
  const std::int64_t warps = (threads + limits.warp_size - 1) / limits.warp_size;
  // Warps are dealt out to the sub-partitions; the one with the most of them decides.
  const std::int64_t parts = limits.sub_partitions;
  const std::int64_t crowded = (warps * min_blocks + parts - 1) / parts;
  const std::int64_t share = limits.registers_per_sm / parts / crowded;
  const std::int64_t of_warp =
      share / limits.register_allocation_unit * limits.register_allocation_unit;
  const std::int64_t checked_warps = (warps + parts - 1) / parts * parts;
  const std::int64_t of_block = limits.registers_per_block / (checked_warps * limits.warp_size);
  const std::int64_t unit = limits.register_allocation_unit / limits.warp_size;
  return std::min(
      {of_warp / limits.warp_size, of_block / unit * unit, limits.registers_per_thread});
}

RegisterPrediction predict_registers(const RowGrouping& grouping, const CudaTile& tile,
                                     const CudaLayer& layer) {
  const Epilogue& epilogue = layer.epilogue;
  RegisterPrediction prediction;
  for (std::size_t i = 0; i + 1 < grouping.tile_ptrs.size(); ++i) {
    const std::int64_t rows = grouping.tile_ptrs[i + 1] - grouping.tile_ptrs[i];
    prediction.accumulators = std::max(prediction.accumulators, rows);
  }
  prediction.b_in_flight = k_b_in_flight + kept_taps(layer) + mask_words(layer);
  if (layer.runtime_values) prediction.values = k_values;
  std::int64_t operands = tile.runtime_sizes ? k_runtime_sizes : 0;
  if (layer.has_tokens_of_b()) {
    operands = k_tokens;  // loads are at constant offsets
  } else if (layer.has_tokens_of_c()) {
    operands = std::max(operands, k_tokens);
  }
  // The number of a tile's barrier.
  if (layer.has_tokens() && tile.tiles_a_block > 1) ++operands;
  operands += pointer_registers(epilogue);
  const bool is_gelu =
      epilogue.activation == Activation::gelu_erf || epilogue.activation == Activation::gelu_tanh;
  prediction.addressing = k_addressing + std::max(operands, is_gelu ? k_pieces : 0);
  return prediction;
}

}  // namespace spjit
