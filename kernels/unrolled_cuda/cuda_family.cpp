#include "kernels/unrolled_cuda/cuda_family.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_text.hpp"
#include "kernels/unrolled_cuda/cuda_artifact.hpp"
#include "kernels/unrolled_cuda/cuda_emitter.hpp"
#include "kernels/unrolled_cuda/cuda_executable.hpp"
#include "kernels/unrolled_cuda/ptx_emitter.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

using nlohmann::json;

std::int64_t count_in(const json& resources, const char* key) {
  constexpr std::int64_t k_most = std::int64_t{1} << 48;
  return json_integer(resources.at(key), key, 0, k_most);
}

KernelInfo info_of(const json& record, const CudaProgram& program) {
  try {
    const json& resources = record.at("resources");
    KernelInfo info;
    CudaKernelInfo cuda;
    info.family = "cuda";
    info.target = Target::parse(fmt::format("sm_{}", program.arch));
    info.device = record.at("device").at("product").get<std::string>();
    cuda.arch = static_cast<int>(program.arch);
    info.rows = program.rows;
    info.cols = program.cols;
    info.n = program.n;
    info.ldb = program.ldb;
    info.ldc = program.ldc;
    info.nnz = program.nnz;
    info.runtime_n = program.runtime_sizes;
    info.tile = record.at("tile").at("name").get<std::string>();
    info.reason = record.at("search").at("reason").get<std::string>();
    cuda.compiled_from = record.at("compiled_from").get<std::string>();
    cuda.toolchain = record.at("toolchain").get<std::string>();
    cuda.threads = program.threads;
    cuda.blocks_x = program.blocks_x;
    cuda.blocks_y = program.blocks_y(program.n);
    cuda.predicted_registers = count_in(resources, "predicted_registers");
    cuda.registers = count_in(resources, "registers");
    cuda.spilled_bytes = count_in(resources, "spilled_bytes");
    cuda.active_blocks = count_in(resources, "active_blocks");
    info.code_bytes = count_in(resources, "code_bytes");
    info.note = record.at("note").get<std::string>();
    info.cuda = std::move(cuda);
    return info;
  } catch (const json::exception& error) {
    throw Error(fmt::format("the record is not one of a CUDA kernel: {}", error.what()));
  }
}

}  // namespace

std::string UnrolledCudaFamily::version() const {
  return fmt::format("{}.{}.{}", k_cuda_program_version, k_cuda_emitter_version,
                     k_ptx_emitter_version);
}

std::string UnrolledCudaFamily::refusal(const FamilyRequest& request) const {
  static_cast<void>(request);
  return {};
}

LoadedKernel UnrolledCudaFamily::load(const Artifact& artifact, const json& record,
                                      const Device& device, const Cancellation& cancel) const {
  cancel.check();
  if (!record.is_object() || !record.contains("program")) {
    throw Error(
        "the record of a CUDA kernel is no JSON object with a \"program\"; expected what "
        "Kernel::record() or spjit compile --emit json gave");
  }
  const CudaProgram program = read_cuda_program(record.at("program"));
  const std::span<const std::byte> image = artifact.file(k_cubin_file);
  check_image(image, program);
  LoadedKernel loaded;
  loaded.info = info_of(record, program);
  if (const auto* gpu = std::get_if<GpuDevice>(&device)) {
    loaded.executable = CudaExecutable::load(program, image, gpu->ordinal);
  }
  return loaded;
}

}  // namespace spjit
