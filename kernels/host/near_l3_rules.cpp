#include "kernels/host/near_l3_rules.hpp"

#include <array>
#include <cstdint>
#include <optional>

#include "base/arithmetic.hpp"
#include "kernels/host/host_rules.hpp"
#include "kernels/host/loops/compact_cpu.hpp"
#include "kernels/host/loops/compact_kernel.hpp"
#include "kernels/host/object/csr_view.hpp"
#include "kernels/host/operands/window_shape.hpp"
#include "plan/operation.hpp"
#include "runtime/host/host_device_info.hpp"

namespace spjit {
namespace {

/// Fewer are computed with the row of B where it is.
constexpr double k_entries_that_share = 4;
/// Of L2: packing such a B is faster than reading it where it is.
constexpr double k_large_b = 4;
/// Rows that are so many bytes apart have one set of L1.
constexpr std::int64_t k_page_bytes = 4096;
/// Of AVX2: more are computed by code even of few rows.
constexpr double k_many_entries = 0.15;
/// Of which the other cores and the rest of the run need some.
constexpr double k_most_of_l3 = 0.375;

/// Rows of A that mostly have no entry, or one.
constexpr double k_empty_row = 1.7;  // hot, AVX2: 512 x 64 at 99 %, n = 2: 0.6 us, `compact` 1.3

/// Entries of a row on average, where rows have up to three.
constexpr double k_three = 3.3;
/// Shares of entries: of a matrix at 99 and at 90 %.
constexpr double k_hundredth = 0.0105;
constexpr double k_tenth = 0.095;

/// Shares of entries, for n of 1 to 4.
using OfFewColumns = std::array<double, k_most_window_columns>;

double bytes_of_b(const FamilyRequest& request) {
  return bytes_of(request.problem.a->cols, request.problem.n.value);
}

double bytes_of_c(const FamilyRequest& request) {
  return bytes_of(request.problem.a->rows, request.problem.n.value);
}

/// Whether entries read a row of B, of many columns, often enough for packing it, if seldom.
bool shares_b_a_little(const FamilyRequest& request) {
  const CsrMatrix& a = *request.problem.a;
  return barely_shares_b(request) && entries_a_column(a.nnz(), a.cols) >= k_entries_that_share;
}

/// Whether B is half of L2, or C four times that: 2048 x 2048 at 97 %, n = 128, hot, AVX-512:
/// `compact` 0.71 ms, code 1.0; 16384 x 64 at 90 %, n = 64: 0.25, code 0.43.
bool has_large_operand(const FamilyRequest& request) {
  constexpr double k_large_c = 4;
  const auto l2_bytes = as_double(std::get<HostDeviceInfo>(request.device).l2_bytes);
  return bytes_of_b(request) >= l2_bytes / 2 || bytes_of_c(request) >= k_large_c * l2_bytes;
}

/// Whether code is too long. AVX2: 2048 x 512 at 95 %, n = 16, hot: 40 us, compact 25; 1024 x 128
/// at 70 %, n = 512: 0.67 ms, compact 0.77. AVX-512: where a panel of B, a line a row, is a quarter
/// of L2: 2048 x 4096 at 90 %, n = 64: 2.6 ms, compact 1.8; 768 x 3072: 0.37, compact 0.44.
bool has_long_code(const FamilyRequest& request) {
  constexpr double k_long_avx2 = 0.6;
  constexpr double k_long_of_two = 0.4;  // vectors: 4096 x 768 at 99 %, n = 16: 32 us, compact 23
  constexpr double k_long_of_large_b = 0.28;
  constexpr double k_beyond_l1 = 2.5;
  constexpr double k_long = 1.25;
  constexpr double k_long_of_rows = 2;  // 768 x 3072 at 80 %, n = 128: 2.0 ms, code 2.9
  constexpr double k_far_beyond_l2 = 12;
  constexpr std::int64_t k_many_rows = 8192;
  constexpr std::int64_t k_line_bytes = 64;
  constexpr std::int64_t k_many_columns = 256;
  const auto& device = std::get<HostDeviceInfo>(request.device);
  const double code = code_of_l2(request);
  const CsrMatrix& a = *request.problem.a;
  const std::int64_t n = request.problem.n.value;
  if (device.isa == HostIsa::avx2) {
    // 64 x 4096 at 80 %, n = 128: code 232 us, compact 385; 1536 x 384, n = 600: 2.5 ms, 3.6.
    const bool has_few_rows = share_of_entries(a) > k_many_entries &&
                              entries_a_column(a.nnz(), a.cols) < k_few_entries_a_column &&
                              bytes_of_b(request) < k_large_b * as_double(device.l2_bytes);
    const bool reuses_b = n > k_many_columns && bytes_of_b(request) < as_double(device.l2_bytes);
    // 768 x 1536 at 98 %, n = 16: 34 us, compact 18.
    const bool leaves_l1 = bytes_of_b(request) >= k_beyond_l1 * as_double(device.l1d_bytes);
    const double longest = n > 16 ? k_long_avx2 : leaves_l1 ? k_long_of_large_b : k_long_of_two;
    return request.options.policy.hot && code > longest && !has_few_rows && !reuses_b &&
           !should_stream_c(device, a.rows, a.cols, n);
  }
  if (near_l3_has_wide_rows(request)) {
    return code > k_long_of_rows || (code > 1 && has_large_operand(request));
  }
  // 768 x 4096 at 90 %, n = 16: 271 us, compact 179; 8192 x 384 at 60 %, n = 32: 2.2 ms,
  // compact 1.2.
  const std::int64_t least_bytes = n > 16 ? device.l2_bytes / 4 : device.l2_bytes / 8;
  // 8192 x 256 at 70 %, n = 32: 1.6 ms, compact 0.63.
  if (n > 16 && a.rows >= k_many_rows && code > k_long_of_rows) return true;
  return code > k_far_beyond_l2 || (code > k_long && a.cols * k_line_bytes >= least_bytes);
}

/// Whether A takes most of L3 (2048 x 16384 at 90 %, n = 4, AVX2: 2.8 ms, `compact` 4.2).
bool is_from_memory(const FamilyRequest& request) {
  const auto& device = std::get<HostDeviceInfo>(request.device);
  constexpr double k_entry_bytes = 8;
  return k_entry_bytes * as_double(request.problem.a->nnz()) > as_double(device.l3_bytes) / 2;
}

/// AVX-512: a step of `windows` takes all its lanes, of which short rows fill few: 2048 x 256 at
/// 98 %, n = 2: 5.9 us, `compact` 4.2; 64 x 256 at 90 %, n = 4: 0.94, `compact` 1.25.
bool suits_windows_hot(const FamilyRequest& request) {
  constexpr double k_few = 0.025;
  constexpr double k_some_a_row = 8;
  constexpr double k_more = 0.15;
  constexpr double k_twelve = 12;
  constexpr std::int64_t k_many = 100'000;
  constexpr std::int64_t k_hardly_any = 1000;
  constexpr std::int64_t k_few_entries = 2000;
  constexpr std::int64_t k_rows_of_a_group = 16;
  const CsrMatrix& a = *request.problem.a;
  const std::int64_t n = request.problem.n.value;
  const double density = share_of_entries(a);
  const double a_row = entries_a_row(a);
  // 8192 x 4096 at 99 %, n = 1: 216 us, `compact` 156.
  if (n == 1) return density >= k_hundredth || a.nnz() <= k_many;
  if (a.rows <= k_rows_of_a_group) return true;  // 16 x 16 at 98 %, n = 4: 0.09 us, `compact` 0.13
  if (n == 2) {
    const bool is_shared = entries_a_column(a.nnz(), a.cols) >= k_entries_that_share;
    // 768 x 128 at 98 %: 1.2 us, `compact` 1.8.
    return density >= k_few || a_row <= k_three || a_row >= k_some_a_row || !is_shared;
  }
  // 384 x 384 at 90 %, n = 4: 4.8 us, `compact`, of one block, 4.2; 384 x 1024: 14, 20; 64 x 64:
  // 0.24, 0.30.
  if (a.nnz() <= k_hardly_any) return density >= k_tenth;
  const bool is_of_one_block = a.cols <= CompactMatrix::k_most_packed_columns;
  if (n == 4 && is_of_one_block && a.nnz() > k_few_entries) return density >= k_more;
  const bool has_a_tenth = a_row >= k_twelve && !is_from_memory(request);
  return density >= (has_a_tenth ? k_tenth : k_more);
}

/// Few rows, whose entries no other row has: packing B costs more than they do. 64 x 20000 at 98 %,
/// n = 4, hot, AVX-512: 22 us, `compact` 29; n = 1, cold, AVX2: 44 us, `compact` 53.
bool has_long_rows_apart(const FamilyRequest& request, bool is_hot) {
  constexpr double k_long_row = 256;
  constexpr double k_long_row_avx2 = 128;  // 128 x 8192 at 98 %, n = 1, cold: 40 us, `compact` 72
  const CsrMatrix& a = *request.problem.a;
  const bool is_avx512 = std::get<HostDeviceInfo>(request.device).isa == HostIsa::avx512;
  const bool is_measured = is_avx512 ? is_hot : !is_hot && request.problem.n.value == 1;
  return is_measured && entries_a_row(a) >= (is_avx512 ? k_long_row : k_long_row_avx2) &&
         entries_a_column(a.nnz(), a.cols) < k_entries_that_share;
}

/// Rows that have few entries, which `windows` takes eight or more at a time. Hot, AVX2: 768 x 128
/// at 98 %, n = 2: 1.1 us, `compact` 1.8; 1024 x 64 at 90 %, n = 4: 4.1, `compact` 5.4. Cold, where
/// there are many: 4096 x 64 at 99 %, n = 2: 19 us, `compact` 26.
bool has_short_rows_for_windows(const FamilyRequest& request, bool is_hot) {
  constexpr double k_some = 8;
  constexpr std::int64_t k_many_rows = 2048;
  const CsrMatrix& a = *request.problem.a;
  const double a_row = entries_a_row(a);
  const std::int64_t n = request.problem.n.value;
  if (!is_hot) return a.rows >= k_many_rows && n == 2 && a_row <= 1;
  if (a_row <= (n == 2 ? k_three : k_empty_row)) return true;
  return n > 2 && a_row <= k_some && share_of_entries(a) >= k_tenth;
}

/// With AVX2, whether a run hardly does anything but write zeros to a large C, which only code does
/// past the caches: 512 x 16 at 98 %, n = 4096, cold: 516 us, `compact` 720, the loop 788.
bool writes_large_zeros(const FamilyRequest& request) {
  constexpr double k_half = 0.5;
  const auto& device = std::get<HostDeviceInfo>(request.device);
  return device.isa == HostIsa::avx2 && entries_a_row(*request.problem.a) < k_half &&
         bytes_of_c(request) > as_double(device.l3_bytes) / 8;
}

/// Hot, AVX-512: code and `compact` come back to C for each block of columns of A, of which a row
/// has few entries. 2048 x 2048 at 99 %, n = 128: 213 us, `compact` 271, code 281.
bool has_few_of_many_columns(const FamilyRequest& request) {
  constexpr double k_few = 0.0155;
  constexpr std::int64_t k_least_columns = 2048;
  constexpr std::int64_t k_most_columns = 4096;
  constexpr std::int64_t k_least_n = 65;
  constexpr std::int64_t k_most_n = 256;
  const CsrMatrix& a = *request.problem.a;
  const std::int64_t n = request.problem.n.value;
  return a.cols >= k_least_columns && a.cols <= k_most_columns && n >= k_least_n && n <= k_most_n &&
         a.rows >= k_least_columns && share_of_entries(a) <= k_few;
}

/// Hot, rows of B and C are whole kilobytes apart, of one set of L1 each, and have few entries of
/// A. AVX-512: 8192 x 768 at 99 %, n = 256: 1.2 ms, code 2.4. Both: 256 x 16 at 90 %, n = 1024: 23
/// us, `compact` 37, code 43.
bool writes_rows_in_one_set(const FamilyRequest& request) {
  constexpr std::int64_t k_some_bytes = 1024;
  constexpr std::int64_t k_many_bytes = 2048;
  constexpr double k_few = 0.021;
  constexpr double k_four = 4.3;
  constexpr double k_short_row = 8;
  constexpr double k_large_c = 4;
  const auto& device = std::get<HostDeviceInfo>(request.device);
  const bool is_avx512 = device.isa == HostIsa::avx512;
  const CsrMatrix& a = *request.problem.a;
  const std::int64_t apart = row_alignment_bytes(request.problem.n.value);
  if (near_l3_is_passed_by_c(request) || apart < k_some_bytes) return false;
  // AVX-512: 512 x 128 at 98 %, n = 512: 48 us, code 60; 256 x 16 at 95 %, n = 256: 3.8 us,
  // code 6.8. Both: 256 x 384 at 99 %, n = 512: 32 us, code 48 (AVX-512), 29 and 39 (AVX2).
  const bool is_nearly_empty = share_of_entries(a) <= k_hundredth;
  const double shortest = apart < k_many_bytes ? k_empty_row
                          : is_nearly_empty    ? k_four
                          : is_avx512          ? k_three
                                               : k_empty_row;
  if (entries_a_row(a) <= shortest && !writes_large_zeros(request)) return true;
  return is_avx512 && share_of_entries(a) <= k_few && entries_a_row(a) <= k_short_row &&
         bytes_of_c(request) >= k_large_c * as_double(device.l2_bytes);
}

/// Of a B that is as large as L3. Cold, its rows are read often: 1024 x 2048 at 95 %, n = 4096: 19
/// ms, code 27 (AVX2), 24 and 32 (AVX-512). AVX2: they are pages apart: 384 x 4096 at 99 %, n =
/// 4096: 11 ms, the loop 17, code 37; hot 12, 20, 38.
bool packs_b_from_memory(const FamilyRequest& request) {
  constexpr double k_long_row = 64;
  constexpr double k_often = 32;
  constexpr double k_some_a_row = 32;
  constexpr double k_sometimes = 3;
  const auto& device = std::get<HostDeviceInfo>(request.device);
  const CsrMatrix& a = *request.problem.a;
  const double a_row = entries_a_row(a);
  const double a_column = entries_a_column(a.nnz(), a.cols);
  // AVX-512: 1536 x 1024 at 95 %, n = 4096: 13 ms, code 18.
  const double least = device.isa == HostIsa::avx512 ? 0.5 : 1;
  if (bytes_of_b(request) < least * as_double(device.l3_bytes)) return false;
  const bool is_large = bytes_of_b(request) >= as_double(device.l3_bytes);
  if (!request.options.policy.hot && a_row >= (is_large ? k_long_row : k_some_a_row) &&
      a_column >= k_often) {
    return true;
  }
  return device.isa == HostIsa::avx2 && a_row >= k_some_a_row && a_column >= k_sometimes &&
         row_alignment_bytes(request.problem.n.value) >= k_page_bytes;
}

/// Whether packing B is faster than code that does not. AVX2, whose code loads half a line at a
/// time, even where B stays in L2, unless many of A are entries (384 x 256 at 95 %, n = 256: 45 us,
/// code 60; 16 x 1024 at 60 %, n = 256: 68 us, code 51).
bool code_packs_too_little(const FamilyRequest& request) {
  constexpr double k_most_l2 = 0.25;
  const auto& device = std::get<HostDeviceInfo>(request.device);
  if (device.isa != HostIsa::avx2) return near_l3_packs_b(request);
  return shares_b_a_little(request) && share_of_entries(*request.problem.a) <= k_many_entries &&
         bytes_of_b(request) >= k_most_l2 * as_double(device.l2_bytes);
}

}  // namespace

bool is_near_l3(const FamilyRequest& request) {
  const Problem& problem = request.problem;
  const auto& device = std::get<HostDeviceInfo>(request.device);
  // Of one token rows are of one float.
  const bool has_rows = problem.c.layout == Layout::row_major || problem.n.value == 1;
  const bool is_rows = has_rows && !rules_of(problem).gathers_b();
  return is_rows && !device.l3_is_far && device.l3_bytes > 0 && device.isa != HostIsa::generic &&
         !problem.n.runtime && !problem.panel_columns &&
         (request.options.policy.hot || !stays_in_caches(request));
}

bool near_l3_suits_rows(const FamilyRequest& request) {
  constexpr double k_entries = 6;  // of a column
  constexpr double k_entries_of_long_rows =
      3;  // cold: 16 x 8192 at 80 %, n = 256: 0.76 ms, code 1.27
  constexpr double k_long_row = 256;
  constexpr double k_short_row = 1.5;  // entries of A, written as a row of many columns
  constexpr std::int64_t k_many_columns = 256;
  constexpr double k_few_products = 420'000;  // hot
  constexpr double k_row_of_large_c = 12;
  constexpr double k_largest_c = 0.625;  // of L3: 8192 x 128 at 90 %, n = 512: 2.5 ms, code 3.2
  constexpr std::int64_t k_most_columns = 1024;  // of a C that passes L3, or with B does
  const auto& device = std::get<HostDeviceInfo>(request.device);
  const Problem& problem = request.problem;
  const CsrMatrix& a = *problem.a;
  const std::int64_t n = problem.n.value;
  if (device.isa != HostIsa::avx2 || device.l3_bytes == 0) return false;
  if (n < k_wide_columns || rules_of(problem).has_images()) return false;
  if (problem.panel_columns && *problem.panel_columns < k_wide_columns) return false;
  const bool has_long_rows = !request.options.policy.hot && entries_a_row(a) >= k_long_row;
  const double least = has_long_rows ? k_entries_of_long_rows : k_entries;
  if (entries_a_column(a.nnz(), a.cols) < least) return false;
  if (entries_a_row(a) < k_short_row && n >= k_many_columns) return false;
  if (request.options.policy.hot && as_double(a.nnz()) * as_double(n) <= k_few_products) {
    return false;
  }
  if (!near_l3_is_passed_by_c(request) && !near_l3_is_passed_with_b(request)) return true;
  const bool is_passed = bytes_of_c(request) > k_largest_c * as_double(device.l3_bytes);
  return n <= k_most_columns && entries_a_row(a) >= k_row_of_large_c && !is_passed;
}

bool near_l3_prefers_compact(const FamilyRequest& request) {
  constexpr std::int64_t k_ways = 16;  // of L1 and the lines that wait for it
  if (near_l3_suits_rows(request)) return true;
  if (!is_near_l3(request)) return false;
  const auto& device = std::get<HostDeviceInfo>(request.device);
  const std::int64_t n = request.problem.n.value;
  const std::int64_t masked = device.isa == HostIsa::avx2 ? 7 : 8;  // half a vector of AVX-512
  if (n <= masked) return request.options.policy.hot;
  if (packs_b_from_memory(request)) return true;
  if (near_l3_returns_to_c(request) || near_l3_is_passed_with_b(request)) return false;
  if (writes_large_zeros(request)) return false;
  const bool is_shared = row_alignment_bytes(n) >= k_page_bytes && request.problem.a->rows > k_ways;
  return has_long_code(request) || is_shared || code_packs_too_little(request);
}

bool near_l3_packs_b(const FamilyRequest& request) {
  const auto& device = std::get<HostDeviceInfo>(request.device);
  return is_near_l3(request) && shares_b_a_little(request) && !near_l3_is_passed_with_b(request) &&
         bytes_of_b(request) >= k_large_b * as_double(device.l2_bytes);
}

bool near_l3_prefers_windows(const FamilyRequest& request) {
  constexpr OfFewColumns k_cold_avx512 = {0.03, 0.025, 0.06, 0.06};
  constexpr OfFewColumns k_hot_avx2 = {0, 0.025, 0.15, 0.15};
  constexpr OfFewColumns k_cold_avx2 = {0.045, 0.03, 0.12, 0.12};
  // 32 x 3072 at 98 %, n = 1, cold, AVX2: 13.5 us, `compact` 22.5.
  constexpr std::int64_t k_short = 32'000;
  constexpr std::int64_t k_short_avx2 = 21'000;  // 512 x 768 at 95 %, n = 1: 19 us, `compact` 27
  constexpr double k_from_memory = 0.095;        // AVX2
  constexpr std::int64_t k_many = 250'000;
  constexpr double k_of_many = 0.25;
  // AVX2. 2048 x 2048 at 80 %, n = 3: 436 us, `compact` 359.
  constexpr std::int64_t k_many_avx2 = 400'000;
  constexpr double k_of_many_avx2 = 0.35;
  constexpr std::int64_t k_few_hot = 7000;
  // n = 4: 1024 x 1024 at 80 %: 126 us, `compact` 96; hot 75, 63.
  constexpr std::int64_t k_some = 50'000;
  constexpr std::int64_t k_some_hot = 4000;
  const auto& device = std::get<HostDeviceInfo>(request.device);
  const Extent& n = request.problem.n;
  const CsrMatrix& a = *request.problem.a;
  if (device.l3_is_far || n.runtime || !has_windows(device.isa, n.value)) return false;
  if (a.cols > window_shape(device.isa).most_cols()) return false;
  const bool is_avx512 = device.isa == HostIsa::avx512;
  if (n.value == 1 && a.nnz() <= (is_avx512 ? k_short : k_short_avx2)) return true;
  const bool is_hot = stays_in_caches(request);
  if (has_long_rows_apart(request, is_hot)) return true;
  const std::size_t place = to_size(n.value - 1);
  if (is_hot && is_avx512) return suits_windows_hot(request);
  if (!(is_avx512 && is_hot) && has_short_rows_for_windows(request, is_hot)) return true;
  if (!is_hot && !is_avx512 && is_from_memory(request)) {
    return share_of_entries(a) >= std::min(k_from_memory, k_cold_avx2.at(place));
  }
  // AVX-512: 8192 x 768 at 90 %, n = 4: 453 us, `compact` 287; 1024 x 768 at 70 %: 144, 195.
  if (!is_hot && is_avx512 && n.value > 2 && a.nnz() > k_many) {
    return share_of_entries(a) >= k_of_many;
  }
  if (!is_avx512 && n.value > 2 && !is_from_memory(request)) {
    const bool is_shared = entries_a_column(a.nnz(), a.cols) >= k_few_entries_a_column;
    if (n.value == 4 && is_shared && a.nnz() > (is_hot ? k_some_hot : k_some)) return false;
    // 128 x 128 at 90 %, n = 3, hot: 0.71 us, `compact` 0.93; 384 x 384: 5.8, 5.1.
    if (is_hot && n.value == 3 && a.nnz() <= k_few_hot) return share_of_entries(a) >= k_tenth;
    if (!is_hot && a.nnz() > k_many_avx2) return share_of_entries(a) >= k_of_many_avx2;
  }
  const OfFewColumns& least = is_avx512 ? k_cold_avx512 : is_hot ? k_hot_avx2 : k_cold_avx2;
  return share_of_entries(a) >= least.at(place);
}

double near_l3_least_density(const FamilyRequest& request) {
  // Hot, with all of A in L2, up to four times L2 (AVX-512: three), and above; cold.
  // AVX-512: 256 x 256 at 60 %, n = 2: 3.0 us, `windows` 3.9; 1024 x 1024 at 50 %, n = 3: 121, 104.
  // AVX2: 384 x 384 at 70 %, n = 2: 7.5, 9.0; 2048 x 2048 at 50 %, n = 3: 750, 520.
  constexpr std::array<OfFewColumns, 4> k_avx512 = {{{0.48, 0.38, 0.38, 0.38},
                                                     {0.65, 0.48, 0.48, 0.48},
                                                     {0.65, 0.65, 0.65, 0.65},
                                                     {0.75, 0.75, 0.75, 0.75}}};
  constexpr std::array<OfFewColumns, 4> k_avx2 = {{{0.45, 0.28, 0.28, 0.28},
                                                   {0.62, 0.45, 0.33, 0.33},
                                                   {0.68, 0.6, 0.6, 0.45},
                                                   {0.68, 0.75, 0.6, 0.6}}};
  constexpr OfFewColumns k_of_few_rows = {0.55, 0.45, 0.45, 0.45};
  constexpr OfFewColumns k_of_few_rows_avx2 = {0.45, 0.33, 0.28, 0.28};
  constexpr double k_few_l2 = 3;
  constexpr double k_few_l2_avx2 = 4;
  constexpr std::int64_t k_some_rows = 64;
  constexpr double k_of_some_rows = 0.39;
  constexpr std::int64_t k_two_windows = 16;  // columns
  const auto& device = std::get<HostDeviceInfo>(request.device);
  const CsrMatrix& a = *request.problem.a;
  const double of_l2 = bytes_of(a.rows, a.cols) / as_double(device.l2_bytes);
  const bool is_avx2 = device.isa == HostIsa::avx2;
  const double few_l2 = is_avx2 ? k_few_l2_avx2 : k_few_l2;
  const std::size_t place = !request.options.policy.hot ? 3 : of_l2 > few_l2 ? 2 : of_l2 > 1;
  const std::int64_t n = request.problem.n.value;
  // AVX2: 256 x 1024 at 60 %, n = 1: 16 us, `windows` 21; 64 x 16 at 60 %, n = 2: 0.24 us, 0.18.
  if (is_avx2 && place == 0 && n == 1 && a.rows >= k_some_rows) return k_of_some_rows;
  if (is_avx2 && place == 0 && n == 2 && a.cols <= k_two_windows) return k_avx2[place][0];
  // AVX-512: 16 x 4096 at 50 %, n = 1: 4.8 us, `windows` 2.9; 64 x 16 at 60 %, n = 2: 0.33, 0.22.
  // AVX2: 16 x 16384 at 70 %, n = 2: 26, 21.
  if (place == 0 && (a.rows < k_some_rows || (!is_avx2 && a.cols <= k_two_windows))) {
    return (is_avx2 ? k_of_few_rows_avx2 : k_of_few_rows).at(to_size(n - 1));
  }
  const auto& least = is_avx2 ? k_avx2 : k_avx512;
  return least.at(place).at(to_size(n - 1));
}

std::optional<double> near_l3_least_of_some(const FamilyRequest& request) {
  constexpr double k_half = 0.48;       // n = 6: 384 x 384: 16 us, `compact` 18
  constexpr double k_few_zeros = 0.55;  // n = 7: at 40 %: 19 us, `compact` 22; at 50 %: 19, 18
  constexpr double k_most_l2 = 4;
  const auto& device = std::get<HostDeviceInfo>(request.device);
  const CsrMatrix& a = *request.problem.a;
  const std::int64_t n = request.problem.n.value;
  const bool is_near = bytes_of(a.rows, a.cols) <= k_most_l2 * as_double(device.l2_bytes);
  if (!is_near_l3(request) || device.isa != HostIsa::avx512 || !request.options.policy.hot) {
    return std::nullopt;
  }
  if (!is_near || n < 6 || n > 7) return std::nullopt;
  return n == 6 ? k_half : k_few_zeros;
}

bool near_l3_prefers_loop(const FamilyRequest& request, bool is_hot) {
  constexpr double k_hardly_any = 1.5;
  constexpr double k_short_row = 16;
  constexpr std::int64_t k_most_columns = 1024;
  constexpr double k_large_c = 1.75;
  constexpr std::int64_t k_shared_bytes = 1024;
  constexpr std::int64_t k_vector = 8;
  constexpr double k_hardly_ever = 0.85;  // 16 x 1024 at 95 %, n = 8: 0.9 us, `compact` 1.5
  constexpr double k_seldom = 2.7;
  constexpr std::int64_t k_many_columns_of_a = 1024;
  if (!is_near_l3(request)) return false;
  const auto& device = std::get<HostDeviceInfo>(request.device);
  const auto l2_bytes = as_double(device.l2_bytes);
  const CsrMatrix& a = *request.problem.a;
  const double a_column = entries_a_column(a.nnz(), a.cols);
  const bool hardly_shares = a_column < k_hardly_any;
  const bool is_avx2 = device.isa == HostIsa::avx2;
  const bool shares_sets =  // 16 x 384 at 80 %, n = 4096, AVX2: 256 us, code 465
      a_column < k_entries_that_share && !packs_b_from_memory(request) &&
      row_alignment_bytes(request.problem.n.value) >= k_page_bytes;
  if ((hardly_shares || shares_sets) && barely_shares_b(request)) return true;
  const std::int64_t n = request.problem.n.value;
  if (!is_hot) {
    // 1024 x 128 at 90 %, n = 4096: code 2.9 ms, the loop 9.0.
    const double longest = n <= k_most_columns ? k_short_row : is_avx2 ? 0 : k_three;
    return near_l3_is_passed_by_c(request) && bytes_of_b(request) >= l2_bytes &&
           entries_a_row(a) <= longest;
  }
  if (n < k_vector) {
    // 256 x 1024 at 99 %, n = 4: 4.1 us, `windows` 6.0, `compact` 6.9.
    const bool is_wide = a.cols >= k_many_columns_of_a && entries_a_row(a) <= k_short_row;
    return is_avx2 && n > 1 && a_column < (is_wide ? k_seldom : k_hardly_any);
  }
  // 16 x 16384 at 98 %, n = 8: 8 us, `compact` 32; n = 32: 8, `compact` 6.
  const bool hardly_reads_b = n < 2 * k_vector && a_column < k_hardly_ever;
  if (!is_avx2 && (has_few_of_many_columns(request) || hardly_reads_b)) return true;
  if (writes_rows_in_one_set(request)) return true;
  return !near_l3_suits_rows(request) && entries_a_row(a) <= k_three &&
         row_alignment_bytes(n) >= k_shared_bytes && bytes_of_c(request) >= k_large_c * l2_bytes &&
         !near_l3_is_passed_by_c(request) && !writes_large_zeros(request);
}

bool near_l3_has_wide_rows(const FamilyRequest& request) {
  const auto& device = std::get<HostDeviceInfo>(request.device);
  return is_near_l3(request) && device.isa == HostIsa::avx512 && device.fmas_per_cycle == 1 &&
         request.problem.n.value >= k_wide_columns_avx512;
}

bool near_l3_returns_to_c(const FamilyRequest& request) {
  constexpr std::int64_t k_few_columns = 256;
  constexpr std::int64_t k_some_columns = 512;
  constexpr double k_short_row = 16;
  constexpr std::int64_t k_one_block = 64;
  if (!near_l3_is_passed_by_c(request) || near_l3_suits_rows(request)) return false;
  const auto l3_bytes = as_double(std::get<HostDeviceInfo>(request.device).l3_bytes);
  const CsrMatrix& a = *request.problem.a;
  const std::int64_t n = request.problem.n.value;
  if (packs_b_from_memory(request)) return false;
  if (!near_l3_has_wide_rows(request) || request.options.policy.hot) return true;
  const bool is_short = entries_a_row(a) <= k_short_row;
  if (is_short && a.cols <= k_one_block) return false;
  const bool is_half = bytes_of_c(request) <= l3_bytes / 2;
  return !is_half || !(n <= k_few_columns || (is_short && n <= k_some_columns));
}

bool near_l3_is_passed_by_c(const FamilyRequest& request) {
  const auto& device = std::get<HostDeviceInfo>(request.device);
  return is_near_l3(request) && bytes_of_c(request) >= k_most_of_l3 * as_double(device.l3_bytes);
}

bool near_l3_is_passed_with_b(const FamilyRequest& request) {
  const auto& device = std::get<HostDeviceInfo>(request.device);
  const auto l3_bytes = as_double(device.l3_bytes);
  const double c_bytes = bytes_of_c(request);
  const bool is_near = !device.l3_is_far && device.l3_bytes > 0;
  return is_near && device.isa == HostIsa::avx2 && c_bytes > l3_bytes / 8 &&
         bytes_of_b(request) + c_bytes >= k_most_of_l3 * l3_bytes;
}

}  // namespace spjit
