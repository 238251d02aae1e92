#pragma once

/// @file
/// What `spjit explain` finds out about one matrix on a GPU. Compiles nothing: neither a GPU nor
/// NVIDIA's libraries are needed.

#include <filesystem>
#include <string>

#include "compiler/cuda_pipeline.hpp"
#include "kernel_options.hpp"
#include "runtime/cuda/cuda_device_info.hpp"
#include "spjit/matrix.hpp"
#include "terminal.hpp"

namespace spjit::cli {

struct CudaExplanation {
  std::filesystem::path path;
  std::string error;  ///< why there is no explanation
  MatrixStatistics matrix;
  CudaDeviceInfo limits;
  CudaChoice choice;
};

/// Never throws for what is wrong with the file: `error` says it.
[[nodiscard]] CudaExplanation explain_cuda(const std::filesystem::path& path,
                                           const KernelOptions& options);

/// The whole explanation as text.
[[nodiscard]] std::string explanation_text(const CudaExplanation& explanation,
                                           const KernelOptions& options, const Terminal& terminal);

[[nodiscard]] Json describe(const CudaExplanation& explanation);

}  // namespace spjit::cli
