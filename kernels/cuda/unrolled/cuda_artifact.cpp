#include "kernels/cuda/unrolled/cuda_artifact.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "kernels/cuda/unrolled/cuda_patches.hpp"
#include "kernels/cuda/unrolled/cuda_units.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

/// Several tiles of a block have the same threads, whole warps.
void check_threads(const UnrolledProgram& program) {
  const std::int64_t unit = program.tiles_a_block * k_cuda_warp;
  if (program.tiles_a_block == 1 || program.threads % unit == 0) return;
  throw Error(
      fmt::format("CUDA kernel record: {} threads for {} tiles a block; expected a "
                  "multiple of {}",
                  program.threads, program.tiles_a_block, unit));
}

}  // namespace

UnrolledProgram make_program(const KernelPlan& plan, const CudaKernelSpec& spec,
                             std::int64_t arch) {
  UnrolledProgram program;
  program.arch = arch;
  program.rows = plan.rows;
  program.cols = plan.cols;
  program.nnz = plan.nnz();
  program.n = spec.n;
  program.ldb = spec.ldb;
  program.ldc = spec.ldc;
  program.runtime_sizes = spec.tile.runtime_sizes;
  program.layer = spec.layer;
  program.threads = spec.tile.threads();
  program.tiles_a_block = spec.tile.tiles_a_block;
  program.blocks_x = cuda_grid(plan, spec).x;
  return program;
}

nlohmann::json to_json(const UnrolledProgram& program) {
  nlohmann::json json = to_json(static_cast<const CudaProgram&>(program));
  json.update({{"threads", program.threads},
               {"tiles_a_block", program.tiles_a_block},
               {"blocks_x", program.blocks_x}});
  return json;
}

UnrolledProgram read_unrolled_program(const nlohmann::json& json) {
  UnrolledProgram program{read_cuda_program(json, k_cuda_max_leading_dimension)};
  program.threads = read_cuda_integer(json, "threads", 1, k_cuda_max_threads);
  program.tiles_a_block = read_cuda_integer(json, "tiles_a_block", 1, k_cuda_max_tiles_a_block);
  program.blocks_x = read_cuda_integer(json, "blocks_x", 1, program.rows);
  check_threads(program);
  const std::optional<Convolution>& of = program.layer.convolution;
  if (of) {
    const Refusal wrong = convolution_refusal(*of, program.runtime_sizes);
    if (wrong) throw Error("CUDA kernel record: " + wrong.reason());
  }
  if (program.layer.has_tokens() &&
      (program.n1() % k_cuda_warp != 0 || program.shared_bytes() > k_cuda_shared_bytes)) {
    throw Error(
        fmt::format("CUDA kernel record: {} threads for tokens are no whole warps or too "
                    "many",
                    program.threads));
  }
  if (program.blocks_y(program.n) > k_cuda_max_grid_y) {
    throw Error(fmt::format("CUDA kernel record: {} columns are more than {} tiles of {}",
                            program.n, k_cuda_max_grid_y, program.n1()));
  }
  return program;
}

}  // namespace spjit
