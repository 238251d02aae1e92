#pragma once

/// @file
/// The ways to a finished kernel for a GPU; without one, what of them is compiling.

#include <optional>
#include <string>

#include "bench/search_cost/measure_way.hpp"

namespace spjit::bench {

/// A GPU target on this machine.
struct CudaCostTarget {
  std::string name;            ///< as asked for: "sm_90"
  std::string card;            ///< what tiles are chosen for: "sm_90:h100"
  std::string toolchain;       ///< "NVRTC 13.0, nvJitLink 13.0"
  std::optional<int> ordinal;  ///< of the GPU that times; none: nothing is timed
  std::string product;         ///< of that GPU
  std::string problem;         ///< why there is none, one line
  bool rehearsal = false;      ///< that GPU is the emulated driver's: no time of it is real
};

/// Asks the driver and loads the compilers, in a process of its own: one that has used the driver
/// must not be forked. Throws NotSupported without the compilers, and as Target::parse() does.
[[nodiscard]] CudaCostTarget examine_cuda_target(const std::string& name);

/// Note for every row of the target.
[[nodiscard]] std::string note_of(const CudaCostTarget& target, CostWay way);

/// Ranks, then compiles (and where there is a GPU times) whole kernels or proxies as the shipped
/// search does, and leaves with a finished kernel: of full ways the fastest is one, others compile
/// it; where nothing was timed the first of the ranking is it. Whole kernels are compiled in an
/// order drawn with `settings.seed`, so that those done before a kill are a sample of all, and are
/// timed in seven rounds, none dropped early. Throws Error if no candidate compiled, or on a GPU
/// none could be timed.
[[nodiscard]] WorkReport run_cuda_way(const CostCase& item, const CudaCostTarget& target,
                                      CostWay way, const CostSettings& settings,
                                      CostReporter& reporter);

}  // namespace spjit::bench
