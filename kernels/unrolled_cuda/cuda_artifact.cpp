#include "kernels/unrolled_cuda/cuda_artifact.hpp"

#include <fmt/format.h>

#include <limits>

#include "kernels/unrolled_cuda/cuda_patches.hpp"
#include "kernels/unrolled_cuda/cuda_units.hpp"
#include "plan/convolution.hpp"
#include "plan/problem.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

std::int64_t read_integer(const nlohmann::json& json, const char* name, std::int64_t least,
                          std::int64_t most) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_number_integer()) {
    throw Error(fmt::format("CUDA kernel record: \"{}\" is missing or no integer", name));
  }
  const auto value = found->get<std::int64_t>();
  if (value < least || value > most) {
    throw Error(fmt::format("CUDA kernel record: \"{}\" is {}; expected {} to {}", name, value,
                            least, most));
  }
  return value;
}

bool read_boolean(const nlohmann::json& json, const char* name) {
  const auto found = json.find(name);
  if (found != json.end() && found->is_boolean()) return found->get<bool>();
  throw Error(fmt::format("CUDA kernel record: \"{}\" is missing or neither true nor false", name));
}

Layout read_layout(const nlohmann::json& json, const char* name) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_string()) {
    throw Error(fmt::format("CUDA kernel record: \"{}\" is missing or no text", name));
  }
  const Layout layout = parse_layout(found->get<std::string>());
  if (layout != Layout::panel_major) return layout;
  throw Error(fmt::format("CUDA kernel record: \"{}\" is panel-major", name));
}

/// Several tiles of a block have the same threads, whole warps.
void check_threads(const CudaProgram& program) {
  const std::int64_t unit = program.tiles_a_block * k_cuda_warp;
  if (program.tiles_a_block == 1 || program.threads % unit == 0) return;
  throw Error(
      fmt::format("CUDA kernel record: {} threads for {} tiles a block; expected a "
                  "multiple of {}",
                  program.threads, program.tiles_a_block, unit));
}

}  // namespace

CudaProgram make_program(const KernelPlan& plan, const CudaKernelSpec& spec, std::int64_t arch) {
  CudaProgram program;
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

nlohmann::json to_json(const CudaProgram& program) {
  return {{"version", k_cuda_program_version},
          {"arch", program.arch},
          {"rows", program.rows},
          {"cols", program.cols},
          {"nnz", program.nnz},
          {"n", program.n},
          {"ldb", program.ldb},
          {"ldc", program.ldc},
          {"runtime_sizes", program.runtime_sizes},
          {"epilogue", to_json(program.layer.epilogue)},
          {"b_layout", std::string(to_string(program.layer.b_layout))},
          {"c_layout", std::string(to_string(program.layer.c_layout))},
          {"runtime_values", program.layer.runtime_values},
          {"convolution",
           program.layer.convolution ? to_json(*program.layer.convolution) : nlohmann::json()},
          {"threads", program.threads},
          {"tiles_a_block", program.tiles_a_block},
          {"blocks_x", program.blocks_x}};
}

CudaProgram read_cuda_program(const nlohmann::json& json) {
  if (!json.is_object()) throw Error("CUDA kernel record: \"program\" is missing or no object");
  constexpr std::int64_t k_most = std::numeric_limits<std::int32_t>::max();
  const std::int64_t version = read_integer(json, "version", 0, k_most);
  if (version != k_cuda_program_version) {
    throw Error(fmt::format("CUDA kernel record: version {}; this spjit reads version {}", version,
                            k_cuda_program_version));
  }
  CudaProgram program;
  program.arch = read_integer(json, "arch", 1, 10'000);
  program.rows = read_integer(json, "rows", 1, k_most);
  program.cols = read_integer(json, "cols", 0, k_most);
  program.nnz = read_integer(json, "nnz", 0, std::numeric_limits<std::int64_t>::max());
  program.n = read_integer(json, "n", 1, k_cuda_max_leading_dimension);
  program.layer.b_layout = read_layout(json, "b_layout");
  program.layer.c_layout = read_layout(json, "c_layout");
  const auto convolution = json.find("convolution");
  if (convolution == json.end()) throw Error("CUDA kernel record: \"convolution\" is missing");
  if (!convolution->is_null()) program.layer.convolution = read_convolution(*convolution);
  const bool is_in_rows = program.layer.b_layout == Layout::row_major && !program.layer.convolution;
  const std::int64_t least_ldb = is_in_rows ? program.n : 1;
  const std::int64_t least_ldc = program.layer.has_tokens_of_c() ? program.rows : program.n;
  program.ldb = read_integer(json, "ldb", least_ldb, k_cuda_max_leading_dimension);
  program.ldc = read_integer(json, "ldc", least_ldc, k_cuda_max_leading_dimension);
  program.threads = read_integer(json, "threads", 1, k_cuda_max_threads);
  program.tiles_a_block = read_integer(json, "tiles_a_block", 1, k_cuda_max_tiles_a_block);
  program.blocks_x = read_integer(json, "blocks_x", 1, program.rows);
  check_threads(program);
  program.runtime_sizes = read_boolean(json, "runtime_sizes");
  program.layer.runtime_values = read_boolean(json, "runtime_values");
  const std::string wrong =
      wrong_patches(program.layer, {program.cols, program.n, program.ldb, program.runtime_sizes});
  if (!wrong.empty()) throw Error("CUDA kernel record: " + wrong);
  const auto epilogue = json.find("epilogue");
  if (epilogue == json.end()) throw Error("CUDA kernel record: \"epilogue\" is missing");
  program.layer.epilogue = read_epilogue(*epilogue);
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
