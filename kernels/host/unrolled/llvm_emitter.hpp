#pragma once

/// @file
/// From a KernelPlan and a HostTile to straight-line machine code for any x86-64, through LLVM.

#include <cstdint>

#include "base/cancel.hpp"
#include "kernels/host/unrolled/host_emitter.hpp"
#include "kernels/host/unrolled/host_tile.hpp"
#include "plan/kernel_plan.hpp"

namespace spjit {

/// Code with the functions that HostCode describes, for baseline x86-64: SSE2, vectors of 4 floats.
/// Masks are nv vectors of 4 x 32 bits; a lane is stored if its sign bit is set, and memory of the
/// other lanes is neither read nor written.
///
/// Arithmetic: C[i][j] starts at +0 and takes `C[i][j] + (A[i][c] * B[c][j])`, product and sum
/// rounded separately, for the stored entries of row i in ascending c. The result depends on the
/// matrix alone, not on the tile.
///
/// `weights` holds every value four times, a whole vector: SSE2 has no broadcast from memory, and a
/// shuffle in its place would be a quarter of the instructions. A tile's `form` and `memory_rows`
/// mean nothing here. The vectors of a panel row are computed one after another by the same code,
/// so a tile needs m1 + 2 registers, code and compile time do not depend on nv.
///
/// `b_stride_bytes` is as for `emit_host`. Segments are compiled in parallel, on as many threads as
/// the calling thread may use CPUs. Compile time is linear in nnz, twice as long a nonzero where a
/// segment has so many (10^5) that its IR outgrows the caches. Throws InvalidArgument for m1
/// outside [1, 14], nv < 1 and a stride outside [4, 2^20], CompileFailed if LLVM fails, and
/// NotSupported in a build without LLVM. Throws what `cancel` throws, which is asked for each
/// module of some 8000 nonzeros.
[[nodiscard]] HostCode emit_generic(const KernelPlan& plan, const HostTile& tile,
                                    std::int64_t b_stride_bytes, const Cancellation& cancel = {});

}  // namespace spjit
