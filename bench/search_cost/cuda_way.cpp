#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>

#include "base/host_cpu.hpp"
#include "bench/gpu/search_tools.hpp"
#include "bench/search_cost/way.hpp"
#include "kernels/cuda/unrolled/cuda_builder.hpp"
#include "kernels/cuda/unrolled/cuda_prior.hpp"
#include "kernels/cuda/unrolled/cuda_tile_space.hpp"
#include "kernels/cuda/unrolled/cuda_tunable.hpp"
#include "proxy/search.hpp"
#include "reorder/row_groupings.hpp"
#include "runtime/cuda/cuda_libraries.hpp"
#include "runtime/cuda/local_gpus.hpp"
#include "spjit/error.hpp"

namespace spjit::bench {
namespace {

constexpr std::int64_t k_undivided = std::int64_t{1} << 40;

CudaToolchain load_toolchain(const CudaDeviceInfo& limits, bool nvrtc) {
  CudaToolchainNeeds needs;
  needs.arch = static_cast<int>(limits.arch);
  needs.nvrtc = nvrtc;
  needs.nvjitlink = true;
  return load_cuda_toolchain(needs, found_cuda_libraries());
}

/// std::shuffle draws differently from one standard library to another.
void shuffle(std::vector<CudaCandidate>& candidates, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (std::size_t i = candidates.size(); i > 1; --i) {
    std::swap(candidates[i - 1], candidates[random() % i]);
  }
}

/// One way to one kernel.
class CudaWay {
 public:
  CudaWay(const Problem& problem, const CudaCostTarget& target, CostWay way,
          const CostSettings& settings, CostReporter& reporter)
      : problem_(problem),
        target_(target),
        way_(way),
        settings_(settings),
        reporter_(reporter),
        options_(way_options(way, settings)),
        groupings_(*problem_.a, options_.policy.reorder) {
    options_.target = Target::parse(target.name);
    limits_ = cuda_device_info_of(options_.target);
  }

  std::int64_t run() {
    std::vector<CudaCandidate> ranked = rank();
    if (way_ == CostWay::instant) {
      reporter_.set_candidates(1);
      return finish(ranked.front());
    }
    if (is_full(way_)) shuffle(ranked, settings_.seed);
    if (way_ == CostWay::full_undivided) {
      for (CudaCandidate& candidate : ranked) candidate.tile.unit_nonzeros = k_undivided;
    }
    std::size_t candidates = ranked.size();
    if (way_ == CostWay::ranked) {
      candidates = std::min(candidates, static_cast<std::size_t>(options_.policy.top_k));
    }
    reporter_.set_candidates(candidates);
    const SearchOutcome found = search(ranked);
    const SearchTrace& trace = found.trace;
    const std::int64_t compiled = reporter_.compiled();
    if (compiled == reporter_.failed()) throw Error("no candidate compiled");
    if (target_.ordinal && !trace.timed) throw Error("no candidate could be timed");
    if (is_full(way_)) return 0;
    const std::int64_t whole = std::ranges::count_if(
        trace.entries, [](const SearchTraceEntry& entry) { return entry.full.has_value(); });
    reporter_.say(fmt::format("{} proxies for {} tiles, then whole kernels of {}",
                              compiled - std::min(compiled, whole), candidates,
                              std::max<std::int64_t>(whole, 1)));
    if (const auto kernel = CudaTunable::kernel_of(found.build.get())) {
      return kernel->trace.code_bytes;
    }
    return finish(ranked[trace.chosen]);
  }

 private:
  /// What the rules leave, best first.
  std::vector<CudaCandidate> rank() {
    const CudaTileSpace space =
        enumerate_cuda_tiles(problem_, options_.policy, limits_, groupings_);
    std::vector<CudaCandidate> ranked = rank_by_prior(space.survivors(), limits_);
    if (ranked.empty()) throw Error("no tile fits the device and the code budget");
    return ranked;
  }

  SearchOutcome search(const std::vector<CudaCandidate>& ranked) {
    const CudaSearchInput input{problem_, options_, limits_, groupings_};
    SearchSettings settings;
    settings.mode = options_.policy.search;
    settings.budget_ms = options_.policy.search_budget_ms;
    settings.stages = search_stages(options_.policy.search, options_.policy.top_k, true);
    if (target_.ordinal) {
      CudaSearchTools tools = local_cuda_tools(input, *target_.ordinal);
      if (target_.rehearsal) tools = rehearsal_tools(std::move(tools));
      CudaTunable space(input, ranked, reported(std::move(tools)));
      return spjit::search(space, settings, {});
    }
    CudaTunable space(input, ranked,
                      reported(compile_only_tools(input, load_toolchain(limits_, false))));
    return spjit::search(space, settings, {});
  }

  /// The same tools, with what they do reported.
  CudaSearchTools reported(CudaSearchTools tools) {
    tools.compile_threads = settings_.threads > 0 ? settings_.threads : usable_cpus();
    tools.compile_proxy = [this, compile = tools.compile_proxy](const CudaProxy& proxy,
                                                                const Cancellation& cancel) {
      CompiledCudaProxy made = compile(proxy, cancel);
      reporter_.done(!made.failure.empty());
      return made;
    };
    tools.compile_kernel = [this, compile = tools.compile_kernel](const CudaCandidate& candidate,
                                                                  const Cancellation& cancel) {
      try {
        CudaKernelImage image = compile(candidate, cancel);
        reporter_.done(false);
        return image;
      } catch (...) {
        reporter_.done(true);
        throw;
      }
    };
    if (is_full(way_)) {
      tools.time = [time = tools.time](std::span<const CudaTuningCandidate> candidates,
                                       const TuningOptions& given) {
        return time(candidates, without_drops(given));
      };
    }
    reporter_.begin();
    return tools;
  }

  std::int64_t finish(const CudaCandidate& candidate) {
    const KernelPlan plan =
        build_plan(*problem_.a, groupings_.at(candidate.tile.m1, candidate.tile.reorder),
                   std::max<std::int64_t>(problem_.a->cols, 1));
    return build_cuda_kernel(plan, candidate, options_, limits_).trace.code_bytes;
  }

  const Problem& problem_;
  const CudaCostTarget& target_;
  CostWay way_;
  const CostSettings& settings_;
  CostReporter& reporter_;
  CompileOptions options_;
  CudaDeviceInfo limits_;
  RowGroupings groupings_;
};

}  // namespace

std::int64_t run_cuda_way(const Problem& problem, const CudaCostTarget& target, CostWay way,
                          const CostSettings& settings, CostReporter& reporter) {
  return CudaWay(problem, target, way, settings, reporter).run();
}

}  // namespace spjit::bench
