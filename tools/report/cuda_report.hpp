#pragma once

/// @file
/// The parts of this machine that GPU targets need: compiler libraries, driver, GPUs.

#include <string>
#include <vector>

#include "runtime/cuda/cuda_libraries.hpp"
#include "runtime/cuda/local_gpus.hpp"
#include "tools/report/terminal.hpp"

namespace spjit::cli {

/// A target and whether kernels can be compiled for it.
struct CudaTargetReport {
  std::string name;                ///< "sm_90"
  std::vector<std::string> cards;  ///< "h100", ...; the first is the default
  bool compiles = false;
  std::string reason;  ///< with what, or why not
};

struct CudaReport {
  FoundCudaLibraries libraries;
  std::vector<CudaTargetReport> targets;
  LocalGpus local;
};

/// Never throws for what is missing: that is the answer.
[[nodiscard]] CudaReport examine_cuda();

[[nodiscard]] std::string cuda_text(const CudaReport& report, const Terminal& terminal);

[[nodiscard]] Json describe(const CudaReport& report);

}  // namespace spjit::cli
