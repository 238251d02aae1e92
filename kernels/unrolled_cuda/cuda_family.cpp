#include "kernels/unrolled_cuda/cuda_family.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/gzip.hpp"
#include "base/json_text.hpp"
#include "kernels/kernel_record.hpp"
#include "kernels/unrolled_cuda/cuda_artifact.hpp"
#include "kernels/unrolled_cuda/cuda_choice.hpp"
#include "kernels/unrolled_cuda/cuda_emitter.hpp"
#include "kernels/unrolled_cuda/cuda_executable.hpp"
#include "kernels/unrolled_cuda/cuda_prior.hpp"
#include "kernels/unrolled_cuda/cuda_record.hpp"
#include "kernels/unrolled_cuda/ptx_emitter.hpp"
#include "runtime/cuda/local_gpus.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

using nlohmann::json;

std::int64_t count_in(const json& resources, const char* key) {
  constexpr std::int64_t k_most = std::int64_t{1} << 48;
  return json_integer(resources.at(key), key, 0, k_most);
}

json card_json(const CudaDeviceInfo& limits) {
  return {{"name", limits.name()},
          {"arch", limits.arch},
          {"sms", limits.sms},
          {"l2_bytes", limits.l2_bytes}};
}

json attempts_json(const std::vector<CudaAttempt>& attempts) {
  json list = json::array();
  for (const CudaAttempt& attempt : attempts) {
    list.push_back({{"min_blocks", attempt.min_blocks},
                    {"register_cap", attempt.register_cap},
                    {"registers", attempt.registers},
                    {"spilled_bytes", attempt.spilled_bytes},
                    {"build_ms", attempt.build_ms}});
  }
  return list;
}

json search_json(const CudaChoice& choice, SearchMode mode) {
  json search = {{"ranked_by", k_cuda_prior_name}, {"timed", false}};
  if (!choice.search.entries.empty()) search = to_json(choice.search);
  search["space"] = to_json(choice.space);
  search["mode"] = std::string(to_string(mode));
  return search;
}

json predicted_json(const RegisterPrediction& predicted) {
  return {{"accumulators", predicted.accumulators},
          {"b_in_flight", predicted.b_in_flight},
          {"addressing", predicted.addressing}};
}

json resources_json(const CudaTrace& trace) {
  const CudaAttempt& kept = trace.attempts.back();
  const RegisterPrediction& predicted = trace.choice.chosen.registers;
  return {{"predicted_registers", predicted.total()},
          {"predicted", predicted_json(predicted)},
          {"registers", kept.registers},
          {"register_cap", kept.register_cap},
          {"spilled_bytes", kept.spilled_bytes},
          {"active_blocks", trace.occupancy.active_blocks},
          {"active_warps", trace.occupancy.active_warps},
          {"code_bytes", trace.code_bytes},
          {"estimated_code_bytes", trace.choice.chosen.code_bytes}};
}

double build_ms(const CudaTrace& trace) {
  double total = 0;
  for (const CudaAttempt& attempt : trace.attempts) total += attempt.build_ms;
  return total;
}

/// The members that are known before anything is compiled.
json choice_record(const CudaChoice& choice, const FamilyRequest& request) {
  return {{"card", card_json(std::get<CudaDeviceInfo>(request.device))},
          {"tile", to_json(choice.chosen.tile)},
          {"grouping", to_json(choice.chosen.grouping)},
          {"search", search_json(choice, request.options.policy.search)}};
}

json record_of(const CompiledCuda& compiled, const FamilyRequest& request) {
  const CudaTrace& trace = compiled.trace;
  json record = choice_record(trace.choice, request);
  record.update(
      {{"program", to_json(compiled.program)},
       {"resources", resources_json(trace)},
       {"attempts", attempts_json(trace.attempts)},
       {"compiled_from", trace.compiled_from},
       {"toolchain", trace.toolchain},
       {"units", trace.units},
       {"code_bytes", trace.code_bytes},
       {"note", trace.note},
       {"compile_ms",
        {{"group", trace.choice.group_ms}, {"emit", trace.emit_ms}, {"build", build_ms(trace)}}}});
  return record;
}

Artifact::File file_of(const char* name, std::vector<std::byte> bytes) {
  auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return {name, *owner, owner};
}

KernelInfo info_of(const json& record, const CudaProgram& program) {
  try {
    const json& resources = record.at("resources");
    KernelInfo info;
    CudaKernelInfo cuda;
    info.family = "cuda";
    info.target = Target::parse(fmt::format("sm_{}", program.arch));
    info.device = record.at("device").get<std::string>();
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

std::string UnrolledCudaFamily::timed_on(const FamilyRequest& request) const {
  return find_timing_gpu(request.options.target, std::get<CudaDeviceInfo>(request.device)).product;
}

BuiltKernel UnrolledCudaFamily::build(const BuildRequest& request) const {
  const CompiledCuda compiled = compile_cuda_kernel(request);
  const CudaArtifact& made = compiled.artifact;
  const auto cubin = std::as_bytes(std::span(made.cubin));
  BuiltKernel built;
  built.files.push_back(file_of(k_cubin_file, {cubin.begin(), cubin.end()}));
  built.files.push_back(file_of(k_cuda_file, gzip(made.cuda_source, request.what.cancel)));
  built.files.push_back(file_of(k_ptx_file, gzip(made.ptx, request.what.cancel)));
  built.record = record_of(compiled, request.what);
  built.reason = compiled.trace.choice.reason;
  return built;
}

BuiltKernel UnrolledCudaFamily::explain(const BuildRequest& request) const {
  const CudaChoice choice = choose_cuda_tile(request);
  BuiltKernel built;
  built.reason = choice.reason;
  built.record = choice_record(choice, request.what);
  built.record["code_bytes"] = choice.chosen.code_bytes;
  built.record["resources"] = {{"predicted_registers", choice.chosen.registers.total()},
                               {"predicted", predicted_json(choice.chosen.registers)},
                               {"active_blocks", choice.chosen.occupancy.active_blocks}};
  json& ranked = built.record["search"]["space"]["ranked"] = json::array();
  for (const CudaCandidate& candidate : choice.ranked) {
    ranked.push_back({{"tile", to_string(candidate.tile)}, {"score", candidate.score}});
  }
  return built;
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
