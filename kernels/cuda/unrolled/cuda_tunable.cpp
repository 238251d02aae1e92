#include "kernels/cuda/unrolled/cuda_tunable.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>

#include "plan/kernel_plan.hpp"
#include "rankmodel/rank_model.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

/// What compiling may use of a stage's time; the rest is for timing.
constexpr double k_compile_share = 0.7;
constexpr int k_rounds = 16;
/// A launch takes a few microseconds of its own: a sample has many.
constexpr double k_cuda_error_goal = 0.005;

const CudaTunableBuild& cuda_build(const TunableBuild& build) {
  return static_cast<const CudaTunableBuild&>(build);
}

/// The compilers, looked for once. Thread-safe.
class Toolchain {
 public:
  const CudaToolchain& get(const CudaSearchInput& input) {
    std::call_once(once_, [&] {
      CudaToolchainNeeds needs;
      needs.arch = static_cast<int>(input.limits.arch);
      needs.nvrtc = source_of(input.options.policy, k_proxy_source_option) == CudaSource::cuda;
      needs.nvjitlink = true;
      found_ =
          load_cuda_toolchain(needs, found_cuda_libraries({input.options.resources.toolkit_paths}));
    });
    return found_;
  }

 private:
  std::once_flag once_;
  CudaToolchain found_;
};

}  // namespace

CudaKernelImage compile_cuda_image(const CudaSearchInput& input, const CudaCandidate& candidate,
                                   const Cancellation& cancel) {
  const KernelPlan plan =
      build_plan(*input.problem.a, input.groupings.at(candidate.tile.m1, candidate.tile.reorder),
                 std::max<std::int64_t>(input.problem.a->cols, 1), cancel);
  auto built = std::make_shared<const BuiltCuda>(
      build_cuda_kernel(plan, candidate, input.options, input.limits, cancel));
  return {built->artifact.cubin, built->program.blocks_x,
          built->trace.attempts.back().spilled_bytes, built, built->trace.code_bytes};
}

CudaSearchTools compile_only_tools(const CudaSearchInput& input, bool lazy) {
  const auto toolchain = std::make_shared<Toolchain>();
  if (!lazy) toolchain->get(input);
  CudaSearchTools tools;
  tools.compile_proxy = [input, toolchain](const CudaProxy& proxy, const Cancellation& cancel) {
    CudaBuildOptions build;
    build.arch = static_cast<int>(input.limits.arch);
    build.threads = 1;  // as many proxies as there are threads are compiled at once
    build.cancel = cancel;
    return compile_cuda_proxy(proxy, source_of(input.options.policy, k_proxy_source_option),
                              toolchain->get(input), build);
  };
  tools.compile_kernel = [input](const CudaCandidate& candidate, const Cancellation& cancel) {
    return compile_cuda_image(input, candidate, cancel);
  };
  tools.time = [](std::span<const CudaTuningCandidate> candidates, const TuningOptions&) {
    return std::vector<TuningResult>(candidates.size());
  };
  const int threads = input.options.resources.compile_threads;
  tools.compile_threads =
      threads > 0 ? threads : static_cast<int>(std::max(std::thread::hardware_concurrency(), 1U));
  return tools;
}

CudaSearchTools local_cuda_tools(const CudaSearchInput& input, int ordinal, bool lazy) {
  CudaSearchTools tools = compile_only_tools(input, lazy);
  tools.time = [timer = std::make_shared<CudaTimer>(ordinal, input.problem)](
                   std::span<const CudaTuningCandidate> candidates, const TuningOptions& options) {
    return time_cuda_kernels(candidates, options, *timer);
  };
  return tools;
}

CudaTunable::CudaTunable(const CudaSearchInput& input, std::span<const CudaCandidate> ranked,
                         CudaSearchTools tools, const CudaReductions& reductions)
    : input_(input), ranked_(ranked), tools_(std::move(tools)), reductions_(reductions) {}

std::string CudaTunable::ranked_by() const { return spjit::ranked_by(input_.model); }

std::vector<SearchCandidate> CudaTunable::candidates() const {
  std::vector<SearchCandidate> candidates;
  candidates.reserve(ranked_.size());
  for (const CudaCandidate& ranked : ranked_) {
    candidates.push_back({to_string(ranked.tile), ranked.tile.m1, ranked.tile.n1, ranked.score});
  }
  return candidates;
}

