#include "kernels/cuda/dense/dense_cuda_family.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/arithmetic.hpp"
#include "kernels/cuda/cuda_rules.hpp"
#include "kernels/cuda/dense/dense_code.hpp"
#include "kernels/cuda/dense/dense_executable.hpp"
#include "kernels/cuda/launch/cuda_executable.hpp"
#include "kernels/cuda/launch/cuda_matrix.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

using nlohmann::json;

/// With fewer entries it is the fastest for nothing: it is not even timed.
constexpr double k_too_sparse_to_time = 0.1;
/// From which share of entries on it leaves nothing to unrolled code. Reasoned, not measured: code
/// takes 1.15 to 1.35 instructions a nonzero, this 1.15 to 1.2 an entry of A, zeros included, and
/// its loop stays in the instruction cache (docs/results/gpu.md).
constexpr double k_denser_than_code = 0.85;
/// The same of a loop over the entries. Reasoned: that reads 4 bytes of B a product, of which an SM
/// gets 20 to 30 a cycle from L2 and 64 to 128 from L1, where it does 64 to 128 products of this.
constexpr double k_denser_than_loop = 0.2;
double entry_share_of(const CsrMatrix& a) {
  const double all = as_double(a.rows) * as_double(a.cols);
  return all > 0 ? as_double(a.nnz()) / all : 0;
}

json to_json(const DenseCudaProgram& program) {
  json object = to_json(static_cast<const CudaProgram&>(program));
  object.update({{"tile_rows", program.tile.rows},
                 {"tile_columns", program.tile.columns},
                 {"far", program.is_far}});
  return object;
}

DenseCudaProgram read_dense_program(const json& object) {
  DenseCudaProgram program{read_cuda_program(object, k_most_reading_distance)};
  program.tile = dense_tile_of(read_cuda_integer(object, "tile_rows", 1, k_cuda_max_threads),
                               read_cuda_integer(object, "tile_columns", 1, k_cuda_max_threads));
  program.is_far = read_cuda_boolean(object, "far");
  if (program.layer.convolution || (is_far(program) && !program.is_far)) {
    throw Error("CUDA kernel record: a convolution or distances that no dense kernel has");
  }
  return program;
}

DenseCudaProgram dense_program_of(const FamilyRequest& request) {
  DenseCudaProgram program;
  fill_in(program, request);
  program.tile = dense_tile_for(program.rows, program.n, std::get<CudaDeviceInfo>(request.device));
  program.is_far = is_far(program);
  return program;
}

}  // namespace

std::string DenseCudaFamily::version() const {
  return fmt::format("{}.{}", k_cuda_program_version, k_dense_cuda_version);
}

std::string DenseCudaFamily::refusal(const FamilyRequest& request) const {
  const SearchPolicy& policy = request.options.policy;
  if (std::string tile = tile_refusal(policy); !tile.empty()) return tile;
  const double density = entry_share_of(*request.problem.a);
  if (policy.family.empty() && density < k_too_sparse_to_time) {
    return fmt::format("{:.1f} % of A are entries; with its zeros it is too long", 100 * density);
  }
  return distance_refusal(request.problem);
}

std::string DenseCudaFamily::leaves_to_others(const FamilyRequest& request) const {
  const Problem& problem = request.problem;
  if (problem.n.value <= k_few_cuda_columns) {
    return fmt::format("n is {}: a tile of C would have most of its columns for nothing",
                       problem.n.value);
  }
  const double density = entry_share_of(*problem.a);
  const bool has_code =
      least_unrolled_bytes(*problem.a) <= request.options.policy.code_budget_bytes;
  const double least = has_code ? k_denser_than_code : k_denser_than_loop;
  if (density >= least) return {};
  return fmt::format("{:.1f} % of A are entries; zeros are left out below {:.0f} %", 100 * density,
                     100 * least);
}

ReadingCode DenseCudaFamily::code(const FamilyRequest& request) const {
  const DenseCudaProgram program = dense_program_of(request);
  return {.texts = emit_dense(program),
          .kernels = kernel_names(dense_widths(), dense_kernel_name),
          .threads = program.tile.threads()};
}

ReadingChoice DenseCudaFamily::choice(const FamilyRequest& request) const {
  const DenseCudaProgram program = dense_program_of(request);
  return {.program = to_json(program),
          .tile = {{"name", to_string(program.tile)},
                   {"rows", program.tile.rows},
                   {"columns", program.tile.columns}},
          .reason = "rules: A has too few zeros to leave them out"};
}

LoadedKernel DenseCudaFamily::open(const CudaObject& object) const {
  const DenseCudaProgram program = read_dense_program(object.program);
  for (const std::string& name : kernel_names(dense_widths(), dense_kernel_name)) {
    check_image(object.image, name, program.arch, program.tile.threads());
  }
  const std::span<const std::byte> file = object.artifact.file(k_matrix_file);
  CsrMatrix matrix = read_cuda_matrix(file, program, object.cancel);
  LoadedKernel loaded;
  loaded.info = cuda_info(object.record, program,
                          {program.tile.threads(), ceil_div(program.rows, program.tile.rows),
                           ceil_div(program.n, program.tile.columns)});
  loaded.info.weight_bytes = std::ssize(file);
  if (object.gpu != nullptr) {
    loaded.executable =
        DenseCudaExecutable::load(program, object.image, object.gpu->ordinal, std::move(matrix));
  }
  return loaded;
}

}  // namespace spjit
