#include "kernels/unrolled_cuda/cuda_family.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/gzip.hpp"
#include "kernels/unrolled_cuda/cuda_artifact.hpp"
#include "kernels/unrolled_cuda/cuda_choice.hpp"
#include "kernels/unrolled_cuda/cuda_emitter.hpp"
#include "kernels/unrolled_cuda/cuda_executable.hpp"
#include "kernels/unrolled_cuda/cuda_patches.hpp"
#include "kernels/unrolled_cuda/cuda_record.hpp"
#include "kernels/unrolled_cuda/ptx_emitter.hpp"
#include "kernels/unrolled_cuda/value_stream.hpp"
#include "runtime/cuda/local_gpus.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

using nlohmann::json;

Artifact::File file_of(const char* name, std::vector<std::byte> bytes) {
  auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return {name, *owner, owner};
}

}  // namespace

std::string UnrolledCudaFamily::version() const {
  return fmt::format("{}.{}.{}.{}", k_cuda_program_version, k_cuda_emitter_version,
                     k_ptx_emitter_version, k_cuda_choice_version);
}

std::string UnrolledCudaFamily::refusal(const FamilyRequest& request) const {
  const Problem& problem = request.problem;
  return problem.convolution ? convolution_refusal(*problem.convolution, problem.n.runtime) : "";
}

std::string UnrolledCudaFamily::timed_on(const FamilyRequest& request) const {
  return find_timing_gpu(request.options.target, std::get<CudaDeviceInfo>(request.device)).product;
}

BuiltKernel UnrolledCudaFamily::build(const BuildRequest& request) const {
  const CompiledCuda compiled = compile_cuda_kernel(request);
  const CudaArtifact& made = compiled.artifact;
  const auto cubin = std::as_bytes(std::span(made.cubin));
  std::vector<Artifact::File> files;
  files.push_back(file_of(k_cubin_file, {cubin.begin(), cubin.end()}));
  files.push_back(file_of(k_cuda_file, gzip(made.cuda_source, request.what.cancel)));
  files.push_back(file_of(k_ptx_file, gzip(made.ptx, request.what.cancel)));
  if (request.what.problem.runtime_values) {
    const auto positions = std::as_bytes(std::span(made.positions));
    files.push_back(file_of(k_positions_file, {positions.begin(), positions.end()}));
  }
  BuiltKernel built;
  built.code = std::make_shared<const BuiltFiles>(*this, std::move(files));
  built.record = cuda_record(compiled, request.what);
  built.reason = compiled.choice.reason;
  return built;
}

BuiltKernel UnrolledCudaFamily::explain(const BuildRequest& request) const {
  const CudaChoice choice = choose_cuda_tile(request);
  BuiltKernel built;
  built.reason = choice.reason;
  built.record = cuda_choice_record(choice, request.what);
  built.record["code_bytes"] = choice.chosen.code_bytes;
  built.record["resources"] = {{"predicted_registers", choice.chosen.registers.total()},
                               {"predicted", to_json(choice.chosen.registers)},
                               {"active_blocks", choice.chosen.occupancy.active_blocks}};
  json& ranked = built.record["search"]["space"]["ranked"] = json::array();
  for (const CudaCandidate& candidate : choice.ranked) {
    ranked.push_back({{"tile", to_string(candidate.tile)}, {"score", candidate.score}});
  }
  return built;
}

bool UnrolledCudaFamily::takes_in_place(const Artifact::File& file) const {
  return file.name == k_cubin_file && !is_cubin(file.bytes);
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
  std::vector<std::uint32_t> positions;
  if (program.layer.runtime_values) {
    positions = read_value_positions(artifact.file(k_positions_file), program.nnz);
  }
  LoadedKernel loaded;
  loaded.info = cuda_info(record, program);
  if (const auto* gpu = std::get_if<GpuDevice>(&device)) {
    loaded.executable = CudaExecutable::load(program, image, gpu->ordinal, std::move(positions));
  }
  return loaded;
}

}  // namespace spjit
