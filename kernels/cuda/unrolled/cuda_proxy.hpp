#pragma once

/// @file
/// Proxy kernels for GPUs: small programs whose times stand for those of full CUDA kernels while
/// tiles are chosen (LO-SpMM, ACM TACO 2024, section 5).
///
/// One proxy serves every N1 of an M1 and every number of tiles a block: blocks, grid and dynamic
/// shared memory are arguments of a launch. It is launched with the full kernel's grid, so that it
/// has as many blocks, and each row tile runs the function of the cluster that it is in. Blocks of
/// one cluster write the same rows of C and read the same rows of B. Empty rows are left out: their
/// blocks write zeros whatever the tile is.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/build/cuda_build.hpp"
#include "kernels/cuda/unrolled/cuda_artifact.hpp"
#include "kernels/cuda/unrolled/cuda_candidate.hpp"
#include "kernels/cuda/unrolled/cuda_tile.hpp"
#include "kernels/cuda/unrolled/cuda_units.hpp"
#include "plan/kernel_plan.hpp"
#include "plan/proxy_plan.hpp"
#include "runtime/cuda/cuda_device_info.hpp"
#include "runtime/cuda/cuda_libraries.hpp"
#include "spjit/options.hpp"

namespace spjit {

/// Whether one proxy can serve both: code depends on M1 and the grouping, but not on N1 and the
/// tiles a block, except for tokens. Caps of `CudaCap::device` differ little between N1 and share
/// the lowest; those of the grid are what is tried out, and have to be the same.
[[nodiscard]] bool share_proxy(const CudaCandidate& left, const CudaCandidate& right);

/// Blocks of the full kernel that an SM has at once: NUM_ATB = min(ceil(blocks / SMs), what it
/// holds at the predicted registers), at least 1 (LO-SpMM, section 5).
[[nodiscard]] std::int64_t active_blocks_of(const CudaCandidate& candidate,
                                            const CudaDeviceInfo& limits);

/// Options of a proxy besides plan and candidates.
struct CudaProxyOptions {
  bool reduce_blocks = true;      ///< as in ProxyOptions
  bool reduce_iterations = true;  ///< as in ProxyOptions
};

/// A proxy before it is text.
struct CudaProxy {
  ProxyPlan proxy;
  CudaKernelSpec spec;  ///< runtime threads up to the largest block served; all its row tiles
  /// Registers a thread it may use: what the member that allows least leaves (register_cap()).
  std::int64_t register_cap = 0;
};

/// The proxy of `members`, candidates that share_proxy(), whose plan is `plan`. It has 3 x as many
/// clusters as an SM has row tiles at once: the most active_blocks_of() x tiles a block, and the
/// paper's 300 iterations. Throws InvalidArgument for no members, members that do not share one or
/// differ in n, sizes or units, a plan of another m1 or without nonzeros, and as check_cuda_spec()
/// does.
[[nodiscard]] CudaProxy make_cuda_proxy(const KernelPlan& plan,
                                        std::span<const CudaCandidate> members,
                                        const CudaDeviceInfo& limits,
                                        const CudaProxyOptions& options = {});

/// How a kernel or proxy is launched.
struct CudaProxyLaunch {
  std::int64_t grid_x = 0;                ///< blocks: of row tiles
  std::int64_t grid_y = 0;                ///< blocks: column tiles
  std::int64_t threads = 0;               ///< a row tile
  std::int64_t dynamic_shared_bytes = 0;  ///< a block
  std::string note;  ///< why the proxy's occupancy is not the full kernel's; empty: it is
  std::int64_t tiles_a_block = 1;
};

/// The launch of the candidate's own kernel: `blocks_x` blocks of row tiles and of empty rows.
[[nodiscard]] CudaProxyLaunch launch_of(const CudaCandidate& candidate, std::int64_t blocks_x);

/// The launch in which a proxy of `registers` a thread (as compiled) stands for `candidate`. It has
/// the candidate's row and column tiles and threads, and the dynamic shared memory that leaves an
/// SM active_blocks_of() blocks. It has none where the grid does not fill the SMs anyway: the paper
/// asks for some even then, but it is taken from the L1 cache of the same SM. Where no amount does
/// it, it is 0, with a note. Throws as occupancy() does.
[[nodiscard]] CudaProxyLaunch launch_of(const CudaCandidate& candidate, std::int64_t registers,
                                        const CudaDeviceInfo& limits);

/// The proxy's text, for `arch` 90 in sm_90. Throws as emit_cuda() and emit_ptx() do.
[[nodiscard]] std::vector<SourceUnit> emit_cuda_proxy(const CudaProxy& proxy, CudaSource source,
                                                      int arch);

/// A compiled proxy, or why there is none.
struct CompiledCudaProxy {
  std::string cubin;               ///< empty after a failure
  std::int64_t registers = 0;      ///< a thread, from the cubin
  std::int64_t spilled_bytes = 0;  ///< a thread, from the cubin
  double build_ms = 0;             ///< text to cubin; also of a build that failed
  std::string failure;             ///< one line, perhaps with a log after it; empty: it compiled
};

/// Emits and builds the proxy with its register cap (`options.max_registers` is not looked at).
/// NotSupported and CompileFailed, which a cancelled compilation is too, become the failure. Throws
/// InvalidArgument as build_cubin() does.
[[nodiscard]] CompiledCudaProxy compile_cuda_proxy(const CudaProxy& proxy, CudaSource source,
                                                   const CudaToolchain& toolchain,
                                                   const CudaBuildOptions& options);

}  // namespace spjit
