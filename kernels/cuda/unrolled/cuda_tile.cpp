#include "kernels/cuda/unrolled/cuda_tile.hpp"

#include <fmt/format.h>

#include <iterator>

#include "base/arithmetic.hpp"
#include "kernels/cuda/unrolled/cuda_patches.hpp"
#include "kernels/cuda/unrolled/cuda_units.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

void check_cuda_range(const char* what, std::int64_t given, std::int64_t least, std::int64_t most) {
  if (given < least || given > most) {
    throw InvalidArgument(
        fmt::format("CUDA kernel: {} is {}; expected {} to {}", what, given, least, most));
  }
}

std::int64_t column_tiles(const CudaTile& tile, std::int64_t n) { return ceil_div(n, tile.n1); }

void check_layer(const KernelPlan& plan, const CudaKernelSpec& spec) {
  const CudaLayer& layer = spec.layer;
  const Refusal wrong =
      wrong_patches(layer, {plan.cols, spec.n, spec.ldb}, spec.tile.runtime_sizes);
  if (wrong) throw InvalidArgument("CUDA kernel: " + wrong.reason());
  const std::int64_t least_ldb = layer.has_rows_of_b() ? spec.n : 1;
  const std::int64_t least_ldc = layer.has_tokens_of_c() ? plan.rows : spec.n;
  check_cuda_range("ldb", spec.ldb, least_ldb, k_cuda_max_leading_dimension);
  check_cuda_range("ldc", spec.ldc, least_ldc, k_cuda_max_leading_dimension);
  if (layer.b_layout == Layout::panel_major || layer.c_layout == Layout::panel_major) {
    throw InvalidArgument("CUDA kernel: B or C is panel-major; expected rows or tokens");
  }
  if (layer.has_tokens() && (spec.tile.n1 % k_cuda_warp != 0 || spec.runtime_threads)) {
    throw InvalidArgument(
        fmt::format("CUDA kernel: n1 is {}{} for tokens; expected a multiple of {} threads",
                    spec.tile.n1, spec.runtime_threads ? " at most" : "", k_cuda_warp));
  }
  check_cuda_range("bytes of shared memory", shared_bytes_of(layer, spec.tile), 0,
                   k_cuda_shared_bytes);
}

}  // namespace

CudaStage stage_of(const CudaLayer& layer, std::int64_t n1) {
  if (!layer.has_tokens()) return {};
  constexpr std::int64_t k_wide = 32;
  CudaStage stage;
  stage.features = n1 <= 4 * k_cuda_warp ? k_wide : n1 <= 8 * k_cuda_warp ? k_wide / 2 : k_wide / 4;
  stage.step = n1 / stage.features;
  stage.pitch = n1 + k_cuda_warp / stage.features;
  stage.bytes = stage.features * stage.pitch * std::int64_t{sizeof(float)};
  return stage;
}

std::int64_t shared_bytes_of(const CudaLayer& layer, const CudaTile& tile) {
  return stage_of(layer, tile.n1).bytes * tile.tiles_a_block;
}

std::string_view to_string(CudaCap cap) { return cap == CudaCap::device ? "device" : "grid"; }

std::string to_string(const CudaTile& tile) {
  std::string text = fmt::format("rows={} columns={}", tile.m1, tile.n1);
  if (tile.tiles_a_block != 1) text += fmt::format(" tiles={}", tile.tiles_a_block);
  if (tile.reorder != CudaTile{}.reorder) {
    text += fmt::format(" reorder={}", to_string(tile.reorder));
  }
  if (tile.cap != CudaTile{}.cap) text += fmt::format(" cap={}", to_string(tile.cap));
  if (tile.unit_nonzeros != CudaTile{}.unit_nonzeros) {
    text += fmt::format(" unit={}", tile.unit_nonzeros);
  }
  if (tile.runtime_sizes) text += " run-time n";
  return text;
}

CudaGrid cuda_grid(std::int64_t row_tiles, const CudaTile& tile, std::int64_t n) {
  return {ceil_div(row_tiles, tile.tiles_a_block), column_tiles(tile, n)};
}

CudaGrid cuda_grid(const KernelPlan& plan, const CudaTile& tile, std::int64_t n) {
  return cuda_grid(count_functions(plan), tile, n);
}

CudaGrid cuda_grid(const KernelPlan& plan, const CudaKernelSpec& spec) {
  return cuda_grid(launched_tiles(plan, spec), spec.tile, spec.n);
}

std::int64_t launched_tiles(const KernelPlan& plan, const CudaKernelSpec& spec) {
  return spec.function_of_tile.empty() ? count_functions(plan) : std::ssize(spec.function_of_tile);
}

std::int64_t function_of(const CudaKernelSpec& spec, std::int64_t tile) {
  return spec.function_of_tile.empty() ? tile : spec.function_of_tile[to_size(tile)];
}

void check_cuda_tile(const CudaTile& tile, std::int64_t n) {
  check_cuda_range("m1", tile.m1, 1, k_cuda_max_threads);
  check_cuda_range("n1", tile.n1, 1, k_cuda_max_threads);
  check_cuda_range("tiles a block", tile.tiles_a_block, 1, k_cuda_max_tiles_a_block);
  check_cuda_range("threads a block", tile.threads(), 1, k_cuda_max_threads);
  if (tile.tiles_a_block > 1 && tile.n1 % k_cuda_warp != 0) {
    throw InvalidArgument(
        fmt::format("CUDA kernel: n1 is {} for {} tiles a block; expected a multiple of {} threads",
                    tile.n1, tile.tiles_a_block, k_cuda_warp));
  }
  check_cuda_range("nonzeros a unit", tile.unit_nonzeros, 1, std::int64_t{1} << 40);
  check_cuda_range("n", n, 1, k_cuda_max_leading_dimension);
  check_cuda_range("column tiles (n / n1)", column_tiles(tile, n), 1, k_cuda_max_grid_y);
}

void check_cuda_spec(const KernelPlan& plan, const CudaKernelSpec& spec) {
  if (plan.k_blocks != 1) {
    throw InvalidArgument(fmt::format(
        "CUDA kernel: the plan has {} blocks of columns; build it with k_block = {} for one",
        plan.k_blocks, plan.cols));
  }
  if (plan.rows < 1) {
    throw InvalidArgument("CUDA kernel: the matrix has no rows; there is nothing to compute");
  }
  check_cuda_range("rows", plan.rows, 1, k_cuda_max_rows);
  check_cuda_range("columns of the matrix", plan.cols, 0, k_cuda_max_rows);
  const CudaTile& tile = spec.tile;
  check_cuda_tile(tile, spec.n);
  check_cuda_range("rows a tile of the plan", plan.grouping.m1, 1, tile.m1);
  check_cuda_range("min blocks", spec.min_blocks, 1, k_cuda_max_threads);
  check_layer(plan, spec);
  for (const std::int32_t function : spec.function_of_tile) {
    check_cuda_range("the function of a tile", function, 0, count_functions(plan) - 1);
  }
}

}  // namespace spjit
