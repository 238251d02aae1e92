#pragma once

/// @file
/// A search on a GPU of this machine: which one, with which compilers.

#include <memory>
#include <optional>
#include <string>

#include "proxy/cuda_search.hpp"
#include "runtime/cuda/cuda_device_info.hpp"
#include "spjit/target.hpp"

namespace spjit {

/// A GPU whose times mean something for a target.
struct TimingGpu {
  std::optional<int> ordinal;
  std::string product;  ///< e.g. "NVIDIA H200"; empty without one
  std::string problem;  ///< why there is none, one line
};

/// The GPU that the target names (gpu1), else the first one of its architecture with as many SMs:
/// another card ranks tiles differently. Never throws.
[[nodiscard]] TimingGpu find_timing_gpu(const Target& target, const CudaDeviceInfo& limits);

/// Compiles with NVIDIA's libraries and times on one GPU. Refers to the input.
class LocalCudaTools {
 public:
  /// Throws NotSupported without the libraries, DeviceError if the GPU cannot be used.
  LocalCudaTools(const CudaSearchInput& input, int ordinal);

  [[nodiscard]] CudaSearchTools tools();

 private:
  [[nodiscard]] CompiledCudaProxy compile_proxy(const CudaProxy& proxy,
                                                const Cancellation& cancel) const;
  [[nodiscard]] CudaKernelImage compile_kernel(const CudaCandidate& candidate,
                                               const Cancellation& cancel);

  const CudaSearchInput& input_;
  CudaToolchain toolchain_;
  CudaTimer timer_;
};

}  // namespace spjit
