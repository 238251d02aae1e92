#pragma once

/// @file
/// The search without a GPU: the best-ranked kernels are built in full, and the clock
/// (clock) says which of them is the fastest. Modelled, not timed.

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/refusal.hpp"
#include "clock/cubin_clock.hpp"
#include "kernels/cuda/build/cuda_clock.hpp"
#include "kernels/cuda/unrolled/cuda_proxy.hpp"
#include "kernels/cuda/unrolled/cuda_tunable.hpp"
#include "kernels/tuning/search_trace.hpp"
#include "plan/compile_context.hpp"

namespace spjit {

/// The tools for it; handed in, so that tests compile and model nothing.
struct CudaModelTools {
  /// As CudaSearchTools has it. Throws CompileFailed, NotSupported, what the cancellation throws.
  std::function<CudaKernelImage(const CudaCandidate&, const Cancellation&)> compile_kernel;
  /// Throws NotSupported for a kernel that the clock cannot follow, what the cancellation throws.
  std::function<ModelledTime(const CudaCandidate&, const CudaKernelImage&, const Cancellation&)>
      model;
};

/// NVIDIA's libraries and the clock with the constants of the device. Refers to all that the input
/// does. Throws NotSupported where there are no constants of the architecture.
[[nodiscard]] CudaModelTools local_model_tools(const CudaSearchInput& input);

/// As the clock has a launch of a tile's kernel. Throws as clock_launch() of any kernel.
[[nodiscard]] ClockLaunch clock_launch(const Problem& problem, std::span<const std::byte> cubin,
                                       const CudaProxyLaunch& launch);

/// The clock's times of the best-ranked.
struct CudaModelledSearch {
  SearchTrace trace;  ///< `modelled` says whether the choice is the clock's; else it is the first
  std::shared_ptr<const BuiltCuda> built;  ///< of the chosen candidate; null: to be built
  Refusal why_not = Refusal::none();       ///< whether it is the clock's
};

/// Builds and models candidates of `ranked`, best first, `top_k` at most and the input's favourite,
/// until the policy's budget (search_budget_ms) is spent: what is then on its way is given up. Of
/// equal times the better ranked is chosen. Stops where the clock cannot follow the first kernel:
/// others of the problem are alike. What goes wrong with one is its failure. Throws what the
/// context throws.
[[nodiscard]] CudaModelledSearch search_by_clock(const CudaSearchInput& input,
                                                 std::span<const CudaCandidate> ranked,
                                                 const CudaModelTools& tools,
                                                 const CompileContext& context);

}  // namespace spjit
