#include "kernels/cuda/narrow/narrow_family.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/arithmetic.hpp"
#include "kernels/cuda/launch/cuda_executable.hpp"
#include "kernels/cuda/launch/cuda_matrix.hpp"
#include "kernels/cuda/launch/reading_choice.hpp"
#include "kernels/cuda/narrow/narrow_code.hpp"
#include "kernels/cuda/narrow/narrow_executable.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

using nlohmann::json;

json to_json(const NarrowProgram& program) {
  json object = to_json(static_cast<const CudaProgram&>(program));
  object.update({{"columns", program.columns}, {"far", program.is_far}});
  return object;
}

NarrowProgram read_narrow_program(const json& object) {
  NarrowProgram program{read_cuda_program(object, k_most_reading_distance)};
  program.columns = read_cuda_integer(object, "columns", 1, k_few_cuda_columns);
  program.is_far = read_cuda_boolean(object, "far");
  if (few_columns_for(program.columns) != program.columns ||
      program.layer.rules().operation() != Operation::spmm ||
      (is_far(program) && !program.is_far)) {
    throw Error(
        fmt::format("CUDA kernel record: {} columns, or a convolution, that no narrow "
                    "kernel has",
                    program.columns));
  }
  return program;
}

NarrowProgram narrow_program_of(const FamilyRequest& request) {
  NarrowProgram program;
  fill_in(program, request);
  program.columns = few_columns_for(program.n);
  program.is_far = is_far(program);
  return program;
}

}  // namespace

std::string NarrowFamily::version() const {
  return fmt::format("{}.{}", k_cuda_program_version, k_narrow_cuda_version);
}

Refusal NarrowFamily::refusal(const FamilyRequest& request) const {
  if (Refusal tile = tile_refusal(request.options.policy)) return tile;
  if (Refusal columns = many_columns_refusal(request.problem)) return columns;
  return distance_refusal(request.problem);
}

ReadingCode NarrowFamily::code(const FamilyRequest& request) const {
  const NarrowProgram program = narrow_program_of(request);
  return {.texts = emit_narrow(program),
          .kernels = kernel_names(narrow_widths(program), narrow_kernel_name),
          .threads = k_narrow_threads};
}

ReadingChoice NarrowFamily::choice(const FamilyRequest& request) const {
  const NarrowProgram program = narrow_program_of(request);
  return {
      .program = to_json(program),
      .tile = {{"name", fmt::format("columns={}", program.columns)}, {"columns", program.columns}},
      .reason = fmt::format("rules: n is {}: threads are for entries and rows, not for columns",
                            program.n)};
}

LoadedKernel NarrowFamily::open(const CudaObject& object) const {
  const NarrowProgram program = read_narrow_program(object.program);
  for (const std::string& name : kernel_names(narrow_widths(program), narrow_kernel_name)) {
    check_image(object.image, name, program.arch, k_narrow_threads);
  }
  const std::span<const std::byte> file = object.artifact.file(k_matrix_file);
  const CsrMatrix matrix = read_cuda_matrix(file, program, object.cancel);
  const std::int64_t blocks =
      std::ssize(divide_rows(matrix, program.stage_entries(), program.rows_a_block())) - 1;
  LoadedKernel loaded;
  loaded.info = cuda_info(object.record, program,
                          {k_narrow_threads, blocks, ceil_div(program.n, program.columns)});
  loaded.info.weight_bytes = std::ssize(file);
  if (object.gpu != nullptr) {
    loaded.executable = NarrowExecutable::load(program, object.image, object.gpu->ordinal, matrix);
  }
  return loaded;
}

}  // namespace spjit
