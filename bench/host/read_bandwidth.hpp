#pragma once

/// @file
/// How fast this machine reads memory, measured.

#include <cstdint>

#include "spjit/target.hpp"

namespace spjit::bench {

/// Bytes a second that one core loads, over and over from `working_set_bytes` of memory (rounded up
/// to 4 KiB), with the vectors of `isa`; best of many passes. [GB/s] Half of the L2 size gives the
/// L2 bandwidth, and so on. Throws
/// NotSupported if this CPU lacks `isa`.
[[nodiscard]] double measure_read_bandwidth(HostIsa isa, std::int64_t working_set_bytes,
                                            double duration_ms = 20);

}  // namespace spjit::bench
