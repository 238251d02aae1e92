#pragma once

/// @file
/// Searches on a GPU that nobody has: compilers and a timer that are made up.

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/unrolled/cuda_choice.hpp"
#include "kernels/cuda/unrolled/cuda_tunable.hpp"
#include "proxy/search.hpp"
#include "tests/support/cuda/cuda_proxy_cases.hpp"
#include "tests/support/host/host_tuning_testing.hpp"

namespace spjit::testing_support {

[[nodiscard]] inline std::string text_of(std::span<const std::byte> image) {
  std::string text;
  for (const std::byte byte : image) text += static_cast<char>(byte);
  return text;
}

/// Input of a search: five candidates of two M1, best first, on a device of a few SMs.
class MadeUpSearch {
 public:
  MadeUpSearch() : MadeUpSearch(cuda_problem(random_matrix(320, 60, 0.8), 256)) {}
  explicit MadeUpSearch(Problem of)
      : problem(std::move(of)), groupings(*problem.a, ReorderAlgorithm::balanced) {
    options.policy.reorder = ReorderAlgorithm::balanced;
    options.policy.search = SearchMode::proxy;
    for (const auto& [m1, n1] : {std::pair{8, 32}, std::pair{16, 64}, std::pair{8, 128},
                                 std::pair{16, 32}, std::pair{8, 256}}) {
      const ProxyCase one =
          proxy_case(*problem.a, m1, problem.n.value, {n1},
                     {.ldb = problem.ldb(), .ldc = problem.ldc(), .limits = limits});
      ranked.push_back(one.candidates.front());
      ranked.back().score = -static_cast<double>(ranked.size());
    }
  }

  [[nodiscard]] CudaSearchInput input() { return {problem, options, limits, groupings}; }
  [[nodiscard]] std::string name(std::size_t candidate) const {
    return to_string(ranked[candidate].tile);
  }

  Problem problem;
  CompileOptions options;
  CudaDeviceInfo limits = cuda_limits(4);
  RowGroupings groupings;
  std::vector<CudaCandidate> ranked;
};

/// A search as `options.policy.search` says; without finalists unless they are asked for.
[[nodiscard]] inline SearchOutcome search_cuda(const CudaSearchInput& input,
                                               std::span<const CudaCandidate> ranked,
                                               const CudaSearchTools& tools,
                                               const CudaReductions& reductions = {},
                                               std::size_t finalists = 0,
                                               const CompileContext& context = {}) {
  const SearchPolicy& policy = input.options.policy;
  CudaTunable space(input, ranked, tools, reductions);
  SearchSettings settings;
  settings.mode = policy.search;
  settings.budget_ms = policy.search_budget_ms;
  settings.stages = search_stages(policy.search, policy.top_k, space.traits().stand_ins_pay);
  settings.stages.finalists = finalists;
  return search(space, settings, context);
}

[[nodiscard]] inline SearchTrace search_cuda_tile(const CudaSearchInput& input,
                                                  std::span<const CudaCandidate> ranked,
                                                  const CudaSearchTools& tools,
                                                  const CudaReductions& reductions = {},
                                                  const CompileContext& context = {}) {
  return search_cuda(input, ranked, tools, reductions, 0, context).trace;
}

/// The choice of a compilation, with searches as a Compiler makes them.
[[nodiscard]] inline CudaChoice choice_of(const Problem& problem, const CompileOptions& options,
                                          const CudaDeviceInfo& limits) {
  const DeviceInfo device = limits;
  const Cancellation never;
  const FamilyRequest what{problem, options, device, never};
  const CompileContext context;
  BuildRequest request{what, context};
  request.search = [&](TunableSpace& space, std::chrono::steady_clock::time_point begin) {
    return search(space, settings_of(options.policy, space, begin), context);
  };
  return choose_cuda_tile(request);
}

/// Tools that log what they are asked for. A proxy's image is "proxy 8" for an M1 of 8, a kernel's
/// "kernel" and its tile; a candidate's time is the one of its name, 100 us without.
class MadeUpTools {
 public:
  [[nodiscard]] CudaSearchTools tools(int threads = 1) {
    CudaSearchTools made;
    made.compile_proxy = [this](const CudaProxy& proxy, const Cancellation& cancel) {
      const std::lock_guard lock(mutex_);
      proxies.push_back(proxy);
      deadlines.push_back(cancel.deadline);
      CompiledCudaProxy compiled;
      compiled.registers = 24;
      compiled.spilled_bytes = spilled_bytes;
      compiled.cubin = "proxy " + std::to_string(proxy.spec.tile.m1);
      if (const auto failure = proxy_failures.find(proxy.spec.tile.m1);
          failure != proxy_failures.end()) {
        compiled = {};
        compiled.failure = failure->second;
      }
      return compiled;
    };
    made.compile_kernel = [this](const CudaCandidate& candidate, const Cancellation& cancel) {
      const std::string tile = to_string(candidate.tile);
      kernels.push_back(tile);
      kernel_deadlines.push_back(cancel.deadline);
      if (tile == failing_kernel) throw CompileFailed("no registers left");
      auto built = std::make_shared<BuiltCuda>();
      built->trace.note = "built " + tile;
      return CudaKernelImage{"kernel " + tile, candidate.row_tiles + 2, spilled_bytes, built};
    };
    made.time = [this](std::span<const CudaTuningCandidate> of, const TuningOptions& options) {
      candidates.assign(of.begin(), of.end());
      images.clear();
      for (const CudaTuningCandidate& candidate : of) images.push_back(text_of(candidate.image));
      const bool full = !images.empty() && images.front().starts_with("kernel");
      tuning_budget_ms = options.budget_ms;
      if (during_race) during_race(options);
      std::vector<TuningResult> timed;
      for (const CudaTuningCandidate& candidate : of) {
        const auto& by_name = full && full_results ? *full_results : results;
        const auto result = by_name.find(candidate.name);
        timed.push_back(result == by_name.end() ? finished_in(100) : result->second);
      }
      return timed;
    };
    made.compile_threads = threads;
    return made;
  }

  [[nodiscard]] std::vector<std::string> timed() const {
    std::vector<std::string> names;
    for (const CudaTuningCandidate& candidate : candidates) names.push_back(candidate.name);
    return names;
  }
  /// M1 of the proxies that were compiled, in that order.
  [[nodiscard]] std::vector<std::int64_t> proxy_m1s() const {
    std::vector<std::int64_t> m1s;
    for (const CudaProxy& proxy : proxies) m1s.push_back(proxy.spec.tile.m1);
    return m1s;
  }

  // What is to happen.
  std::int64_t spilled_bytes = 0;  ///< of every proxy and kernel
  std::map<std::string, TuningResult> results;
  /// Of whole kernels; none: as `results`.
  std::optional<std::map<std::string, TuningResult>> full_results;
  std::map<std::int64_t, std::string> proxy_failures;  ///< by M1
  std::string failing_kernel;
  std::function<void(const TuningOptions&)> during_race;

  // What did.
  std::vector<CudaProxy> proxies;
  std::vector<std::optional<std::chrono::steady_clock::time_point>> deadlines;
  std::vector<std::string> kernels;
  std::vector<std::optional<std::chrono::steady_clock::time_point>> kernel_deadlines;
  std::vector<CudaTuningCandidate> candidates;  ///< their images are gone
  std::vector<std::string> images;              ///< of the candidates
  double tuning_budget_ms = -1;

 private:
  std::mutex mutex_;
};

}  // namespace spjit::testing_support
