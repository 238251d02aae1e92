#include "kernels/cuda/launch/cuda_program.hpp"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_text.hpp"
#include "plan/convolution.hpp"
#include "plan/problem.hpp"
#include "spjit/error.hpp"

namespace spjit {

using nlohmann::json;

namespace {

Layout read_layout(const json& object, const char* name) {
  const Layout layout = parse_layout(read_cuda_text(object, name));
  if (layout != Layout::panel_major) return layout;
  throw Error(fmt::format("CUDA kernel record: \"{}\" is panel-major", name));
}

std::int64_t count_in(const json& resources, const char* key) {
  constexpr std::int64_t k_most = std::int64_t{1} << 48;
  return json_integer(resources.at(key), key, 0, k_most);
}

CudaKernelInfo gpu_info(const json& record, const CudaProgram& program,
                        const CudaLaunchSize& launch) {
  const json& resources = record.at("resources");
  CudaKernelInfo cuda;
  cuda.arch = static_cast<int>(program.arch);  // read_cuda_program(): at most 10 000
  cuda.compiled_from = record.at("compiled_from").get<std::string>();
  cuda.toolchain = record.at("toolchain").get<std::string>();
  cuda.threads = launch.threads;
  cuda.blocks_x = launch.blocks_x;
  cuda.blocks_y = launch.blocks_y;
  cuda.predicted_registers = count_in(resources, "predicted_registers");
  cuda.registers = count_in(resources, "registers");
  cuda.spilled_bytes = count_in(resources, "spilled_bytes");
  cuda.active_blocks = count_in(resources, "active_blocks");
  return cuda;
}

}  // namespace

std::int64_t read_cuda_integer(const json& object, const char* name, std::int64_t least,
                               std::int64_t most) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number_integer()) {
    throw Error(fmt::format("CUDA kernel record: \"{}\" is missing or no integer", name));
  }
  const auto value = found->get<std::int64_t>();
  if (value < least || value > most) {
    throw Error(fmt::format("CUDA kernel record: \"{}\" is {}; expected {} to {}", name, value,
                            least, most));
  }
  return value;
}

bool read_cuda_boolean(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found != object.end() && found->is_boolean()) return found->get<bool>();
  throw Error(fmt::format("CUDA kernel record: \"{}\" is missing or neither true nor false", name));
}

std::string read_cuda_text(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found != object.end() && found->is_string()) return found->get<std::string>();
  throw Error(fmt::format("CUDA kernel record: \"{}\" is missing or no text", name));
}

json to_json(const CudaProgram& program) {
  return {
      {"version", k_cuda_program_version},
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
      {"convolution", program.layer.convolution ? to_json(*program.layer.convolution) : json()}};
}

CudaProgram read_cuda_program(const json& object, std::int64_t most_ld) {
  if (!object.is_object()) throw Error("CUDA kernel record: \"program\" is missing or no object");
  constexpr std::int64_t k_most = std::numeric_limits<std::int32_t>::max();
  const std::int64_t version = read_cuda_integer(object, "version", 0, k_most);
  if (version != k_cuda_program_version) {
    throw Error(fmt::format("CUDA kernel record: version {}; this spjit reads version {}", version,
                            k_cuda_program_version));
  }
  CudaProgram program;
  program.arch = read_cuda_integer(object, "arch", 1, 10'000);
  program.rows = read_cuda_integer(object, "rows", 1, k_most);
  program.cols = read_cuda_integer(object, "cols", 0, k_most);
  program.nnz = read_cuda_integer(object, "nnz", 0, std::numeric_limits<std::int64_t>::max());
  program.n = read_cuda_integer(object, "n", 1, k_most);
  program.layer.b_layout = read_layout(object, "b_layout");
  program.layer.c_layout = read_layout(object, "c_layout");
  const auto convolution = object.find("convolution");
  if (convolution == object.end()) throw Error("CUDA kernel record: \"convolution\" is missing");
  if (!convolution->is_null()) program.layer.convolution = read_convolution(*convolution);
  const std::int64_t least_ldb = program.layer.has_rows_of_b() ? program.n : 1;
  const std::int64_t least_ldc = program.layer.has_tokens_of_c() ? program.rows : program.n;
  program.ldb = read_cuda_integer(object, "ldb", least_ldb, most_ld);
  program.ldc = read_cuda_integer(object, "ldc", least_ldc, most_ld);
  program.runtime_sizes = read_cuda_boolean(object, "runtime_sizes");
  program.layer.runtime_values = read_cuda_boolean(object, "runtime_values");
  const auto epilogue = object.find("epilogue");
  if (epilogue == object.end()) throw Error("CUDA kernel record: \"epilogue\" is missing");
  program.layer.epilogue = read_epilogue(*epilogue);
  const Refusal wrong = wrong_image(program.layer, {program.cols, program.n, program.ldb});
  if (wrong) throw Error("CUDA kernel record: " + wrong.reason());
  return program;
}

KernelInfo cuda_info(const json& record, const CudaProgram& program, const CudaLaunchSize& launch) {
  try {
    KernelInfo info;
    info.family = record.at("family").get<std::string>();
    info.target = Target::parse(fmt::format("sm_{}", program.arch));
    info.device = record.at("device").get<std::string>();
    info.rows = program.rows;
    info.cols = program.cols;
    info.n = program.n;
    info.ldb = program.ldb;
    info.ldc = program.ldc;
    info.nnz = program.nnz;
    info.runtime_n = program.runtime_sizes;
    info.epilogue = program.layer.epilogue;
    info.b_layout = program.layer.b_layout;
    info.c_layout = program.layer.c_layout;
    info.runtime_values = program.layer.runtime_values;
    info.convolution = program.layer.convolution;
    info.any_layout = false;
    info.most_leading_dimension = program.runtime_sizes ? k_cuda_max_leading_dimension : 0;
    info.tile = record.at("tile").at("name").get<std::string>();
    info.reason = record.at("search").at("reason").get<std::string>();
    info.code_bytes = count_in(record.at("resources"), "code_bytes");
    info.note = record.at("note").get<std::string>();
    info.cuda = gpu_info(record, program, launch);
    return info;
  } catch (const json::exception& error) {
    throw Error(
        fmt::format("the record is not one of a CUDA kernel: {}", json_problem(error.what())));
  }
}

}  // namespace spjit
