#include "kernels/host/host_rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/arithmetic.hpp"
#include "kernels/host/near_l3_rules.hpp"
#include "kernels/host/object/csr_view.hpp"
#include "plan/operation.hpp"
#include "plan/search_policy.hpp"
#include "runtime/host/host_device_info.hpp"

namespace spjit {

double entries_a_row(const CsrMatrix& a) {
  return as_double(a.nnz()) / as_double(std::max<std::int64_t>(a.rows, 1));
}

double share_of_entries(const CsrMatrix& a) {
  return as_double(a.nnz()) / std::max(as_double(a.rows) * as_double(a.cols), 1.0);
}

double bytes_of(std::int64_t side, std::int64_t n) { return 4 * as_double(side) * as_double(n); }

double code_of_l2(const FamilyRequest& request) {
  SearchPolicy alone;
  alone.network_nnz = std::max<std::int64_t>(request.problem.a->nnz(), 1);
  return as_double(bytes_between_runs(alone)) /
         as_double(std::get<HostDeviceInfo>(request.device).l2_bytes);
}

namespace {

/// Entries of a row on average, where rows have up to two.
constexpr double k_one_or_two = 1.7;

/// Whether C is so large that rows of it come from L3 again when a kernel comes back to them.
bool c_outgrows_l2(const FamilyRequest& request, double times) {
  const auto& device = std::get<HostDeviceInfo>(request.device);
  const double bytes = bytes_of(request.problem.a->rows, request.problem.n.value);
  return bytes >= times * as_double(device.l2_bytes);
}

/// From a near L3, cold, with AVX-512 that goes row by row: 2048 x 2048 at 97 %, n = 256: 1.5 ms,
/// loop 1.9; 384 x 1536 at 95 %, n = 255: 0.45, loop 0.57.
bool has_long_rows(const CsrMatrix& a) {
  constexpr double k_long_row = 60;
  constexpr double k_some_a_column = 10;
  return entries_a_row(a) >= k_long_row && entries_a_column(a.nnz(), a.cols) >= k_some_a_column;
}

/// Where a row has few entries in a block of columns, `compact` spends its time on going from row
/// to row and on adding to C, which a loop over whole rows writes once. From a far L3, n of 32 to
/// 255, where the loop has its 64 columns of B in L2. AVX2, whose panels of C are 16 columns, from
/// 5 % of entries down, cold: 2048 x 2048 at 98 %, n = 64: 471 us, not 751; 4096 x 768 at 95 %, n =
/// 64: 746, not 1167. Hot that beats code too, of which a panel is half a cache line of each row of
/// B (1024 and more rows are more lines than L1 has): 395 us, not 627. AVX-512, cold: where C is
/// larger than L2 (4096 x 768 at 98 %, n = 128: 629 us, not 1128), or at 1 % (2048 x 2048, n = 64:
/// 239, not 325). From a near L3 cold for both, with AVX2 hot too (512 x 512 at 95 %, n = 64: 41
/// us, not 62; 384 x 1536 at 98 %: 40, not 73).
bool has_few_in_a_block(const FamilyRequest& request, bool is_hot) {
  constexpr double k_few = 0.051;
  constexpr double k_hardly_any = 0.0105;
  constexpr std::int64_t k_least_columns = 32;
  constexpr std::int64_t k_most_columns = 255;
  constexpr std::int64_t k_columns_at_once = 64;
  constexpr std::int64_t k_lines_of_l1 = 1024;
  constexpr double k_large_c = 1.75;
  const auto& device = std::get<HostDeviceInfo>(request.device);
  const CsrMatrix& a = *request.problem.a;
  const std::int64_t n = request.problem.n.value;
  const double density = share_of_entries(a);
  if (!device.l3_is_far && !is_near_l3(request)) return false;
  const std::int64_t most = device.l3_is_far ? k_most_columns : k_most_columns + 1;
  if (n < k_least_columns || n > most || density > k_few) return false;
  const double b_bytes = bytes_of(a.cols, std::min(n, k_columns_at_once));
  const double l2_bytes = as_double(device.l2_bytes);
  // `compact`, too, is a loop over whole rows there: n of 33 to 64 are one panel, which `csr` takes
  // without packing (1536 x 384 at 95 %, n = 64, cold: 94 us, not 110; n = 32: 64, `compact` 57).
  if (near_l3_suits_rows(request)) {
    const bool is_one_panel = n > k_columns_at_once / 2 && n <= k_columns_at_once;
    return b_bytes < l2_bytes && (density <= k_hardly_any || (!is_hot && is_one_panel));
  }
  if (device.isa == HostIsa::avx2)
    return b_bytes <= l2_bytes && (!is_hot || a.cols >= k_lines_of_l1);
  if (!device.l3_is_far) {
    if (near_l3_has_wide_rows(request) && has_long_rows(a)) return false;
    return device.isa == HostIsa::avx512 && !is_hot && b_bytes <= l2_bytes;
  }
  if (device.isa != HostIsa::avx512 || is_hot || b_bytes > 0.75 * l2_bytes) return false;
  return c_outgrows_l2(request, k_large_c) ||
         (density <= k_hardly_any && entries_a_column(a.nnz(), a.cols) >= k_few_entries_a_column);
}

/// Hot, from a far L3: whether a run is mostly writing C, which is larger than L2. A loop writes
/// rows of it as they follow one another; code writes a panel of each row at a time, rows of a tile
/// far apart (9840 x 656 at 99 %, n = 255: 1.8 ms, not 6.5; 9903 x 235, n = 128: 0.36, not 0.53).
bool writes_large_c_hot(const FamilyRequest& request) {
  constexpr double k_short_row = 7;
  constexpr std::int64_t k_least_columns = 64;
  constexpr std::int64_t k_most_columns = 256;
  constexpr double k_large_c = 1.75;
  const auto& device = std::get<HostDeviceInfo>(request.device);
  const std::int64_t n = request.problem.n.value;
  if (!device.l3_is_far || n < k_least_columns || n > k_most_columns) return false;
  return entries_a_row(*request.problem.a) <= k_short_row && c_outgrows_l2(request, k_large_c);
}

/// Whether at most a tenth are entries. With more, unrolled code is 1.2 to 2.5 times as fast as a
/// loop, however few rows of A there are to read a row of B (n of 192 to 512; 16 x 8192 at 60 %).
bool is_sparse(const CsrMatrix& a) {
  constexpr double k_sparse = 0.101;
  return as_double(a.nnz()) <= k_sparse * as_double(a.rows) * as_double(a.cols);
}

/// Hot, B comes from L3 where it does not fit L2, and what packs it or walks it in place, panel by
/// panel, takes longer than a loop where few entries share a row and rows share few sets of the
/// caches (1.5 times as long on AVX-512, 1.4 on AVX2: docs/results/host.md).
bool loop_is_faster_hot(const FamilyRequest& request, double entries) {
  const auto& limits = std::get<HostDeviceInfo>(request.device);
  if (limits.isa == HostIsa::generic) return false;
  if (has_few_in_a_block(request, true) || writes_large_c_hot(request)) return true;
  if (near_l3_prefers_loop(request, true)) return true;
  const Problem& problem = request.problem;
  const bool is_avx512 = limits.isa == HostIsa::avx512;
  constexpr std::int64_t k_shared_bytes = 2048;
  constexpr std::int64_t k_shared_bytes_avx2 = 512;
  constexpr double k_nearly_none = 1;  // then all of it is writing zeros to C, of many rows
  constexpr double k_long_row = 64;
  constexpr double k_very_long_row = 1024;
  constexpr double k_few = 7;
  constexpr double k_few_avx2 = 12;
  const CsrMatrix& a = *problem.a;
  const double n = as_double(problem.n.value);
  const double b_bytes = as_double(a.cols) * n * 4;
  const bool is_far = limits.l3_bytes > 0 && b_bytes > as_double(limits.l3_bytes) / 4;
  constexpr double k_few_far = 4;
  const double few = is_far ? k_few_far : is_avx512 ? k_few : k_few_avx2;
  const bool has_some = entries >= k_nearly_none || entries_a_row(a) >= k_long_row;
  // AVX2: 16 x 16384 at 90 %, n = 512: 4.4 ms, code 3.2.
  if (is_far && !is_avx512 && entries_a_row(a) >= k_very_long_row) return false;
  return row_alignment_bytes(problem.ldb()) >= (is_avx512 ? k_shared_bytes : k_shared_bytes_avx2) &&
         !near_l3_suits_rows(request) && !near_l3_is_passed_with_b(request) && has_some &&
         entries < few && is_sparse(a) && b_bytes >= as_double(limits.l2_bytes);
}

/// Whether a loop that goes through all of B for a row of C finds B there, once C has passed by.
/// From a far L3 it takes 1.1 to 3 times as long as what goes block by block (5 % entries, n of 384
/// to 1024), but where hardly any row of A reads it (159 x 1177 at 98 %, n = 192: 0.75). From a
/// near L3 until B is so large that packing it is faster; with AVX2 not where only code writes C
/// past the caches (512 x 384 at 98 %, n = 4096: 2.2 ms, code 1.6).
bool finds_b(const FamilyRequest& request, double entries) {
  constexpr double k_hardly_any = 4;
  const auto& device = std::get<HostDeviceInfo>(request.device);
  const CsrMatrix& a = *request.problem.a;
  const double bytes = 4 * as_double(a.rows + a.cols) * as_double(request.problem.n.value);
  const std::int64_t most = device.isa == HostIsa::avx512 ? device.l2_bytes / 2 : device.l2_bytes;
  if (is_near_l3(request)) {
    const bool is_streamed = should_stream_c(device, a.rows, a.cols, request.problem.n.value);
    return !near_l3_packs_b(request) && (device.isa != HostIsa::avx2 || !is_streamed);
  }
  return !device.l3_is_far || entries < k_hardly_any || bytes <= as_double(most);
}

/// Cold, where few entries share a row of B, of few that A has.
bool shares_little_cold(const FamilyRequest& request, double entries) {
  constexpr double k_nearly_none = 5;
  constexpr double k_nearly_none_near = 2;  // 64 x 20000 at 95 %, n = 32: loop 341 us, compact 203
  constexpr std::int64_t k_many_rows_of_b = 8192;
  const CsrMatrix& a = *request.problem.a;
  // 16 x 8192 at 90 %, n = 1, AVX-512: `windows` 11.7 us, the loop 23.5.
  const double nearly_none = !is_near_l3(request)           ? k_nearly_none
                             : request.problem.n.value == 1 ? 0
                                                            : k_nearly_none_near;
  if (near_l3_prefers_loop(request, false)) return true;
  return is_sparse(a) && ((barely_shares_b(request) && finds_b(request, entries)) ||
                          (a.cols >= k_many_rows_of_b && entries < nearly_none));
}

/// From a near L3, cold: 4096 x 64 at 99 %, n = 2: the loop 37 us, `windows` 20 (AVX-512), 29 and
/// 19 (AVX2).
bool has_many_short_rows(const FamilyRequest& request) {
  constexpr std::int64_t k_some = 2500;
  constexpr std::int64_t k_many_rows = 2048;
  const CsrMatrix& a = *request.problem.a;
  const std::int64_t n = request.problem.n.value;
  return is_near_l3(request) && n <= 4 && a.rows >= k_many_rows && a.nnz() >= k_some &&
         entries_a_row(a) <= k_one_or_two;
}

/// Cold, where beginning and ending a slice of rows takes longer than its entries: 256 x 64 at 90
/// %, n = 64: 6 us, not 8; 512 x 512 at 98 %, n = 128: 20 us, not 23. From a far L3 rows of B that
/// are packed come sooner: 384 x 384 at 98 %, n = 32 and 64, in 0.70 and 0.89 of the loop's time.
/// With AVX2, whose slices are computed sixteen columns at a time, short rows are so for n of 17 to
/// 256: 512 x 16 at 70 %, n = 64: 36 us, not 60. Where C bypasses the caches, only code does that,
/// and from n of 257 on it is worthwhile (9467 x 208 at 99 %, n = 256: loop 1.5 ms, code 2.9).
bool has_short_rows_cold(const FamilyRequest& request, double entries) {
  constexpr std::int64_t k_most_columns = 256;
  constexpr std::int64_t k_columns_of_a_panel = 64;
  constexpr std::int64_t k_few_near = 15'000;
  constexpr double k_short_row_near = 26;
  const std::int64_t n = request.problem.n.value;
  const auto& device = std::get<HostDeviceInfo>(request.device);
  const CsrMatrix& a = *request.problem.a;
  const bool is_streamed = should_stream_c(device, a.rows, a.cols, n);
  if (is_streamed && (!device.l3_is_far || n > k_most_columns)) return false;
  if (device.isa == HostIsa::avx2) {
    // From a near L3: 8192 x 64 at 95 %, n = 64: 258 us, not 322.
    // 256 x 384 at 95 %, n = 128: 42 us, compact 57; 1536 x 384: 213, compact 233.
    if (n > k_columns_of_a_panel && near_l3_suits_rows(request)) {
      return n <= k_most_columns && a.nnz() <= k_few_near && entries <= k_short_row_near &&
             !c_outgrows_l2(request, 1) && !stays_in_caches(request);
    }
    const double most = n < 17 ? 1 : n < 32 ? 4 : is_near_l3(request) ? 20 : 8;
    return n >= 16 && n <= k_most_columns && entries <= most;
  }
  if (device.isa != HostIsa::avx512) return false;
  // 1024 x 128 at 95 %, n = 1024: 0.55 ms, the loop 0.77.
  constexpr double k_few_of_many = 2;
  if (n > k_most_columns && near_l3_has_wide_rows(request)) return entries <= k_few_of_many;
  // One or two vectors of C: 9593 x 128 at 99 %, n = 24: 174 us, not 255. From n of 1 to 15 they
  // are less than a cache line: 4896 x 11 at 98 %, n = 8: 53 us, compact 36.
  if (device.l3_is_far && n >= 17 && n <= 32 && entries <= 2.5) return true;
  // From a far L3: 1024 x 64 at 98 %, n = 1024: 0.82 ms, the other loop 0.56, code 0.54.
  constexpr std::int64_t k_columns_from_afar = 511;
  constexpr std::int64_t k_few_rows = 16;
  if (device.l3_is_far && n > k_columns_from_afar && a.rows > k_few_rows) return false;
  return (n >= 96 && entries <= 16) || (n >= 32 && !device.l3_is_far && entries <= 8) ||
         ((n >= 16 || !device.l3_is_far) && entries <= 1 && !has_many_short_rows(request));
}

/// Hot, or a network in L2 as a whole.
bool stays_in_l2(const FamilyRequest& request) {
  const std::int64_t l2_bytes = std::get<HostDeviceInfo>(request.device).l2_bytes;
  return bytes_between_runs(request.options.policy) <= l2_bytes + l2_bytes / 2;
}

}  // namespace

bool stays_in_caches(const FamilyRequest& request) {
  // Larger ones are shared by dozens of cores, and farther away: a Xeon of 480 MB has compact at
  // 0.73 of unrolled's time where code of 30 MB stays in its L3 (MiniLM at 80 %, n = 64).
  constexpr std::int64_t k_near_bytes = std::int64_t{32} << 20;
  const std::int64_t l3_bytes =
      std::min(std::get<HostDeviceInfo>(request.device).l3_bytes, k_near_bytes);
  return bytes_between_runs(request.options.policy) <= l3_bytes / 5;
}

bool reuses_code(const FamilyRequest& request) {
  constexpr std::int64_t k_enough_columns = 48;
  // MiniLM's first layers at 80 and 90 %: n = 64 in 1.17 to 1.25 of the loop's time, 128 in 0.95.
  constexpr std::int64_t k_enough_from_afar = 128;
  // From L3, code of few entries is slower than a loop over them: 1.03 to 1.16 of the time at 95 %.
  constexpr std::int64_t k_many_columns = 256;
  constexpr double k_few_entries = 0.07;
  if (request.options.policy.hot) return true;
  const CsrMatrix& a = *request.problem.a;
  const std::int64_t n = request.problem.n.value;
  const bool is_far = std::get<HostDeviceInfo>(request.device).l3_is_far;
  if (n < (is_far ? k_enough_from_afar : k_enough_columns)) return false;
  if (!stays_in_caches(request)) return false;
  const double places = as_double(a.rows) * as_double(a.cols);
  return stays_in_l2(request) || n < k_many_columns || as_double(a.nnz()) >= k_few_entries * places;
}

namespace {

/// From a far L3, for up to 64 columns, beyond L2: 6812 x 592 at 80 %, n = 24: 1.55 ms, `compact`
/// 1.0. With 2 % of entries of a B beyond L2, for up to 255: of which code loads a row for each
/// (2176 x 3356 at 99 %, n = 128: 1.38, not 0.98).
bool waits_for_far_code(const FamilyRequest& request, double code) {
  constexpr std::int64_t k_some_columns = 16;
  constexpr std::int64_t k_most_columns = 64;
  constexpr std::int64_t k_many_columns = 255;
  constexpr double k_share = 0.015;  // 16384 x 8192 at 99 %, n = 32: code 6.0 ms, `compact` 8.5
  constexpr double k_few = 0.021;
  const auto& device = std::get<HostDeviceInfo>(request.device);
  const std::int64_t n = request.problem.n.value;
  if (!device.l3_is_far || n > k_many_columns) return false;
  const CsrMatrix& a = *request.problem.a;
  if (n > k_some_columns && n <= k_most_columns) return code > 1 && share_of_entries(a) >= k_share;
  return n > k_most_columns && code > 0.9 && share_of_entries(a) <= k_few &&
         bytes_of(a.cols, n) >= as_double(device.l2_bytes);
}

}  // namespace

bool outgrows_caches(const FamilyRequest& request) {
  const CsrMatrix& a = *request.problem.a;
  const std::int64_t n = request.problem.n.value;
  const auto& device = std::get<HostDeviceInfo>(request.device);
  const bool is_avx512 = device.isa == HostIsa::avx512;
  const std::optional<std::int64_t>& panel = request.problem.panel_columns;
  if (!request.options.policy.hot || device.isa == HostIsa::generic || (panel && *panel < n)) {
    return false;
  }
  // 2048 x 768 at 80 %, n = 16, from a near L3: code 96 us, compact 126.
  constexpr double k_far_beyond_l2 = 5;
  const double code = code_of_l2(request);
  if (n <= 4) {
    // Where few entries share a load of B there is more code than that.
    constexpr std::int64_t k_tiny = 1500;  // beginning and ending segments takes longer
    const double a_column = entries_a_column(a.nnz(), a.cols);
    return a.nnz() <= k_tiny || code > (a_column < k_few_entries_a_column ? 0.25 : 0.625);
  }
  // From an L2 of 2 MiB code comes no faster than from one of 1 MiB (AVX-512, Emerald Rapids: 384 x
  // 2048 at 98 %, n = 8: 28 us, compact 13).
  constexpr double k_most_code_avx512 = 128 << 10;
  const double most = is_avx512 ? k_most_code_avx512 / as_double(device.l2_bytes) : 1.5;
  if (n <= 8) return code > most;
  return (n <= 16 && code > (is_avx512 && is_near_l3(request) ? k_far_beyond_l2 : 2)) ||
         waits_for_far_code(request, code);
}

bool writes_mostly_c(const FamilyRequest& request) {
  constexpr double k_three = 3.3;
  constexpr std::int64_t k_some_rows = 200;
  constexpr std::int64_t k_many_rows = 2000;
  constexpr std::int64_t k_most_columns = 255;
  constexpr std::int64_t k_few_columns = 32;  // from a near L3
  const Problem& problem = request.problem;
  const auto& device = std::get<HostDeviceInfo>(request.device);
  const std::int64_t n = problem.n.value;
  const bool is_rows = problem.c.layout == Layout::row_major && !rules_of(problem).gathers_b();
  if (!request.options.policy.hot || !is_rows) return false;
  const double a_row = entries_a_row(*problem.a);
  // Too few for slices, too: 3184 x 48 at 95 %, n = 4: 8.8 us, not 12.8.
  if (n <= 4) return device.isa == HostIsa::avx512 && a_row < as_double(n) + 0.5;
  // 8192 x 16 at 95 %, n = 16, from a near L3: code 12 us, `compact` 9 (AVX-512), 14 and 10 (AVX2).
  if (!device.l3_is_far) {
    return is_near_l3(request) && n <= k_few_columns && problem.a->rows >= k_many_rows &&
           a_row <= k_one_or_two;
  }
  return device.isa == HostIsa::avx512 && n <= k_most_columns &&
         ((problem.a->rows >= k_some_rows && a_row <= k_one_or_two) ||
          (problem.a->rows >= k_many_rows && a_row <= k_three));
}

bool returns_to_large_c(const FamilyRequest& request) {
  constexpr std::int64_t k_least_columns = 96;
  constexpr double k_large_c = 1.75;
  constexpr std::int64_t k_columns_of_a_block = 128;
  const auto& device = std::get<HostDeviceInfo>(request.device);
  const CsrMatrix& a = *request.problem.a;
  const std::int64_t n = request.problem.n.value;
  if (!device.l3_is_far) {
    return n >= k_least_columns && near_l3_returns_to_c(request);
  }
  return device.isa == HostIsa::avx512 && n >= k_least_columns && a.cols > k_columns_of_a_block &&
         c_outgrows_l2(request, k_large_c);
}

/// Where hardly any lane of a step has an entry, unrolled code reads less; as long as all of it
/// stays in the L2 cache that does not matter.
bool prefers_windows(const CsrMatrix& a, double window_bytes) {
  constexpr double k_most_bytes_a_nonzero = 40;
  constexpr double k_small_bytes = 1 << 18;
  return window_bytes <= k_small_bytes ||
         window_bytes <= as_double(a.nnz()) * k_most_bytes_a_nonzero;
}

double entries_of(double bytes_of_a, const CsrMatrix& a) {
  return bytes_of_a > 0 ? 4 * as_double(a.nnz()) / bytes_of_a : 0;
}

double least_density(const FamilyRequest& request) {
  constexpr double k_few_zeros_hot = 0.28;
  constexpr double k_most_l2 = 4;
  constexpr std::int64_t k_few_columns = 4;
  const std::int64_t n = request.problem.n.value;
  const auto& device = std::get<HostDeviceInfo>(request.device);
  const CsrMatrix& a = *request.problem.a;
  const bool is_near = is_near_l3(request);
  if (is_near && n <= k_few_columns) return near_l3_least_density(request);
  const double bytes = 4 * as_double(a.rows) * as_double(a.cols);
  const auto l2_bytes = as_double(device.l2_bytes);
  const bool is_hot = request.options.policy.hot;
  if (device.isa == HostIsa::avx2 && n <= k_few_columns && is_hot &&
      bytes <= k_most_l2 * l2_bytes) {
    return k_few_zeros_hot;
  }
  // From a near L3, from memory or cold: 4096 x 2048 at 50 %, n = 4: `compact` 1.5 ms, 2.0.
  if (n <= 5) return is_near && !(is_hot && bytes <= k_most_l2 * l2_bytes) ? 0.55 : 0.45;
  if (const std::optional<double> least = near_l3_least_of_some(request)) return *least;
  if (n <= 48) return 0.65;
  // AVX2: 1024 x 1024 at 25 %, n = 256, cold: `compact` 5.5 ms, 7.6; at 15 %: 5.9, 5.8.
  return near_l3_suits_rows(request) ? 0.82 : 0.75;
}

bool barely_shares_b(const FamilyRequest& request) {
  const Problem& problem = request.problem;
  const bool is_avx512 = request.options.target.isa() == HostIsa::avx512;
  if (problem.b.layout == Layout::tokens_major || rules_of(problem).gathers_b())
    return false;  // copied anyway
  if (near_l3_suits_rows(request)) return false;
  return problem.n.value >= (is_avx512 ? k_far_columns : k_far_columns / 2) &&
         entries_a_column(problem.a->nnz(), problem.a->cols) < k_few_entries_a_column;
}

namespace {

/// Whether each filter reads one channel, in their order. Rows of `a` are sorted.
bool is_depthwise(const CsrMatrix& a, const Convolution& of) {
  if (of.channels == 1 || a.rows == 0 || a.rows % of.channels != 0) return false;
  const std::int64_t taps = of.kernel_height * of.kernel_width;
  for (std::int64_t row = 0; row < a.rows; ++row) {
    const auto begin = to_size(a.row_ptrs[to_size(row)]);
    const auto end = to_size(a.row_ptrs[to_size(row) + 1]);
    const std::int64_t first = row / (a.rows / of.channels) * taps;
    const bool reads_others =
        begin < end && (a.col_idxs[begin] < first || a.col_idxs[end - 1] >= first + taps);
    if (reads_others) return false;
  }
  return true;
}

/// Of a convolution, whose rows of B are in planes that a group of columns has in the caches: with
/// AVX2, 6 entries (ResNet-50's 64 filters at 90 %) take 0.95 of compact's time and 0.75 of
/// unrolled's, 13 (128 filters) 1.05, depthwise ones 0.15 to 0.3 of unrolled's.
Refusal loop_preference_of_image(const FamilyRequest& request) {
  constexpr double k_few = 8;
  const CsrMatrix& a = *request.problem.a;
  const double a_column = entries_a_column(a.nnz(), a.cols);
  if (a_column >= k_few) return Refusal::none();
  if (is_depthwise(a, *request.problem.convolution)) {
    // A pruned detector at 90 %, AVX2: oneDNN's dense depthwise ones take 0.3 to 1.2 of the time.
    return Refusal(
        "a depthwise convolution: a loop over its entries is the fastest here, and a library's "
        "dense one up to 3 times as fast");
  }
  return Refusal(fmt::format(
      "{:.1f} entries of A read a row of patches: a loop over them is faster", a_column));
}

/// Cold, where all that a kernel does takes as long as its code takes to come, of which a loop has
/// the least: 16 x 24 at 80 %, n = 4: 8 us, not 18 (AVX2), 14, not 23 (AVX-512).
bool is_tiny_cold(const FamilyRequest& request) {
  constexpr std::int64_t k_tiny = 500;
  constexpr std::int64_t k_tiny_near = 3300;  // 64 x 256 at 80 %, n = 64: 12.3 us, compact 14.5
  // Of `windows` 140 x 32 at 90 %, n = 1: 7.3 us, not 9.5; AVX2: 128 x 96 at 90 %: 8.3, not 7.4.
  constexpr std::int64_t k_tiny_for_windows_far = 250;
  constexpr std::int64_t k_tiny_for_windows = 700;
  constexpr std::int64_t k_tiny_for_windows_avx2 = 2000;
  const std::int64_t nnz = request.problem.a->nnz();
  constexpr std::int64_t k_most_columns = 64;
  // 16 x 64 at 60 %, n = 128: 11 us, compact 19.
  constexpr std::int64_t k_hardly_any = 700;
  constexpr std::int64_t k_most_columns_near = 256;
  // AVX2: 512 x 256 at 95 %, n = 8: 15 us, compact 20; 128 x 384 at 90 %, n = 4: 11, compact 17.
  constexpr std::int64_t k_tiny_avx2 = 7000;
  constexpr std::int64_t k_most_columns_avx2 = 8;
  constexpr double k_long_row = 10;
  // 128 x 128 at 80 %, n = 2: `windows` 7.7 us, the loop 11 (AVX-512); at 60 %, n = 3: 10.6, 12.8
  // (AVX2; 64 x 256 at 80 %, n = 4: 16, 11).
  constexpr std::int64_t k_tiny_for_windows_near = 3000;
  const auto& device = std::get<HostDeviceInfo>(request.device);
  const bool is_avx512 = device.isa == HostIsa::avx512;
  const bool is_near = is_near_l3(request);
  const std::int64_t n = request.problem.n.value;
  const bool has_windows = n == 1 && (is_avx512 || is_near);
  if (nnz == 0 || stays_in_caches(request) || has_many_short_rows(request)) return false;
  if (is_near && nnz <= k_hardly_any && n <= k_most_columns_near) return true;
  const bool is_of_windows =
      is_near && n > 1 && (is_avx512 || n < 4) && near_l3_prefers_windows(request);
  if (is_of_windows) return nnz <= k_tiny_for_windows_near;
  const bool has_long_rows = n > 4 || entries_a_row(*request.problem.a) >= k_long_row;
  const bool is_of_few_columns = n > 2 && n <= k_most_columns_avx2;
  if (is_near && !is_avx512 && is_of_few_columns && has_long_rows && nnz <= k_tiny_avx2) {
    return true;
  }
  const std::int64_t tiny = !has_windows       ? (is_near ? k_tiny_near : k_tiny)
                            : device.l3_is_far ? k_tiny_for_windows_far
                            : !is_near         ? k_tiny
                            : is_avx512        ? k_tiny_for_windows
                                               : k_tiny_for_windows_avx2;
  return nnz <= tiny && n <= k_most_columns;
}

}  // namespace

Refusal loop_preference(const FamilyRequest& request) {
  const Problem& problem = request.problem;
  if (rules_of(problem).has_images()) return loop_preference_of_image(request);
  const bool reads_rows = rules_of(problem).has_rows_of_b(problem.b.layout);
  if (problem.n.runtime || problem.panel_columns || !reads_rows) return Refusal::none();
  // From L3 code is slower than the loop where that is faster from memory.
  const bool is_hot = reuses_code(request) && stays_in_l2(request);
  const double a_column = entries_a_column(problem.a->nnz(), problem.a->cols);
  if (is_hot ? loop_is_faster_hot(request, a_column) : shares_little_cold(request, a_column)) {
    return Refusal(fmt::format(
        "{:.1f} entries of A read a row of B, of {} columns: a loop over them is faster", a_column,
        problem.n.value));
  }
  if (is_tiny_cold(request)) {
    return Refusal(fmt::format("A has {} entries: they take less time than to fetch other code",
                               problem.a->nnz()));
  }
  if (!is_hot && has_few_in_a_block(request, false)) {
    return Refusal(
        fmt::format("{:.1f} % of A are entries: a loop comes to a row of C once, not for a few "
                    "entries at a time",
                    100 * share_of_entries(*problem.a)));
  }
  const double a_row = entries_a_row(*problem.a);
  if (is_hot || !has_short_rows_cold(request, a_row)) return Refusal::none();
  return Refusal(
      fmt::format("rows of A have {:.1f} entries: a loop over them is faster for n of {}", a_row,
                  problem.n.value));
}

}  // namespace spjit
