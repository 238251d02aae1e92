#include "bench/search_cost/cuda_way.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <random>
#include <utility>

#include "base/host_cpu.hpp"
#include "bench/gpu/search_tools.hpp"
#include "bench/search_cost/shared_page.hpp"
#include "bench/search_cost/way_options.hpp"
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

/// CudaCostTarget as a child can leave it behind.
struct TargetPage {
  std::array<char, 64> card{};
  std::array<char, 128> toolchain{};
  int ordinal = -1;
  std::array<char, 128> product{};
  std::array<char, 256> problem{};
};

template <std::size_t N>
void put(std::array<char, N>& place, const std::string& text) {
  std::ranges::copy(text.substr(0, N - 1), place.begin());
}

CudaToolchain load_toolchain(const CudaDeviceInfo& limits, bool nvrtc) {
  CudaToolchainNeeds needs;
  needs.arch = static_cast<int>(limits.arch);
  needs.nvrtc = nvrtc;
  needs.nvjitlink = true;
  return load_cuda_toolchain(needs, found_cuda_libraries());
}

void examine(const Target& target, TargetPage& page) {
  const CudaDeviceInfo limits = cuda_device_info_of(target);
  const CudaToolchain toolchain = load_toolchain(limits, true);
  put(page.card, limits.name());
  put(page.toolchain, fmt::format("NVRTC {}, nvJitLink {}", to_string(toolchain.nvrtc->version()),
                                  to_string(toolchain.nvjitlink->version())));
  const TimingGpu gpu = find_timing_gpu(target, limits);
  page.ordinal = gpu.ordinal.value_or(-1);
  put(page.product, gpu.product);
  put(page.problem, gpu.problem);
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
  CudaWay(const CostCase& item, const CudaCostTarget& target, CostWay way,
          const CostSettings& settings, CostReporter& reporter)
      : problem_(problem_of(item)),
        target_(target),
        way_(way),
        settings_(settings),
        reporter_(reporter),
        options_(way_options(way, settings)),
        groupings_(*problem_.a, options_.policy.reorder) {
    options_.target = Target::parse(target.name);
    limits_ = cuda_device_info_of(options_.target);
  }

  WorkReport run() {
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
    const CostProgress progress = reporter_.progress();
    if (progress.compiled == progress.failed) throw Error("no candidate compiled");
    if (target_.ordinal && !trace.timed) {
      throw Error("no candidate could be timed on " + target_.product);
    }
    if (is_full(way_)) return {};
    const std::int64_t whole = std::ranges::count_if(
        trace.entries, [](const SearchTraceEntry& entry) { return entry.full.has_value(); });
    reporter_.say(fmt::format("{} proxies for {} tiles, then whole kernels of {}",
                              progress.compiled - std::min(progress.compiled, whole), candidates,
                              std::max<std::int64_t>(whole, 1)));
    if (const auto kernel = CudaTunable::kernel_of(found.build.get())) {
      WorkReport report;
      report.code_bytes = kernel->trace.code_bytes;
      return report;
    }
    return finish(ranked[trace.chosen]);
  }

 private:
  static Problem problem_of(const CostCase& item) {
    Problem problem;
    problem.a = item.matrix;
    problem.n = item.n;
    return problem;
  }

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

  WorkReport finish(const CudaCandidate& candidate) {
    const KernelPlan plan =
        build_plan(*problem_.a, groupings_.at(candidate.tile.m1, candidate.tile.reorder),
                   std::max<std::int64_t>(problem_.a->cols, 1));
    const BuiltCuda compiled = build_cuda_kernel(plan, candidate, options_, limits_);
    WorkReport report;
    report.code_bytes = compiled.trace.code_bytes;
    return report;
  }

  Problem problem_;
  const CudaCostTarget& target_;
  CostWay way_;
  const CostSettings& settings_;
  CostReporter& reporter_;
  CompileOptions options_;
  CudaDeviceInfo limits_;
  RowGroupings groupings_;
};

}  // namespace

CudaCostTarget examine_cuda_target(const std::string& name) {
  constexpr double k_limit_s = 60;
  const Target target = Target::parse(name);
  const SharedPage<TargetPage> page;
  const ChildRun run = run_in_child(
      [&] {
        examine(target, *page);
        return WorkReport{};
      },
      k_limit_s);
  if (!run.failure.empty()) throw NotSupported(run.failure);
  CudaCostTarget result;
  result.name = name;
  result.card = page->card.data();
  result.toolchain = page->toolchain.data();
  if (page->ordinal >= 0) result.ordinal = page->ordinal;
  result.product = page->product.data();
  result.problem = page->problem.data();
  return result;
}

std::string note_of(const CudaCostTarget& target, CostWay way) {
  const char* from = way == CostWay::full_undivided ? "CUDA C++ undivided through NVRTC"
                     : way == CostWay::full_units   ? "CUDA C++ in units through NVRTC"
                                                    : "PTX in units through nvJitLink";
  if (target.rehearsal) return fmt::format("rehearsed on {}, in no real time", target.product);
  if (target.ordinal && way == CostWay::instant) return from;  // it times nothing anywhere
  if (target.ordinal) return fmt::format("timed on {}; {}", target.product, from);
  return fmt::format("compile part alone, no GPU; {}", from);
}

WorkReport run_cuda_way(const CostCase& item, const CudaCostTarget& target, CostWay way,
                        const CostSettings& settings, CostReporter& reporter) {
  return CudaWay(item, target, way, settings, reporter).run();
}

}  // namespace spjit::bench
