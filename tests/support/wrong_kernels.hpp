#pragma once

/// @file
/// Compilers that make wrong kernels. A program that links spjit_wrong_kernels has the functions
/// behind the emitters replaced at link time (ld's --wrap): the library itself has no such switch.

#include <functional>

#include "kernels/cuda/unrolled/cuda_builder.hpp"
#include "kernels/host/unrolled/host_program.hpp"

namespace spjit::testing_support {

/// While it lives, every unrolled host kernel that is emitted in this process goes through `spoil`.
/// One at a time; `spoil` may be called by several threads at once.
class SpoiledHostKernels {
 public:
  explicit SpoiledHostKernels(std::function<void(HostArtifact&)> spoil);
  SpoiledHostKernels(const SpoiledHostKernels&) = delete;
  SpoiledHostKernels& operator=(const SpoiledHostKernels&) = delete;
  ~SpoiledHostKernels();
};

/// As SpoiledHostKernels, for CUDA kernels.
class SpoiledCudaKernels {
 public:
  explicit SpoiledCudaKernels(std::function<void(BuiltCuda&)> spoil);
  SpoiledCudaKernels(const SpoiledCudaKernels&) = delete;
  SpoiledCudaKernels& operator=(const SpoiledCudaKernels&) = delete;
  ~SpoiledCudaKernels();
};

/// Changes the kernel's first weight by a thousandth.
void change_a_weight(HostArtifact& artifact);

}  // namespace spjit::testing_support
