#include "kernels/host/choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <variant>

#include "base/arithmetic.hpp"
#include "base/refusal.hpp"
#include "kernels/host/host_rules.hpp"
#include "kernels/host/loops/compact_loop.hpp"
#include "kernels/host/near_l3_rules.hpp"
#include "kernels/host/object/csr_view.hpp"
#include "kernels/host/object/host_family.hpp"
#include "matrix/rows_of_b.hpp"
#include "plan/operation.hpp"
#include "runtime/host/host_device_info.hpp"

namespace spjit {

double rows_alike(const CsrMatrix& a, const Cancellation& cancel) {
  CancelPace pace(cancel);
  std::unordered_set<std::string_view> patterns;
  for (std::int64_t row = 0; row < a.rows; ++row) {
    const auto begin = to_size(a.row_ptrs[to_size(row)]);
    const auto end = to_size(a.row_ptrs[to_size(row) + 1]);
    pace.spend(static_cast<std::int64_t>(end - begin) + 1);
    patterns.emplace(reinterpret_cast<const char*>(a.col_idxs.data() + begin),
                     (end - begin) * sizeof(std::int32_t));
  }
  return as_double(a.rows) / as_double(std::max<std::int64_t>(std::ssize(patterns), 1));
}

namespace {

using Reason = std::optional<Refusal>;

/// Whether the row applies: only where it refuses.
Reason if_any(Refusal refusal) {
  if (refusal) return refusal;
  return std::nullopt;
}

Reason reason_if(bool holds, const char* text) {
  if (!holds) return std::nullopt;
  return Refusal(text);
}

/// Whether padding of sparse slices takes longest: 8192 x 1536 at 95 %, n = 4, hot: 0.67 ms, not
/// 0.43; 4096 x 8192 at 98 %, n = 1: 0.84, not 0.53.
bool is_long(const FamilyRequest& request) {
  constexpr std::int64_t k_most_l2 = 4;
  constexpr std::int64_t k_bytes_an_entry = 14;
  const std::int64_t l2_bytes = std::get<HostDeviceInfo>(request.device).l2_bytes;
  return request.problem.a->nnz() > k_most_l2 * l2_bytes / k_bytes_an_entry;
}

/// From a far L3, AVX-512: `windows` takes 0.4 to 0.8 of the time for n of 1 and 2, and for 3 and 4
/// 0.7 to 1 where A has at least a tenth of its entries, else up to 1.3. From memory it takes 0.6
/// to 0.9 of the time where A has a tenth of its entries (n of 3 and 4: a quarter), or where all of
/// A is so short that waiting for its first lines takes longest (64 x 208 at 95 %, n = 1: 7 us, not
/// 13).
bool far_l3_prefers_windows(const FamilyRequest& request) {
  constexpr std::int64_t k_few_columns = 2;
  constexpr std::int64_t k_most_columns = 4;
  constexpr double k_dense = 0.099;
  constexpr double k_dense_from_memory = 0.25;
  constexpr std::int64_t k_short = 10'000;
  constexpr std::int64_t k_short_of_more = 20'000;  // columns, with a tenth of its entries
  const CsrMatrix& a = *request.problem.a;
  const auto& device = std::get<HostDeviceInfo>(request.device);
  const std::int64_t n = request.problem.n.value;
  const double density = share_of_entries(a);
  if (device.isa != HostIsa::avx512 || n > k_most_columns) return false;
  // Beginning and ending a group takes as long as that many steps, more the more columns it writes:
  // 1024 x 64 at 95 %, n = 4: 4.1 us, not 3.2; 842 x 80 at 98 %: 3.6, not 2.0; n = 1: 2.1, not 3.5.
  if (2 * a.nnz() < (2 * n + 1) * a.rows) return false;
  if (request.options.policy.hot) return density >= k_dense || !is_long(request);
  const bool is_short = a.nnz() <= (n <= k_few_columns ? k_short : k_short_of_more);
  if (stays_in_caches(request) || is_short) return n <= k_few_columns || density >= k_dense;
  return density >= (n <= k_few_columns ? k_dense : k_dense_from_memory);
}

bool suits_windows(const FamilyRequest& request) {
  const auto& device = std::get<HostDeviceInfo>(request.device);
  return device.l3_is_far ? far_l3_prefers_windows(request) : near_l3_prefers_windows(request);
}

/// Whether `compact` is faster from a near L3. Not where rows that are alike share unrolled code,
/// which were not measured there.
bool prefers_compact_near(const FamilyRequest& request) {
  constexpr double k_short_row = 8;  // such rows are alike by chance, and share little
  constexpr double k_alike = 4;
  const CsrMatrix& a = *request.problem.a;
  return near_l3_prefers_compact(request) &&
         (entries_a_row(a) < k_short_row || rows_alike(a, request.cancel) < k_alike);
}

/// Whether unrolled code is faster than a loop as often as it runs.
bool suits_code(const FamilyRequest& request) {
  return reuses_code(request) && !outgrows_caches(request) && !writes_mostly_c(request) &&
         !prefers_compact_near(request);
}

Reason loop(const FamilyRequest& request, const KernelFamily& /*family*/) {
  return if_any(loop_preference(request));
}

Reason panels(const FamilyRequest& request, const KernelFamily& /*family*/) {
  const Problem& problem = request.problem;
  return reason_if(problem.panel_columns && *problem.panel_columns < problem.n.value,
                   "every panel of B and C would read all of A");
}

Reason zeros(const FamilyRequest& request, const KernelFamily& family) {
  const double density = entries_of(family.bytes_of_a(request), *request.problem.a);
  const double least = least_density(request);
  if (density >= least) return std::nullopt;
  return Refusal(
      fmt::format("{:.1f} % of A are entries; for n of {} zeros are left out below {:.0f} %",
                  100 * density, request.problem.n.value, 100 * least));
}

/// Images are computed a few hundred columns at a time, however many they have: unrolled code would
/// be read for each. With AVX2 that takes 1.0 to 1.4 times as long even where it is hot.
Reason images(const FamilyRequest& request, const KernelFamily& /*family*/) {
  if (!rules_of(request.problem).has_images()) return std::nullopt;
  if (Refusal loop = loop_preference(request)) return loop;
  const bool is_avx512 = request.options.target.isa() == HostIsa::avx512;
  return is_avx512 && reuses_code(request)
             ? Refusal("unrolled code is faster where it stays in the caches")
             : Refusal::none();
}

Reason columns_of_a_run(const FamilyRequest& request, const KernelFamily& /*family*/) {
  constexpr std::int64_t k_often_many = 256;
  const Extent& n = request.problem.n;
  if (!n.runtime) return std::nullopt;
  const bool has_many =
      !near_l3_suits_rows(request) && (n.value >= k_often_many || suits_code(request));
  return has_many ? Refusal("unrolled code for many columns has this loop for few")
                  : Refusal::none();
}

Reason few_columns(const FamilyRequest& request, const KernelFamily& /*family*/) {
  return reason_if(suits_windows(request), "windows of so few columns are fetched faster");
}

Reason near_code(const FamilyRequest& request, const KernelFamily& /*family*/) {
  return reason_if(suits_code(request), "unrolled code is faster where it stays in the caches");
}

Reason large_c(const FamilyRequest& request, const KernelFamily& /*family*/) {
  return reason_if(returns_to_large_c(request),
                   "C is larger than L2: unrolled code comes to it once");
}

/// From a far L3 a block of B takes so long that packing it does not matter: 384 x 1536 at 95 %, n
/// = 256 to 1024, in 0.82 to 0.91 of the time of unrolled code. Not with AVX2, nor where 40 % are
/// entries (16 x 8192, n = 512: 1.5), or C is so large that unrolled code streams it.
Reason packing(const FamilyRequest& request, const KernelFamily& /*family*/) {
  constexpr double k_many_entries = 0.25;
  const auto& device = std::get<HostDeviceInfo>(request.device);
  const CsrMatrix& a = *request.problem.a;
  if (!barely_shares_b(request) || prefers_compact_near(request)) return std::nullopt;
  const bool is_dense = as_double(a.nnz()) > k_many_entries * as_double(a.rows) * as_double(a.cols);
  const bool packs_anyway = device.l3_is_far && device.isa == HostIsa::avx512 && !is_dense &&
                            !should_stream_c(device, a.rows, a.cols, request.problem.n.value);
  return reason_if(!packs_anyway, "few entries read a row of B: unrolled code packs none");
}

Reason many_columns(const FamilyRequest& request, const KernelFamily& /*family*/) {
  const std::int64_t most = most_loop_columns(std::get<HostDeviceInfo>(request.device));
  const std::int64_t n = request.problem.n.value;
  if (n <= most || barely_shares_b(request) || prefers_compact_near(request)) {
    return std::nullopt;
  }
  return Refusal(
      fmt::format("n is {}: unrolled code is read often enough from {} on", n, most + 1));
}

/// Unrolled code loads a row of B once for all of them. RadiX-Net's 1024 x 1024, 32 rows each: n =
/// 64 in 0.75 of the time, 256 in 0.68; blocks of four rows, n = 256: 0.9.
Reason rows_that_are_alike(const FamilyRequest& request, const KernelFamily& /*family*/) {
  const Problem& problem = request.problem;
  const double alike = problem.n.value >= 48 ? rows_alike(*problem.a, request.cancel) : 1;
  if (alike >= 16 || (alike >= 4 && problem.n.value >= 192)) {
    return Refusal(fmt::format(
        "{:.0f} rows of A each have the same columns: they share unrolled code", alike));
  }
  return std::nullopt;
}

Reason padding(const FamilyRequest& request, const KernelFamily& family) {
  const CsrMatrix& a = *request.problem.a;
  return reason_if(
      is_mostly_unread(a.cols, a.nnz()) || !prefers_windows(a, family.bytes_of_a(request)),
      "padded to slices of sixteen rows A is larger than unrolled code, or most of B is unread");
}

Reason few_entries(const FamilyRequest& request, const KernelFamily& /*family*/) {
  return reason_if(request.options.target.isa() == HostIsa::avx2 && !suits_windows(request),
                   "A has too few entries for n columns");
}

/// Whether so few entries read a row of B that packing it takes longest: 32 x 512 at 95 %, groups
/// of 128, n = 64: `csr` in 0.6 of the time of `compact`; 64 x 2048 at 95 %, three entries: 0.9.
bool barely_shares_groups(const CsrMatrix& a) {
  constexpr double k_few_entries = 2;
  return entries_a_column(a.nnz(), a.cols) < k_few_entries;
}

/// Whether `windows`, which goes through A for each four columns, is the fastest for groups with
/// scales. AVX-512: 2048 x 2048 at 80 %, groups of 128, n = 8: in 0.95 of the time of `compact`, n
/// = 12: 1.17; at 95 %, n = 4: 0.6, n = 6: 1.10. AVX2: 80 %, n = 3: 0.97, n = 4: 1.24;
/// groups of 32 at 85 to 95 %, n = 4: 0.75 to 1.04.
bool reads_groups_a_few_times(const FamilyRequest& request) {
  constexpr std::int64_t k_once = 4;
  constexpr std::int64_t k_twice = 8;
  constexpr std::int64_t k_most_avx2 = 3;
  constexpr double k_dense = 0.08;
  constexpr std::int64_t k_short_group = 32;
  constexpr double k_sparse = 0.16;
  const std::int64_t n = request.problem.n.value;
  const bool has_short_groups = request.problem.group_scales->columns == k_short_group &&
                                share_of_entries(*request.problem.a) <= k_sparse &&
                                !barely_shares_groups(*request.problem.a);
  if (n == k_once && has_short_groups) return true;
  if (request.options.target.isa() == HostIsa::avx2) return n <= k_most_avx2;
  return n <= k_once || (n <= k_twice && share_of_entries(*request.problem.a) >= k_dense);
}

Reason scaled_groups(const FamilyRequest& request, const KernelFamily& family) {
  if (request.problem.group_scales == nullptr) return std::nullopt;
  const std::string_view fastest = reads_groups_a_few_times(request)          ? "windows"
                                   : barely_shares_groups(*request.problem.a) ? "csr"
                                                                              : "compact";
  if (family.name() == fastest) return Refusal::none();
  return Refusal(fmt::format("`{}` is faster for such groups with scales and n of {}", fastest,
                             request.problem.n.value));
}

Reason far_code(const FamilyRequest& request, const KernelFamily& /*family*/) {
  if (outgrows_caches(request)) return Refusal("each run would wait for its code");
  return reason_if(prefers_compact_near(request),
                   "from a near L3 a loop brings half the bytes, and writes rows of C in one go");
}

Reason writing(const FamilyRequest& request, const KernelFamily& /*family*/) {
  return reason_if(writes_mostly_c(request),
                   "most of a run is writing C, which a loop does row by row");
}

Reason preparing(const FamilyRequest& request, const KernelFamily& /*family*/) {
  const bool is_fastest = request.problem.group_scales != nullptr ||
                          unread_refusal(*request.problem.a) || loop_preference(request);
  return reason_if(!is_fastest,
                   "a loop over the entries of A is slower than all that prepare for them");
}

/// How far away A's bytes are when a run comes to them: those of a network, or A's own.
enum class Distance : std::uint8_t { l2, l3, far_l3, memory };

/// A near L3 gives windows their bytes as fast as they are used.
Distance distance_of_bytes(const FamilyRequest& request) {
  constexpr double k_bytes_an_entry = 2;
  const auto& device = std::get<HostDeviceInfo>(request.device);
  const SearchPolicy& policy = request.options.policy;
  if (policy.hot) return Distance::l2;
  const std::int64_t entries = std::max(policy.network_nnz, request.problem.a->nnz());
  const double bytes = k_bytes_an_entry * as_double(entries);
  const double of_l2 = bytes / as_double(device.l2_bytes);
  if (!device.l3_is_far) {
    return bytes > as_double(device.l3_bytes) ? Distance::memory : Distance::l2;
  }
  return of_l2 > 18  ? Distance::memory
         : of_l2 > 8 ? Distance::far_l3
         : of_l2 > 2 ? Distance::l3
                     : Distance::l2;
}

/// The share of entries from which on masks are faster than windows; beyond 1: never. 2048 x 2048,
/// windows' time over theirs (Xeon, VBMI2): from memory, n = 1: 1.2 to 1.4 at 20 to 60 %; from 17
/// MB of L3 0.8, 1.2, 1.4 at 20, 30, 40 %; groups of 32 1.3 at 20 to 60 %, of 128 1.0 and 1.2 at 20
/// and 30 %. More tokens are multiplied with zeros, too: n = 4 from memory: 0.75, 1.2 at 20, 30 %.
double least_density_of_masks(const FamilyRequest& request) {
  constexpr double k_never = 2;
  const Problem& problem = request.problem;
  const Distance distance = distance_of_bytes(request);
  const std::int64_t n = problem.n.value;
  if (problem.n.runtime || distance == Distance::l2) return k_never;
  if (problem.group_scales != nullptr) {
    const bool has_few_columns = problem.group_scales->columns == 32;
    if (n > 1) return k_never;
    if (distance == Distance::memory) return has_few_columns ? 0.15 : 0.19;
    if (distance == Distance::far_l3) return has_few_columns ? 0.28 : 0.45;
    return has_few_columns ? 0.45 : k_never;
  }
  if (n > 4) return k_never;
  if (n > 2) return distance == Distance::l3 ? 0.55 : 0.28;
  return distance == Distance::memory ? 0.19 : distance == Distance::far_l3 ? 0.28 : 0.33;
}

Reason masks(const FamilyRequest& request, const KernelFamily& /*family*/) {
  return reason_if(share_of_entries(*request.problem.a) < least_density_of_masks(request),
                   "A is near, has few entries or many tokens: windows are faster");
}

Reason always(const FamilyRequest& /*request*/, const KernelFamily& /*family*/) {
  return Refusal("it is the slow one");
}

constexpr const char* k_loop = "a loop over the entries of A is faster";

constexpr std::array k_host_rules = {
    ChoiceRule{"dense", "panels of B and C are narrower than n", panels, true},
    ChoiceRule{"dense", k_loop, loop, true},
    ChoiceRule{"dense", "A has too few entries for n columns", zeros, true},
    ChoiceRule{"compact",
               "A has scales of groups, and n is so small that `windows` is faster, or few read a "
               "row of B",
               scaled_groups},
    ChoiceRule{"compact",
               "of a convolution a loop is faster, or AVX-512 code that stays in the caches",
               images},
    ChoiceRule{"compact", "n is said at run time, and 256 and more is typical, or code is near",
               columns_of_a_run},
    ChoiceRule{"compact", "panels of B and C are narrower than n", panels},
    ChoiceRule{"compact", "n is 1 to 4 and `windows` is faster", few_columns},
    ChoiceRule{"compact", "unrolled code stays in the caches", near_code},
    ChoiceRule{"compact", k_loop, loop},
    ChoiceRule{"compact",
               "C comes from a far L3 for each block of columns of A, or passes a near one",
               large_c},
    ChoiceRule{"compact", "few entries read a row of B, of many columns", packing},
    ChoiceRule{"compact", "n is so large that code is read often enough", many_columns},
    ChoiceRule{"compact", "many rows of A have the same columns", rows_that_are_alike},
    ChoiceRule{"windows",
               "A has scales of groups, and n is over 8, 4 where few are entries (AVX2: 3 or 4)",
               scaled_groups},
    ChoiceRule{"windows", k_loop, loop},
    ChoiceRule{"windows", "with AVX2 A has too few entries for n columns", few_entries},
    ChoiceRule{"windows", "padded A is larger than code, or most of B is unread", padding},
    ChoiceRule{"unrolled", "hot code is beyond the caches, or a near L3 is faster for `compact`",
               far_code},
    ChoiceRule{"unrolled", "a hot run mostly writes C", writing},
    ChoiceRule{"unrolled", k_loop, loop},
    ChoiceRule{"csr", "no loop over the entries of A is faster", preparing},
    ChoiceRule{"bitmask", "A is near, n is over 4 (with scales of groups 1), or few are entries",
               masks},
    ChoiceRule{"reference", "always", always}};

}  // namespace

std::span<const ChoiceRule> host_choice() noexcept { return k_host_rules; }

}  // namespace spjit
