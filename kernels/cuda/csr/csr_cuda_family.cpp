#include "kernels/cuda/csr/csr_cuda_family.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/arithmetic.hpp"
#include "kernels/cuda/csr/csr_code.hpp"
#include "kernels/cuda/csr/csr_executable.hpp"
#include "kernels/cuda/launch/cuda_matrix.hpp"
#include "kernels/cuda/launch/cuda_reading.hpp"
#include "kernels/cuda/launch/reading_choice.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

using nlohmann::json;

json to_json(const CsrCudaProgram& program) {
  json object = to_json(static_cast<const CudaProgram&>(program));
  object.update(
      {{"lanes", program.tile.lanes}, {"columns", program.tile.columns}, {"far", program.is_far}});
  return object;
}

bool is_power(std::int64_t value, std::int64_t least, std::int64_t most) {
  for (std::int64_t power = least; power <= most; power *= 2) {
    if (value == power) return true;
  }
  return false;
}

CsrCudaProgram read_csr_program(const json& object) {
  CsrCudaProgram program{read_cuda_program(object, k_most_reading_distance)};
  program.tile.lanes = read_cuda_integer(object, "lanes", 1, k_cuda_warp);
  program.tile.columns = read_cuda_integer(object, "columns", 1, 4);
  program.is_far = read_cuda_boolean(object, "far");
  const bool is_single = !program.layer.has_rows_of_b();
  if (!is_power(program.tile.lanes, 8, k_cuda_warp) || !is_power(program.tile.columns, 1, 4) ||
      (is_single && program.tile.columns != 1) || (is_far(program) && !program.is_far)) {
    throw Error(fmt::format("CUDA kernel record: {} are no lanes and columns of such a layer",
                            to_string(program.tile)));
  }
  return program;
}

CsrCudaProgram csr_program_of(const FamilyRequest& request) {
  CsrCudaProgram program;
  fill_in(program, request);
  program.tile = csr_tile_for(program.layer, program.n);
  program.is_far = is_far(program);
  return program;
}

}  // namespace

std::string CsrCudaFamily::version() const {
  return fmt::format("{}.{}", k_cuda_program_version, k_csr_cuda_version);
}

Refusal CsrCudaFamily::refusal(const FamilyRequest& request) const {
  const Problem& problem = request.problem;
  if (Refusal tile = tile_refusal(request.options.policy)) return tile;
  if (rules_of(problem).has_images() && problem.b_columns() > k_most_csr_pixels) {
    return Refusal(fmt::format("images of {} pixels; it takes up to {}", problem.b_columns(),
                               k_most_csr_pixels));
  }
  return distance_refusal(problem);
}

ReadingCode CsrCudaFamily::code(const FamilyRequest& request) const {
  const CsrCudaProgram program = csr_program_of(request);
  return {.texts = emit_csr(program),
          .kernels = kernel_names(csr_widths(program.layer, program.tile), csr_kernel_name),
          .threads = k_csr_cuda_threads};
}

ReadingChoice CsrCudaFamily::choice(const FamilyRequest& request) const {
  const CsrCudaProgram program = csr_program_of(request);
  return {.program = to_json(program),
          .tile = {{"name", to_string(program.tile)},
                   {"lanes", program.tile.lanes},
                   {"columns", program.tile.columns}}};
}

LoadedKernel CsrCudaFamily::open(const CudaObject& object) const {
  const CsrCudaProgram program = read_csr_program(object.program);
  for (const std::string& name :
       kernel_names(csr_widths(program.layer, program.tile), csr_kernel_name)) {
    check_image(object.image, name, program.arch, k_csr_cuda_threads);
  }
  const std::span<const std::byte> file = object.artifact.file(k_matrix_file);
  const CsrMatrix matrix = read_cuda_matrix(file, program, object.cancel);
  LoadedKernel loaded;
  loaded.info = cuda_info(object.record, program,
                          {k_csr_cuda_threads, ceil_div(program.rows, program.tile.rows_a_block()),
                           ceil_div(program.n, program.tile.width())});
  loaded.info.weight_bytes = std::ssize(file);
  if (object.gpu != nullptr) {
    loaded.executable = CsrCudaExecutable::load(program, object.image, object.gpu->ordinal, matrix);
  }
  return loaded;
}

}  // namespace spjit
