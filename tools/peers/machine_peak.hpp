#pragma once

/// @file
/// Measures the peak of this machine.

#include "spjit/target.hpp"

namespace spjit {

/// Fp32 multiply-adds of one core with the vectors of `isa`, both operations counted, from
/// registers to registers: the best of many samples of some 20 us, so that neither other processes
/// nor an interrupt count. [GFLOP/s] `generic`: SSE2, a product and a sum. Takes `duration_ms`, and
/// runs at least a few samples. Throws NotSupported if this CPU lacks `isa`.
[[nodiscard]] double measure_fma_peak_gflops(HostIsa isa, double duration_ms = 20);

}  // namespace spjit
