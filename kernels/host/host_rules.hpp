#pragma once

/// @file
/// Which family of host kernels is the fastest, by rules: what they have in common. Every figure is
/// in docs/results/host.md, and bench/choice_bench holds the rules against times.

#include <string>

#include "base/refusal.hpp"
#include "kernels/kernel_family.hpp"

namespace spjit {

[[nodiscard]] double entries_a_row(const CsrMatrix& a);
[[nodiscard]] double share_of_entries(const CsrMatrix& a);
/// Bytes of B or C, of which such a side has n columns.
[[nodiscard]] double bytes_of(std::int64_t side, std::int64_t n);
/// Hot code and its weights over L2.
[[nodiscard]] double code_of_l2(const FamilyRequest& request);

/// Whether a kernel finds all of itself in the caches when it runs again: hot, or in a network of
/// up to about 480,000 nonzeros (32 MB of L3).
[[nodiscard]] bool stays_in_caches(const FamilyRequest& request);

/// Whether that makes unrolled code faster than a loop: hot, else for n from 48 on, and up to 255
/// where A has few entries.
[[nodiscard]] bool reuses_code(const FamilyRequest& request);

/// Whether hot code is so long that each run waits for it, while few columns are computed with it:
/// over a share of L2 that grows with n. A as data is half as long and comes without waiting. Up to
/// 4 columns also where A is so small that calling code takes longest.
[[nodiscard]] bool outgrows_caches(const FamilyRequest& request);

/// Whether hot code, from a far L3, has so few entries a row that it mostly writes C. It does so a
/// panel of a row at a time, in rows that do not follow one another. A loop takes 0.5 to 0.8 of the
/// time (3121 x 16 at 95 %, n = 64: 24 us, not 46).
[[nodiscard]] bool writes_mostly_c(const FamilyRequest& request);

/// Whether a loop that adds to C block after block of A's columns has so large a C that it comes
/// from a far L3 each time: 4096 x 768 at 90 %, n = 128: 2.8 ms, code 2.1. From a near L3: whether
/// C is most of it.
[[nodiscard]] bool returns_to_large_c(const FamilyRequest& request);

/// Share of entries in an A of that many bytes with its zeros.
[[nodiscard]] double entries_of(double bytes_of_a, const CsrMatrix& a);

/// From which share of entries on A with its zeros is the fastest for n columns. Few wait for A,
/// where a zero is 4 bytes and an entry without zeros 6; for many the products take longest. MiniLM
/// with 0 to 70 % zeros, in sequence and hot (docs/results/host.md).
[[nodiscard]] double least_density(const FamilyRequest& request);

/// Whether A in slices of sixteen rows, padding included, is small enough to be faster than
/// unrolled code.
[[nodiscard]] bool prefers_windows(const CsrMatrix& a, double window_bytes);

/// Whether so few entries read a row of B, of so many columns, that packing it takes longest.
[[nodiscard]] bool barely_shares_b(const FamilyRequest& request);

/// Why a loop over the entries of A is faster than all that pack B or put them into code. Few
/// entries read a row of B, which has many columns, or nearly none read any of many rows. Hot,
/// there are fewer still, and rows of B share few sets of the caches.
[[nodiscard]] Refusal loop_preference(const FamilyRequest& request);

}  // namespace spjit
