#include "kernels/cuda/dense/dense_cuda_family.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/arithmetic.hpp"
#include "kernels/cuda/cuda_rules.hpp"
#include "kernels/cuda/dense/dense_code.hpp"
#include "kernels/cuda/dense/dense_executable.hpp"
#include "kernels/cuda/launch/cuda_executable.hpp"
#include "kernels/cuda/launch/cuda_matrix.hpp"
#include "kernels/cuda/launch/reading_choice.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

using nlohmann::json;

/// With fewer entries it is the fastest for nothing: it is not even timed.
constexpr double k_too_sparse_to_time = 0.1;
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
  if (program.layer.rules().operation() != Operation::spmm ||
      (is_far(program) && !program.is_far)) {
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

Refusal DenseCudaFamily::refusal(const FamilyRequest& request) const {
  const SearchPolicy& policy = request.options.policy;
  if (Refusal tile = tile_refusal(policy)) return tile;
  const double density = entry_share_of(*request.problem.a);
  if (policy.family.empty() && density < k_too_sparse_to_time) {
    return Refusal(
        fmt::format("{:.1f} % of A are entries; with its zeros it is too long", 100 * density));
  }
  return distance_refusal(request.problem);
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
