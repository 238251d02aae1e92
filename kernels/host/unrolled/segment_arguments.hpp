#pragma once

/// @file
/// Arguments of a compiled segment: the one place that emitters and the executor share.

#include <cstddef>
#include <cstdint>

namespace spjit {

/// Arguments in memory, for a segment that stores C. Code reads fields at fixed offsets, so they
/// stay where they are: what an epilogue needs (a bias, a residual, a scale) goes to the end and
/// takes no register. Whoever changes an offset raises k_host_program_version. No initial values:
/// the executor has many of them on the stack, which it fills where it needs them.
struct SegmentArguments {
  float* c;                ///< C at the panel's first column, row 0
  std::int64_t ldc_bytes;  ///< between rows of C
  const void* masks;       ///< nullptr, or lane masks for the stores to C, one a vector
};

/// Where code finds the fields, in bytes from the block's start.
namespace segment_offset {
inline constexpr std::int32_t k_c = 0;
inline constexpr std::int32_t k_ldc_bytes = 8;
inline constexpr std::int32_t k_masks = 16;
}  // namespace segment_offset

static_assert(offsetof(SegmentArguments, c) == segment_offset::k_c);
static_assert(offsetof(SegmentArguments, ldc_bytes) == segment_offset::k_ldc_bytes);
static_assert(offsetof(SegmentArguments, masks) == segment_offset::k_masks);

/// A compiled segment, in the System V calling convention.
///
/// `b`: first row of the segment's block of the panel of B. `weights`: the segment's own.
/// `partial`: the tile's accumulators between k blocks; not touched without k blocks. Code writes
/// nothing to `arguments`, and reads it only where it stores C.
///
/// The first three change from call to call and are needed at once. Read from the block too, they
/// cost about eleven cycles a call: 8 to 12 % where a segment has 50 nonzeros (Zen 5, one panel).
using HostSegment = void (*)(const float* b, const float* weights, float* partial,
                             const SegmentArguments* arguments);

}  // namespace spjit
