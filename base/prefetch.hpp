#pragma once

/// @file
/// Prefetches that stay in the program.

namespace spjit {

/// Asks for the cache line at `address` in L2; never faults. Not __builtin_prefetch: gcc 12 takes a
/// function that does nothing else for one without effects and drops the calls to it.
inline void prefetch_to_l2(const void* address) noexcept {
#if defined(__x86_64__)
  asm volatile("prefetcht1 %0" : : "m"(*static_cast<const char*>(address)));
#else
  __builtin_prefetch(address, 0, 2);
#endif
}

}  // namespace spjit
