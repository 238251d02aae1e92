#pragma once

/// @file
/// The unrolled CUDA kernels as a search sees them: ranked tiles, their proxies and kernels.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/cancel.hpp"
#include "kernels/cuda/unrolled/cuda_builder.hpp"
#include "kernels/cuda/unrolled/cuda_candidate.hpp"
#include "kernels/cuda/unrolled/cuda_proxy.hpp"
#include "kernels/cuda/unrolled/cuda_timer.hpp"
#include "kernels/tuning/tunable_space.hpp"
#include "reorder/row_groupings.hpp"
#include "runtime/cuda/cuda_device_info.hpp"
#include "spjit/options.hpp"
#include "spjit/problem.hpp"

namespace spjit {

struct LoadedRankModel;

/// The subject of a search. Refers to all of it.
struct CudaSearchInput {
  const Problem& problem;
  const CompileOptions& options;
  const CudaDeviceInfo& limits;
  RowGroupings& groupings;                 ///< of the matrix
  const LoadedRankModel* model = nullptr;  ///< what ranked; null: the prior
  std::size_t favourite = 0;               ///< of the ranked: the choice of mode instant
};

/// A whole kernel of a candidate.
struct CudaKernelImage {
  std::string cubin;
  std::int64_t blocks_x = 0;                    ///< of its launch
  std::int64_t spilled_bytes = 0;               ///< a thread
  std::shared_ptr<const BuiltCuda> built = {};  ///< all of it, if it may be used; or null
  std::int64_t code_bytes = 0;                  ///< 0: it was not made now
};

/// Plans and builds a candidate's whole kernel. Throws as build_cuda_kernel().
[[nodiscard]] CudaKernelImage compile_cuda_image(const CudaSearchInput& input,
                                                 const CudaCandidate& candidate,
                                                 const Cancellation& cancel);

/// The tools of a search; handed in, so that the space itself compiles and runs nothing: see
/// local_cuda_tools().
struct CudaSearchTools {
  /// Thread-safe. A failure is in the result.
  std::function<CompiledCudaProxy(const CudaProxy&, const Cancellation&)> compile_proxy;
  /// Throws CompileFailed, NotSupported, what the cancellation throws.
  std::function<CudaKernelImage(const CudaCandidate&, const Cancellation&)> compile_kernel;
  /// The i-th result belongs to the i-th candidate.
  std::function<std::vector<TuningResult>(std::span<const CudaTuningCandidate>,
                                          const TuningOptions&)>
      time;
  int compile_threads = 1;  ///< proxies compiled at once
};

/// Compiles as local_cuda_tools() do, but times nothing: every candidate is not reached. `lazy`:
/// the libraries are looked for when a proxy is compiled. Throws as they do, without a GPU.
[[nodiscard]] CudaSearchTools compile_only_tools(const CudaSearchInput& input, bool lazy = false);

/// Compiles with NVIDIA's libraries and times on one GPU of this machine. Refers to all that the
/// input does. Throws NotSupported without the libraries, DeviceError if the GPU cannot be used.
[[nodiscard]] CudaSearchTools local_cuda_tools(const CudaSearchInput& input, int ordinal,
                                               bool lazy = false);

/// Reductions of the proxies, each of which can be turned off.
struct CudaReductions {
  bool kernels = true;     ///< one proxy for all N1 of an M1
  bool blocks = true;      ///< a cluster of row tiles has one function
  bool iterations = true;  ///< tiles cut to 300 / density columns
  bool occupancy = true;   ///< dynamic shared memory gives the kernel's occupancy
};

/// A proxy or a kernel.
struct CudaTunableBuild : TunableBuild {
  CompiledCudaProxy proxy;  ///< of a stand-in
  CudaKernelImage kernel;   ///< in full
};

/// `ranked`: survivors, best first. A proxy that spills is timed all the same, and its note says
/// so. Refers to all that it is given.
class CudaTunable final : public TunableSpace {
 public:
  CudaTunable(const CudaSearchInput& input, std::span<const CudaCandidate> ranked,
              CudaSearchTools tools, const CudaReductions& reductions = {});

  [[nodiscard]] std::string ranked_by() const override;
  [[nodiscard]] std::vector<SearchCandidate> candidates() const override;
  [[nodiscard]] TuningTraits traits() const override;
  [[nodiscard]] bool share_build(std::size_t left, std::size_t right,
                                 Fidelity fidelity) const override;
  [[nodiscard]] std::shared_ptr<const TunableBuild> build(std::span<const std::size_t> candidates,
                                                          Fidelity fidelity,
                                                          const Cancellation& cancel) override;
  [[nodiscard]] std::vector<TuningResult> time(std::span<const TuningJob> jobs,
                                               const TuningOptions& options) override;
  [[nodiscard]] std::string note(const TuningJob& job) const override;

  /// The kernel of a build in full, so that it need not be compiled again; null if the tools did
  /// not hand it out, and for a null build.
  [[nodiscard]] static std::shared_ptr<const BuiltCuda> kernel_of(const TunableBuild* build);

 private:
  [[nodiscard]] CudaProxy make_proxy(std::span<const std::size_t> members,
                                     const Cancellation& cancel) const;
  [[nodiscard]] CudaProxyLaunch launch(const TuningJob& job) const;

  const CudaSearchInput input_;
  std::span<const CudaCandidate> ranked_;
  CudaSearchTools tools_;
  CudaReductions reductions_;
};

}  // namespace spjit
