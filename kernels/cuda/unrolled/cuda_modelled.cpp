#include "kernels/cuda/unrolled/cuda_modelled.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "base/arithmetic.hpp"
#include "base/timing.hpp"
#include "kernels/cuda/build/cuda_build.hpp"
#include "plan/kernel_plan.hpp"
#include "rankmodel/rank_model.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

using Clock = std::chrono::steady_clock;

std::uint32_t count_of(std::int64_t value) {
  return checked_cast<std::uint32_t>(value, "blocks or threads of a launch");
}

/// One search: what it has found so far.
class ModelledSearch {
 public:
  ModelledSearch(const CudaSearchInput& input, std::span<const CudaCandidate> ranked,
                 const CudaModelTools& tools, const CompileContext& context)
      : policy_(input.options.policy),
        favourite_(input.favourite),
        ranked_(ranked),
        tools_(tools),
        context_(context) {
    SearchTrace& trace = found_.trace;
    trace.mode = policy_.search;
    trace.ranked_by = ranked_by(input.model);
    trace.budget_ms = policy_.search_budget_ms;
    for (const CudaCandidate& candidate : ranked) {
      trace.entries.push_back({to_string(candidate.tile),
                               candidate.tile.m1,
                               candidate.tile.n1,
                               candidate.score,
                               {},
                               {}});
    }
  }

  CudaModelledSearch run() {
    context_.stage("modelling");
    for (const std::size_t candidate : candidates()) {
      if (left_ms() <= 0) break;
      context_.check();
      model(candidate);
      if (!goes_on(candidate)) break;
    }
    found_.trace.full_ms = ms_since(begin_);
    found_.trace.modelled = best_.has_value();
    if (best_) {
      found_.trace.chosen = *best_;
    } else if (!found_.why_not) {
      found_.why_not =
          Refusal(fmt::format("the budget of {:.0f} ms was spent before a kernel was modelled",
                              policy_.search_budget_ms));
    }
    return std::move(found_);
  }

 private:
  /// The best-ranked, and the choice of mode instant: the search ends no worse by the clock.
  [[nodiscard]] std::vector<std::size_t> candidates() const {
    std::vector<std::size_t> result(
        std::min(ranked_.size(), static_cast<std::size_t>(policy_.top_k)));
    std::iota(result.begin(), result.end(), 0);
    if (favourite_ >= result.size() && favourite_ < ranked_.size()) {
      result.insert(result.begin() + 1, favourite_);  // before the budget is spent
    }
    return result;
  }

  [[nodiscard]] double left_ms() const { return policy_.search_budget_ms - ms_since(begin_); }

  /// A clock that cannot follow the first kernel follows none of the problem. One that does not
  /// compile says nothing of the others.
  [[nodiscard]] bool goes_on(std::size_t i) const {
    const std::optional<ModelledResult>& result = found_.trace.entries[i].modelled;
    return i > 0 || (result && !is_refused_);
  }

  void model(std::size_t i) {
    const CudaCandidate& candidate = ranked_[i];
    const Cancellation limited = spjit::limited(context_.cancel, left_ms());
    ModelledResult result;
    bool is_compiled = false;
    try {
      const CudaKernelImage image = tools_.compile_kernel(candidate, limited);
      is_compiled = true;
      if (i == 0) found_.built = image.built;
      const ModelledTime time = tools_.model(candidate, image, limited);
      result.us = time.us;
      result.cycles = time.cycles;
      result.bound = to_string(time.bound);
      if (image.spilled_bytes > 0) {
        found_.trace.entries[i].note = fmt::format("spills {} bytes a thread", image.spilled_bytes);
      }
      take(i, time, image);
    } catch (const CompileCancelled&) {
      return context_.check();  // the caller's end, or the budget's
    } catch (const DeadlineExceeded&) {
      return context_.check();
    } catch (const Cancelled&) {
      throw;
    } catch (const Error& error) {  // also an instruction that the decoder does not know
      result.failure = error.what();
      is_refused_ = is_compiled;
    }
    if (!result.failure.empty() && !found_.why_not) found_.why_not = Refusal(result.failure);
    found_.trace.entries[i].modelled = std::move(result);
  }

  void take(std::size_t i, const ModelledTime& time, const CudaKernelImage& image) {
    if (best_ && std::pair(time.cycles, i) >= std::pair(best_cycles_, *best_)) return;
    best_ = i;
    best_cycles_ = time.cycles;
    found_.built = image.built;
    found_.why_not = Refusal::none();
  }

  const SearchPolicy& policy_;
  std::size_t favourite_;
  bool is_refused_ = false;  ///< the clock could not follow the last kernel
  std::span<const CudaCandidate> ranked_;
  const CudaModelTools& tools_;
  const CompileContext& context_;
  Clock::time_point begin_ = Clock::now();
  CudaModelledSearch found_;
  std::optional<std::size_t> best_;
  double best_cycles_ = 0;
};

ClockShape clock_shape(const CudaProxyLaunch& launch) {
  return {.grid = {count_of(launch.grid_x), count_of(launch.grid_y), 1},
          .block = {count_of(launch.threads), count_of(launch.tiles_a_block), 1},
          .dynamic_shared_bytes = launch.dynamic_shared_bytes};
}

}  // namespace

ClockLaunch clock_launch(const Problem& problem, std::span<const std::byte> cubin,
                         const CudaProxyLaunch& launch) {
  return clock_launch(problem, cubin, k_cuda_kernel_name, clock_shape(launch));
}

CudaModelTools local_model_tools(const CudaSearchInput& input) {
  CudaModelTools tools;
  tools.compile_kernel = [input](const CudaCandidate& candidate, const Cancellation& cancel) {
    return compile_cuda_image(input, candidate, cancel);
  };
  tools.model = [input, constants = required_clock_constants(input.limits.arch)](
                    const CudaCandidate& candidate, const CudaKernelImage& image,
                    const Cancellation& cancel) {
    const auto cubin = std::as_bytes(std::span(image.cubin));
    const ClockLaunch launch =
        clock_launch(input.problem, cubin, launch_of(candidate, image.blocks_x));
    return modelled_time(cubin, launch, input.limits, constants, {.cancel = cancel});
  };
  return tools;
}

CudaModelledSearch search_by_clock(const CudaSearchInput& input,
                                   std::span<const CudaCandidate> ranked,
                                   const CudaModelTools& tools, const CompileContext& context) {
  return ModelledSearch(input, ranked, tools, context).run();
}

}  // namespace spjit
