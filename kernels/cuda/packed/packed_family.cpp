#include "kernels/cuda/packed/packed_family.hpp"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "base/arithmetic.hpp"
#include "kernels/cuda/cuda_rules.hpp"
#include "kernels/cuda/launch/cuda_executable.hpp"
#include "kernels/cuda/launch/cuda_matrix.hpp"
#include "kernels/cuda/launch/reading_choice.hpp"
#include "kernels/cuda/packed/packed_code.hpp"
#include "kernels/cuda/packed/packed_executable.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

using nlohmann::json;

bool is_packed_type(DataType type) {
  return type == DataType::f32 || type == DataType::bf16 || type == DataType::f16;
}

json to_json(const PackedProgram& program) {
  json object = to_json(static_cast<const CudaProgram&>(program));
  object.update({{"columns", program.columns},
                 {"far", program.is_far},
                 {"group_rows", program.form.group_rows},
                 {"values", std::string(to_string(program.form.values))}});
  return object;
}

/// Whether numbers of 32 bits find all that A has.
Refusal size_refusal(std::int64_t rows, std::int64_t cols, std::int64_t nnz) {
  const std::int64_t chunks = ceil_div(cols, k_packed_chunk);
  const std::int64_t padded = round_up(rows, k_packed_most_rows);
  if (chunks > 0 && padded > k_most_packed_chunks / chunks) {
    return Refusal(fmt::format("A is {} x {}; it takes up to 2^35 places", rows, cols));
  }
  // A row's chunk has less than a unit that is not full.
  if (nnz / 4 + padded * chunks > std::numeric_limits<std::uint32_t>::max()) {
    return Refusal(fmt::format("A has {} nonzeros; it takes up to 2^33", nnz));
  }
  return Refusal::none();
}

PackedProgram read_packed_program(const json& object) {
  PackedProgram program{read_cuda_program(object, k_most_reading_distance)};
  program.columns = read_cuda_integer(object, "columns", 1, k_few_cuda_columns);
  program.is_far = read_cuda_boolean(object, "far");
  program.form.group_rows = read_cuda_integer(object, "group_rows", 8, k_packed_most_rows);
  program.form.values = parse_data_type(read_cuda_text(object, "values"));
  if (few_columns_for(program.columns) != program.columns ||
      program.layer.rules().operation() != Operation::spmm ||
      k_packed_most_rows % program.form.group_rows != 0 || !is_packed_type(program.form.values) ||
      (is_far(program) && !program.is_far)) {
    throw Error(
        fmt::format("CUDA kernel record: {} columns and groups of {} rows of {}, or a convolution, "
                    "that no packed kernel has",
                    program.columns, program.form.group_rows, to_string(program.form.values)));
  }
  return program;
}

PackedForm form_of(const FamilyRequest& request) {
  const auto& device = std::get<CudaDeviceInfo>(request.device);
  return {.group_rows = packed_group_rows(request.problem.a->rows, device.sms),
          .values = request.problem.numerics.a};
}

PackedProgram packed_program_of(const FamilyRequest& request) {
  PackedProgram program;
  fill_in(program, request);
  program.columns = few_columns_for(program.n);
  program.is_far = is_far(program);
  program.form = form_of(request);
  return program;
}

}  // namespace

std::string PackedFamily::version() const {
  return fmt::format("{}.{}", k_cuda_program_version, k_packed_cuda_version);
}

Refusal PackedFamily::numerics_refusal(const Numerics& numerics) const {
  Numerics rest = numerics;
  if (is_packed_type(rest.a)) rest.a = DataType::f32;
  return beyond_default(rest);
}

Refusal PackedFamily::refusal(const FamilyRequest& request) const {
  if (Refusal tile = tile_refusal(request.options.policy)) return tile;
  if (Refusal columns = many_columns_refusal(request.problem)) return columns;
  const CsrMatrix& a = *request.problem.a;
  if (Refusal size = size_refusal(a.rows, a.cols, a.nnz())) return size;
  return distance_refusal(request.problem);
}

double PackedFamily::bytes_of_a(const FamilyRequest& request) const {
  const PackedForm form = form_of(request);
  return packed_sizes(*request.problem.a, form, request.cancel).bytes(form);
}

ReadingCode PackedFamily::code(const FamilyRequest& request) const {
  const PackedProgram program = packed_program_of(request);
  return {.texts = emit_packed(program),
          .kernels = kernel_names(packed_widths(program), packed_kernel_name),
          .threads = k_packed_threads};
}

ReadingChoice PackedFamily::choice(const FamilyRequest& request) const {
  const PackedProgram program = packed_program_of(request);
  const double bytes = bytes_of_a(request);
  const double of_nonzero = program.nnz > 0 ? bytes / as_double(program.nnz) : 0;
  return {.program = to_json(program),
          .tile = {{"name",
                    fmt::format("columns={} rows={}", program.columns, program.form.group_rows)},
                   {"columns", program.columns},
                   {"rows", program.form.group_rows},
                   {"bytes_of_a", bytes},
                   {"bytes_a_nonzero", of_nonzero}},
          .reason = fmt::format(
              "rules: n is {}; by count A moves {:.2f} bytes a nonzero as bitmaps "
              "and {} values, as CSR {}",
              program.n, of_nonzero, to_string(program.form.values), k_csr_entry_bytes)};
}

LoadedKernel PackedFamily::open(const CudaObject& object) const {
  const PackedProgram program = read_packed_program(object.program);
  for (const std::string& name : kernel_names(packed_widths(program), packed_kernel_name)) {
    check_image(object.image, name, program.arch, k_packed_threads);
  }
  const std::span<const std::byte> file = object.artifact.file(k_matrix_file);
  const CsrMatrix matrix = read_cuda_matrix(file, program, object.cancel);
  const Refusal size = size_refusal(program.rows, program.cols, program.nnz);
  if (size) throw Error("kernel.matrix: " + size.reason());
  LoadedKernel loaded;
  loaded.info = cuda_info(object.record, program,
                          {k_packed_threads, ceil_div(program.rows, program.form.group_rows),
                           ceil_div(program.n, program.columns)});
  loaded.info.numerics.a = program.form.values;
  // In a GPU: the file is A's CSR.
  loaded.info.weight_bytes = static_cast<std::int64_t>(
      packed_sizes(matrix, program.form, object.cancel).bytes(program.form));
  if (object.gpu != nullptr) {
    loaded.executable =
        PackedExecutable::load(program, object.image, object.gpu->ordinal, matrix, object.cancel);
  }
  return loaded;
}

}  // namespace spjit
