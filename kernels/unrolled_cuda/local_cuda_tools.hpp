#pragma once

/// @file
/// A search on a GPU of this machine: compiles with NVIDIA's libraries and times there.

#include "base/cancel.hpp"
#include "kernels/unrolled_cuda/cuda_libraries.hpp"
#include "kernels/unrolled_cuda/cuda_timer.hpp"
#include "kernels/unrolled_cuda/cuda_tunable.hpp"

namespace spjit {

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
                                               const Cancellation& cancel) const;

  const CudaSearchInput& input_;
  CudaToolchain toolchain_;
  CudaTimer timer_;
};

}  // namespace spjit
