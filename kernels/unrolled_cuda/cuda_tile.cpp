#include "kernels/unrolled_cuda/cuda_tile.hpp"

#include <fmt/format.h>

#include <iterator>

#include "kernels/unrolled_cuda/cuda_patches.hpp"
#include "kernels/unrolled_cuda/cuda_units.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

void check_cuda_range(const char* what, std::int64_t given, std::int64_t least, std::int64_t most) {
  if (given < least || given > most) {
    throw InvalidArgument(
        fmt::format("CUDA kernel: {} is {}; expected {} to {}", what, given, least, most));
  }
}

std::int64_t column_tiles(const CudaTile& tile, std::int64_t n) {
  return (n + tile.n1 - 1) / tile.n1;
}

void check_layer(const KernelPlan& plan, const CudaKernelSpec& spec) {
  const CudaLayer& layer = spec.layer;
  const std::string wrong =
      wrong_patches(layer, {plan.cols, spec.n, spec.ldb, spec.tile.runtime_sizes});
  if (!wrong.empty()) throw InvalidArgument("CUDA kernel: " + wrong);
  const bool is_in_rows = layer.b_layout == Layout::row_major && !layer.convolution;
  const std::int64_t least_ldb = is_in_rows ? spec.n : 1;
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

std::string_view to_string(CudaCap cap) { return cap == CudaCap::device ? "device" : "grid"; }

std::string to_string(const CudaTile& tile) {
  std::string text = fmt::format("rows={} columns={}", tile.m1, tile.n1);
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

CudaGrid cuda_grid(const KernelPlan& plan, const CudaTile& tile, std::int64_t n) {
  return {count_functions(plan), column_tiles(tile, n)};
}

CudaGrid cuda_grid(const KernelPlan& plan, const CudaKernelSpec& spec) {
  CudaGrid grid = cuda_grid(plan, spec.tile, spec.n);
  if (!spec.function_of_block.empty()) grid.x = std::ssize(spec.function_of_block);
  return grid;
}

std::int64_t function_of(const CudaKernelSpec& spec, std::int64_t x) {
  return spec.function_of_block.empty() ? x : spec.function_of_block[static_cast<std::size_t>(x)];
}

void check_cuda_tile(const CudaTile& tile, std::int64_t n) {
  check_cuda_range("m1", tile.m1, 1, k_cuda_max_threads);
  check_cuda_range("n1", tile.n1, 1, k_cuda_max_threads);
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
  for (const std::int32_t function : spec.function_of_block) {
    check_cuda_range("the function of a block", function, 0, count_functions(plan) - 1);
  }
}

}  // namespace spjit