TuningTraits CudaTunable::traits() const {
  TuningTraits traits;
  traits.nothing_to_time = input_.problem.a->nnz() == 0;
  traits.stand_ins_decide = true;
  traits.favourite = input_.favourite;
  traits.stand_in_rounds = traits.full_rounds = k_rounds;
  traits.relative_error_goal = k_cuda_error_goal;
  traits.build_share = k_compile_share;
  traits.build_stage = "compiling";
  traits.stand_in_builders = tools_.compile_threads;
  return traits;
}

bool CudaTunable::share_build(std::size_t left, std::size_t right, Fidelity fidelity) const {
  return fidelity == Fidelity::stand_in && reductions_.kernels &&
         share_proxy(ranked_[left], ranked_[right]);
}

std::shared_ptr<const TunableBuild> CudaTunable::build(std::span<const std::size_t> candidates,
                                                       Fidelity fidelity,
                                                       const Cancellation& cancel) {
  auto made = std::make_shared<CudaTunableBuild>();
  try {
    if (fidelity == Fidelity::full) {
      made->kernel = tools_.compile_kernel(ranked_[candidates.front()], cancel);
      made->bytes = made->kernel.cubin.size();
      made->code_bytes = made->kernel.code_bytes;
    } else {
      made->proxy = tools_.compile_proxy(make_proxy(candidates, cancel), cancel);
      made->bytes = made->proxy.cubin.size();
      made->failure = made->proxy.failure;
    }
  } catch (const Error& error) {
    made->failure = error.what();
  }
  return made;
}

std::vector<TuningResult> CudaTunable::time(std::span<const TuningJob> jobs,
                                            const TuningOptions& options) {
  std::vector<CudaTuningCandidate> candidates;
  candidates.reserve(jobs.size());
  for (const TuningJob& job : jobs) {
    const CudaTunableBuild& build = cuda_build(*job.build);
    const std::string& image =
        job.fidelity == Fidelity::full ? build.kernel.cubin : build.proxy.cubin;
    candidates.push_back(
        {to_string(ranked_[job.candidate].tile), std::as_bytes(std::span(image)), launch(job)});
  }
  return tools_.time(candidates, options);
}

std::string CudaTunable::note(const TuningJob& job) const {
  const CudaTunableBuild& build = cuda_build(*job.build);
  const bool full = job.fidelity == Fidelity::full;
  const std::int64_t spilled = full ? build.kernel.spilled_bytes : build.proxy.spilled_bytes;
  std::string of_launch = launch(job).note;
  if (spilled == 0) return of_launch;
  return fmt::format("spills {} bytes a thread{}{}", spilled, of_launch.empty() ? "" : "; ",
                     of_launch);
}

std::shared_ptr<const BuiltCuda> CudaTunable::kernel_of(const TunableBuild* build) {
  return build == nullptr ? nullptr : cuda_build(*build).kernel.built;
}

CudaProxy CudaTunable::make_proxy(std::span<const std::size_t> members,
                                  const Cancellation& cancel) const {
  std::vector<CudaCandidate> served;
  served.reserve(members.size());
  for (const std::size_t member : members) served.push_back(ranked_[member]);
  CudaProxyOptions options;
  options.reduce_blocks = reductions_.blocks;
  options.reduce_iterations = reductions_.iterations;
  const CudaTile& tile = served.front().tile;
  const KernelPlan plan = build_plan(*input_.problem.a, input_.groupings.at(tile.m1, tile.reorder),
                                     std::max<std::int64_t>(input_.problem.a->cols, 1), cancel);
  return make_cuda_proxy(plan, served, input_.limits, options);
}

CudaProxyLaunch CudaTunable::launch(const TuningJob& job) const {
  const CudaCandidate& candidate = ranked_[job.candidate];
  const CudaTunableBuild& build = cuda_build(*job.build);
  if (job.fidelity == Fidelity::stand_in) {
    CudaProxyLaunch launch = launch_of(candidate, build.proxy.registers, input_.limits);
    if (!reductions_.occupancy) {
      launch.dynamic_shared_bytes = shared_bytes_of(candidate.layer, candidate.tile);
    }
    return launch;
  }
  return launch_of(candidate, build.kernel.blocks_x);
}

}  // namespace spjit
