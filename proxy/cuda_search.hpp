#pragma once

/// @file
/// The search for a GPU tile: proxies of the best-ranked candidates compiled and timed on a device.

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/unrolled_cuda/cuda_candidate.hpp"
#include "kernels/unrolled_cuda/cuda_proxy.hpp"
#include "kernels/unrolled_cuda/cuda_timer.hpp"
#include "plan/compile_context.hpp"
#include "proxy/search_trace.hpp"
#include "proxy/tuning.hpp"
#include "reorder/row_groupings.hpp"
#include "runtime/cuda/cuda_device_info.hpp"
#include "spjit/compiler.hpp"
#include "spjit/matrix.hpp"

namespace spjit {

/// What a search is about. Refers to all of it.
struct CudaSearchInput {
  const CsrMatrix& matrix;
  const CompileOptions& options;
  const CudaDeviceInfo& limits;
  RowGroupings& groupings;  ///< of the matrix
  CompileContext watch = {};
};

/// Code to be timed, and how it is launched.
struct CudaTuningCandidate {
  std::string name;
  std::span<const std::byte> image;  ///< several may share one: it is loaded once
  CudaProxyLaunch launch;
};

/// A whole kernel of a candidate.
struct CudaKernelImage {
  std::string cubin;
  std::int64_t blocks_x = 0;       ///< of its launch
  std::int64_t spilled_bytes = 0;  ///< a thread
};

/// What a search is done with; handed in, so that the search itself compiles and runs nothing.
struct CudaSearchTools {
  /// Thread-safe. A failure is in the result.
  std::function<CompiledCudaProxy(const CudaProxy&, const Cancellation&)> compile_proxy;
  /// Throws CompileFailed, NotSupported.
  std::function<CudaKernelImage(const CudaCandidate&, const Cancellation&)> compile_kernel;
  /// The i-th result belongs to the i-th contestant.
  std::function<std::vector<TuningResult>(std::span<const CudaTuningCandidate>,
                                          const TuningOptions&)>
      race;
  int compile_threads = 1;  ///< proxies compiled at once
};

/// Reductions of the proxies, each of which can be turned off.
struct CudaReductions {
  bool kernels = true;     ///< one proxy for all N1 of an M1
  bool blocks = true;      ///< a cluster of row tiles has one function
  bool iterations = true;  ///< tiles cut to 300 / density columns
  bool occupancy = true;   ///< dynamic shared memory gives the kernel's occupancy
};

/// Times `ranked` (survivors, best first) as the mode says: `ranked` the proxies of the first
/// `search_contenders`, `proxy` those of all, `exhaustive` whole kernels of all. Within
/// `search_budget_ms`: what is not compiled or timed by then is recorded as not reached. Throws
/// what `watch` throws once what is being compiled or timed is done. A proxy that spills is timed
/// all the same, and its entry's note says so; one that does not compile, or faults, has failed
/// with its reason. The chosen entry is the fastest, or where nothing could be timed the first
/// (`timed` is false then).
[[nodiscard]] SearchTrace search_cuda_tile(const CudaSearchInput& input,
                                           std::span<const CudaCandidate> ranked,
                                           const CudaSearchTools& tools,
                                           const CudaReductions& reductions = {});

/// Loads every image and races the contestants on the timer's device. One that cannot be loaded has
/// failed; after a kernel that faults the device is of no use and all that follow fail too.
[[nodiscard]] std::vector<TuningResult> time_cuda_kernels(
    std::span<const CudaTuningCandidate> contestants, const TuningOptions& options,
    CudaTimer& timer);

}  // namespace spjit
