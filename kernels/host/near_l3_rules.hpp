#pragma once

/// @file
/// Which family of host kernels is the fastest where L3 is near (AMD's): of the rules of
/// host_rules.hpp those that another distance of L3 would turn around. Every figure is of a Zen 4.

#include <optional>

#include "kernels/kernel_family.hpp"

namespace spjit {

/// Whether these rules are asked: L3 is near, and a kernel for one n writes rows of C, hot or after
/// a network that no cache holds. All below are false elsewhere.
[[nodiscard]] bool is_near_l3(const FamilyRequest& request);

/// With AVX2, whether `compact`, which takes rows one by one from n of 17 on, is faster than all
/// code, in any layout: 256 x 1024 at 90 %, n = 255, hot: 227 us, code 357, loop 325. It is not
/// - where so few entries read a row of B that packing it takes longest
/// - hot, for few products (1536 x 384 at 98 %, n = 32: 15 us, code 13)
/// - for short rows of many columns, where a run mostly writes C (2048 x 16 at 95 %, n = 1024:
///   305 us, loop 256)
/// - for a C that passes L3 for each block of A (16384 x 768 at 98 %, n = 1024: 25 ms, code 16)
[[nodiscard]] bool near_l3_suits_rows(const FamilyRequest& request);

/// Whether `compact` is faster than unrolled code:
/// - with AVX2 where near_l3_suits_rows()
/// - hot, where a row of C is less than a vector, which code stores through a mask (384 x 384 at
///   95 %, n = 2, AVX2: 2.8 us, code 5.7)
/// - where both code and B come from L3: `compact` brings half the bytes (16384 x 8192 at 99 %,
///   n = 32, hot: 2.1 ms, code 4.6)
/// - where it packs B, and code would not
/// - where rows of C share one set of L1, and code comes back to each of them (64 x 64 at 90 %,
///   n = 1024, hot: 17 us, code 28)
[[nodiscard]] bool near_l3_prefers_compact(const FamilyRequest& request);

/// Whether B is so large that packing it is faster than reading it where it is, though few entries
/// read a row of it. 128 x 8192 at 95 %, n = 512: 2.2 ms, code 4.2, loop 2.5; cold 2.4, 8.4
/// and 3.3.
[[nodiscard]] bool near_l3_packs_b(const FamilyRequest& request);

/// Whether `windows` is faster than `compact` for n of 1 to 4, of any layout. Hot it is for one
/// column of any A (384 x 384 at 80 %: AVX2 3.8 us, not 8.6; AVX-512 3.0, not 7.8). Cold, and for
/// more columns, A must have enough entries, as a step takes all its lanes, full or not (2048 x
/// 2048 at 98 %, n = 1, cold, AVX2: 116 us, `compact` 80).
[[nodiscard]] bool near_l3_prefers_windows(const FamilyRequest& request);

/// From which share of entries on A with its zeros is faster than the best of the others, for n of
/// 1 to 4: 256 x 256 at 50 %, n = 1, AVX2: 2.9 us, `windows` 3.5; at 60 %: 3.7, 4.0. Above L2 bytes
/// count: 1024 x 1024 at 40 %: `windows` in 0.8 of the time.
[[nodiscard]] double near_l3_least_density(const FamilyRequest& request);

/// From which share of entries on A with its zeros is the fastest for 6 and 7 columns, hot, with
/// AVX-512. Nothing elsewhere.
[[nodiscard]] std::optional<double> near_l3_least_of_some(const FamilyRequest& request);

/// Whether a loop over the entries of A is faster than all that prepare for them:
/// - where hardly any entry reads a row of B, of many columns (16 x 768 at 99 %, n = 256, hot:
///   1.3 us, code 2.2); hot with AVX2 also of less than a vector (128 x 8192 at 99 %, n = 2: 10.5,
///   code 55)
/// - hot, where a run mostly writes C, rows of which share sets of L1 (4096 x 16 at 95 %, n = 256:
///   68, code 111)
/// - cold, where B is larger than L2 and C passes L3 (16384 x 768 at 98 %, n = 1024, AVX2: 20 ms,
///   code 27); of more columns with AVX-512 alone, and of short rows (8192 x 256 at 99 %, n = 4096:
///   17 ms, code 24)
[[nodiscard]] bool near_l3_prefers_loop(const FamilyRequest& request, bool is_hot);

/// Whether C is so large that it passes L3: 16384 x 128 at 60 %, n = 256, cold: code 6.6 ms,
/// compact 11.
[[nodiscard]] bool near_l3_is_passed_by_c(const FamilyRequest& request);

/// Whether `compact` goes row by row with AVX-512, as compact_cpu_of() has it.
[[nodiscard]] bool near_l3_has_wide_rows(const FamilyRequest& request);

/// Whether `compact` comes back to a C that passes L3 for each block of columns of A. Cold, where
/// it goes row by row, half of L3 does not matter: 16384 x 128 at 60 %, n = 256: 7.3 ms, code 9.8;
/// 8192 x 128 at 90 %, n = 512: 2.8, code 4.2 (at 70 %: 8.0, code 6.7). One block of short rows
/// comes back to none: 4096 x 64 at 90 %, n = 4096: 7.5 ms, code 10.
[[nodiscard]] bool near_l3_returns_to_c(const FamilyRequest& request);

/// With AVX2, whether B and C together pass L3: code, which loads half a line of B at a time, had
/// better write C past the caches (512 x 384 at 98 %, n = 4096, hot: 1.6 ms, the loop 2.3).
[[nodiscard]] bool near_l3_is_passed_with_b(const FamilyRequest& request);

}  // namespace spjit
