#include "tests/support/wrong_kernels.hpp"

#include <mutex>
#include <utility>

#include "kernels/cuda/unrolled/cuda_builder.hpp"

// Calls of `name` anywhere in the program come to the first function; the second is the library's.
#define SPJIT_WRAPPED(name) asm("__wrap_" name)
#define SPJIT_REAL(name) asm("__real_" name)

#define SPJIT_MAKE_UNROLLED_ARTIFACT                                                     \
  "_ZN5spjit22make_unrolled_artifactERKNS_10KernelPlanERKNS_8HostTileERKNS_7ProblemENS_" \
  "7HostIsaERKNS_12CancellationE"
#define SPJIT_BUILD_CUDA_KERNEL                                               \
  "_ZN5spjit17build_cuda_kernelERKNS_10KernelPlanERKNS_13CudaCandidateERKNS_" \
  "14CompileOptionsERKNS_14CudaDeviceInfoERKNS_12CancellationE"

namespace spjit::testing_support {

HostArtifact real_artifact(const KernelPlan& plan, const HostTile& tile, const Problem& problem,
                           HostIsa isa, const Cancellation& cancel)
    SPJIT_REAL(SPJIT_MAKE_UNROLLED_ARTIFACT);
HostArtifact spoiled_artifact(const KernelPlan& plan, const HostTile& tile, const Problem& problem,
                              HostIsa isa, const Cancellation& cancel)
    SPJIT_WRAPPED(SPJIT_MAKE_UNROLLED_ARTIFACT);
BuiltCuda real_cuda_kernel(const KernelPlan& plan, const CudaCandidate& candidate,
                           const CompileOptions& options, const CudaDeviceInfo& limits,
                           const Cancellation& cancel) SPJIT_REAL(SPJIT_BUILD_CUDA_KERNEL);
BuiltCuda spoiled_cuda_kernel(const KernelPlan& plan, const CudaCandidate& candidate,
                              const CompileOptions& options, const CudaDeviceInfo& limits,
                              const Cancellation& cancel) SPJIT_WRAPPED(SPJIT_BUILD_CUDA_KERNEL);

namespace {

/// What kernels go through, if anything.
template <class Kernel>
class Switch {
 public:
  void set(std::function<void(Kernel&)> spoil) {
    const std::lock_guard lock(mutex_);
    spoil_ = std::move(spoil);
  }

  Kernel apply(Kernel kernel) {
    std::function<void(Kernel&)> spoil;
    {
      const std::lock_guard lock(mutex_);
      spoil = spoil_;
    }
    if (spoil) spoil(kernel);
    return kernel;
  }

 private:
  std::mutex mutex_;
  std::function<void(Kernel&)> spoil_;
};

Switch<HostArtifact>& host_switch() {
  static Switch<HostArtifact> only;
  return only;
}

Switch<BuiltCuda>& cuda_switch() {
  static Switch<BuiltCuda> only;
  return only;
}

}  // namespace

HostArtifact spoiled_artifact(const KernelPlan& plan, const HostTile& tile, const Problem& problem,
                              HostIsa isa, const Cancellation& cancel) {
  return host_switch().apply(real_artifact(plan, tile, problem, isa, cancel));
}

BuiltCuda spoiled_cuda_kernel(const KernelPlan& plan, const CudaCandidate& candidate,
                              const CompileOptions& options, const CudaDeviceInfo& limits,
                              const Cancellation& cancel) {
  return cuda_switch().apply(real_cuda_kernel(plan, candidate, options, limits, cancel));
}

SpoiledHostKernels::SpoiledHostKernels(std::function<void(HostArtifact&)> spoil) {
  host_switch().set(std::move(spoil));
}

SpoiledHostKernels::~SpoiledHostKernels() { host_switch().set({}); }

SpoiledCudaKernels::SpoiledCudaKernels(std::function<void(BuiltCuda&)> spoil) {
  cuda_switch().set(std::move(spoil));
}

SpoiledCudaKernels::~SpoiledCudaKernels() { cuda_switch().set({}); }

void change_a_weight(HostArtifact& artifact) {
  constexpr std::uint32_t k_thousandth = 1U << 13;  // of the 23 bits of the fraction
  if (!artifact.weights.empty()) artifact.weights.front() ^= k_thousandth;
}

}  // namespace spjit::testing_support
