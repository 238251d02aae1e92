#pragma once

/// @file
/// From a KernelPlan and a HostTile to straight-line machine code (AVX-512 and AVX2, encoded
/// directly).

#include <cstdint>
#include <vector>

#include "base/cancel.hpp"
#include "kernels/host/unrolled/host_tile.hpp"
#include "plan/kernel_plan.hpp"

namespace spjit {

/// Where functions begin, in bytes.
inline constexpr std::int64_t k_function_alignment = 64;

/// Code and data of a host kernel. One function a segment, a HostSegment: neighbouring row tiles of
/// the plan that are joined (HostTile::join_bytes), times a block of columns. It accumulates in
/// registers, starting from +0 (first block) or from `partial`, and writes to C (last block) or to
/// `partial`. Masks are nv 16-bit lane masks (AVX-512) or 8 x 32-bit vectors (AVX2). With
/// HostTile::stream_c, C must be aligned to vectors unless masks are given.
struct HostCode {
  std::vector<std::uint8_t> text;
  std::vector<std::int64_t> tile_ends;        ///< one past the last row tile of joined ones
  std::vector<std::int64_t> segment_offsets;  ///< [tile_ends * blocks] into text, 64-byte aligned
  std::vector<float> weights;                 ///< in the order the code reads them
  std::vector<std::int64_t> weight_offsets;   ///< [tile_ends * blocks] into weights
};

/// `b_stride_bytes`: distance between rows of B as the code will see it: nv * lanes * 4 for packed
/// panels, ldb * 4 in place. Throws InvalidArgument for a tile that needs more registers than the
/// instruction set has, for the generic one, and for a stride outside [4, 2^20]. Throws what
/// `cancel` throws, which is asked for each row tile.
[[nodiscard]] HostCode emit_host(const KernelPlan& plan, const HostTile& tile, HostIsa isa,
                                 std::int64_t b_stride_bytes, const Cancellation& cancel = {});

}  // namespace spjit
