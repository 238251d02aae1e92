#include "kernels/cuda/unrolled/cuda_family.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "kernels/built_kernel.hpp"
#include "kernels/cuda/cuda_rules.hpp"
#include "kernels/cuda/launch/cuda_executable.hpp"
#include "kernels/cuda/unrolled/cuda_artifact.hpp"
#include "kernels/cuda/unrolled/cuda_choice.hpp"
#include "kernels/cuda/unrolled/cuda_emitter.hpp"
#include "kernels/cuda/unrolled/cuda_patches.hpp"
#include "kernels/cuda/unrolled/cuda_ranking.hpp"
#include "kernels/cuda/unrolled/cuda_record.hpp"
#include "kernels/cuda/unrolled/ptx_emitter.hpp"
#include "kernels/cuda/unrolled/unrolled_executable.hpp"
#include "kernels/cuda/unrolled/value_stream.hpp"

namespace spjit {

using nlohmann::json;

std::string UnrolledCudaFamily::version() const {
  return fmt::format("{}.{}.{}.{}", k_cuda_program_version, k_cuda_emitter_version,
                     k_ptx_emitter_version, k_cuda_choice_version);
}

std::span<const NamedOption* const> UnrolledCudaFamily::options() const noexcept {
  static constexpr std::array<const NamedOption*, 4> k_options = {
      &k_m1_option, &k_n1_option, &k_proxy_source_option, &k_unit_option};
  return k_options;
}

Refusal UnrolledCudaFamily::refusal(const FamilyRequest& request) const {
  const Problem& problem = request.problem;
  // Before any work: a product is one instruction.
  const std::int64_t bytes = least_unrolled_bytes(*problem.a);
  const std::int64_t budget = request.options.policy.code_budget_bytes;
  if (bytes > budget) {
    return Refusal(fmt::format("at least {} bytes of code for {} nonzeros, the budget is {}", bytes,
                               problem.a->nnz(), budget));
  }
  if (problem.n.value > k_cuda_max_grid_y * k_cuda_max_threads) {
    return Refusal(fmt::format("n is {}; it takes up to {}", problem.n.value,
                               k_cuda_max_grid_y * k_cuda_max_threads));
  }
  if (std::max(problem.ldb(), problem.ldc()) > k_cuda_max_leading_dimension) {
    return Refusal(fmt::format("ldb is {} and ldc {}; it takes up to {}", problem.ldb(),
                               problem.ldc(), k_cuda_max_leading_dimension));
  }
  return problem.convolution ? convolution_refusal(*problem.convolution, problem.n.runtime)
                             : Refusal::none();
}

std::shared_ptr<const LoadedRankModel> UnrolledCudaFamily::rank_model(
    const CompileOptions& options) const {
  return cuda_rank_model(options);
}

BuiltKernel UnrolledCudaFamily::build(const BuildRequest& request) const {
  try {
    return build_code(request);
  } catch (const Declined& declined) {
    BuiltKernel none;
    none.declined = Refusal(declined.what());
    return none;
  }
}

BuiltKernel UnrolledCudaFamily::build_code(const BuildRequest& request) const {
  const CompiledCuda compiled = compile_cuda_kernel(request);
  const CudaArtifact& made = compiled.artifact;
  std::vector<Artifact::File> files =
      cuda_files(made.cubin, {made.cuda_source, made.ptx}, request.what);
  if (request.what.problem.runtime_values) {
    const auto positions = std::as_bytes(std::span(made.positions));
    files.push_back(owned_file(k_positions_file, {positions.begin(), positions.end()}));
  }
  BuiltKernel built;
  built.code = std::make_shared<const BuiltFiles>(*this, std::move(files));
  built.record = cuda_record(compiled, request.what);
  built.reason = compiled.choice.reason;
  return built;
}

BuiltKernel UnrolledCudaFamily::explain(const BuildRequest& request) const {
  try {
    return explain_choice(choose_cuda_tile(request), request.what);
  } catch (const Declined& declined) {
    BuiltKernel none;
    none.declined = Refusal(declined.what());
    return none;
  }
}

BuiltKernel UnrolledCudaFamily::explain_choice(const CudaChoice& choice,
                                               const FamilyRequest& what) {
  BuiltKernel built;
  built.reason = choice.reason;
  built.record = cuda_choice_record(choice, what);
  built.record["code_bytes"] = choice.chosen.code_bytes;
  built.record["resources"] = {{"predicted_registers", choice.chosen.registers.total()},
                               {"predicted", to_json(choice.chosen.registers)},
                               {"active_blocks", choice.chosen.occupancy.active_blocks}};
  json space = to_json(choice.space);
  space["ranked"] = json::array();
  for (const CudaCandidate& candidate : choice.ranked) {
    space["ranked"].push_back({{"tile", to_string(candidate.tile)}, {"score", candidate.score}});
  }
  built.record["search"]["space"] = std::move(space);
  return built;
}

LoadedKernel UnrolledCudaFamily::open(const CudaObject& object) const {
  const UnrolledProgram program = read_unrolled_program(object.program);
  check_image(object.image, k_cuda_kernel_name, program.arch, program.threads);
  std::vector<std::uint32_t> positions;
  if (program.layer.runtime_values) {
    positions = read_value_positions(object.artifact.file(k_positions_file), program.nnz);
  }
  LoadedKernel loaded;
  loaded.info = cuda_info(object.record, program,
                          {program.threads, program.blocks_x, program.blocks_y(program.n)});
  loaded.info.reads_a = false;
  if (object.gpu != nullptr) {
    loaded.executable = UnrolledCudaExecutable::load(program, object.image, object.gpu->ordinal,
                                                     std::move(positions));
  }
  return loaded;
}

}  // namespace spjit
