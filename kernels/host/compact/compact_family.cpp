#include "kernels/host/compact/compact_family.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/arithmetic.hpp"
#include "kernels/host/host_rules.hpp"
#include "kernels/host/loops/compact_loop.hpp"
#include "kernels/host/object/csr_image.hpp"

namespace spjit {
namespace {

/// Rows of A that have the same columns, on average.
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

/// Whether padding of sparse slices takes longest: 8192 x 1536 at 95 %, n = 4, hot: 0.67 ms, not
/// 0.43; 4096 x 8192 at 98 %, n = 1: 0.84, not 0.53.
bool is_long(const FamilyRequest& request) {
  constexpr std::int64_t k_most_l2 = 4;
  constexpr std::int64_t k_bytes_an_entry = 14;
  const std::int64_t l2_bytes = std::get<HostDeviceInfo>(request.device).l2_bytes;
  return request.problem.a->nnz() > k_most_l2 * l2_bytes / k_bytes_an_entry;
}

/// Sixteen rows at once (`sliced`) take 0.4 to 0.8 of the time for n of 1 and 2, and for 3 and 4
/// 0.7 to 1 where A has at least a tenth of its entries, else up to 1.3. From memory they take 1.1
/// to 2.3 times as long, but on Intel CPUs with a far L3 0.6 to 0.9 of the time where A has a tenth
/// of its entries (n of 3 and 4: a quarter), or where all of A is so short that waiting for its
/// first lines takes longest (64 x 208 at 95 %, n = 1: 7 us, not 13).
bool suits_slices(const FamilyRequest& request) {
  constexpr std::int64_t k_few_columns = 2;
  constexpr std::int64_t k_most_columns = 4;
  constexpr double k_dense = 0.099;
  constexpr double k_dense_from_memory = 0.25;
  constexpr std::int64_t k_short = 10'000;
  constexpr std::int64_t k_short_of_more = 20'000;  // columns, with a tenth of its entries
  const CsrMatrix& a = *request.problem.a;
  const auto& device = std::get<HostDeviceInfo>(request.device);
  const std::int64_t n = request.problem.n.value;
  const double places = as_double(a.rows) * as_double(a.cols);
  if (device.isa != HostIsa::avx512 || n > k_most_columns) return false;
  // Beginning and ending a slice takes as long as that many steps, more the more columns it writes:
  // 1024 x 64 at 95 %, n = 4: 4.1 us, not 3.2; 842 x 80 at 98 %: 3.6, not 2.0; n = 1: 2.1, not 3.5.
  if (2 * a.nnz() < (2 * n + 1) * a.rows) return false;
  if (request.options.policy.hot) {
    return as_double(a.nnz()) >= k_dense * places || !is_long(request);
  }
  const bool is_short =
      device.l3_is_far && a.nnz() <= (n <= k_few_columns ? k_short : k_short_of_more);
  if (stays_in_caches(request) || is_short) {
    return n <= k_few_columns || as_double(a.nnz()) >= k_dense * places;
  }
  const double least = n <= k_few_columns ? k_dense : k_dense_from_memory;
  return device.l3_is_far && as_double(a.nnz()) >= least * places;
}

/// Whether unrolled code is faster than a loop as often as it runs.
bool suits_code(const FamilyRequest& request) {
  return reuses_code(request) && !outgrows_caches(request) && !writes_mostly_c(request);
}

/// Images are computed a few hundred columns at a time, however many they have: unrolled code would
/// be read for each. With AVX2 that takes 1.0 to 1.4 times as long even where it is hot.
std::string image_preference(const FamilyRequest& request) {
  if (std::string loop = loop_preference(request); !loop.empty()) return loop;
  const bool is_avx512 = request.options.target.isa() == HostIsa::avx512;
  return is_avx512 && reuses_code(request) ? "unrolled code is faster where it stays in the caches"
                                           : "";
}

}  // namespace

std::string CompactFamily::refusal(const FamilyRequest& request) const {
  const HostIsa isa = request.options.target.isa();
  if (isa == HostIsa::generic) return "it is for avx512 and avx2, not for generic";
  return unread_refusal(*request.problem.a);
}

std::string CompactFamily::leaves_to_others(const FamilyRequest& request) const {
  const Problem& problem = request.problem;
  if (problem.convolution) return image_preference(request);
  if (problem.n.runtime) {
    constexpr std::int64_t k_often_many = 256;
    const bool has_many = problem.n.value >= k_often_many || suits_code(request);
    return has_many ? "unrolled code for many columns has this loop for few" : "";
  }
  if (problem.panel_columns && *problem.panel_columns < problem.n.value) {
    return "every panel of B and C would read all of A";
  }
  if (suits_slices(request)) return "slices of sixteen rows are faster for so few columns";
  if (suits_code(request)) return "unrolled code is faster where it stays in the caches";
  if (std::string loop = loop_preference(request); !loop.empty()) return loop;
  const auto& device = std::get<HostDeviceInfo>(request.device);
  if (returns_to_large_c(request)) return "C is larger than L2: unrolled code comes to it once";
  if (barely_shares_b(request)) {
    // From a far L3 a block of B takes so long that packing it does not matter: 384 x 1536 at 95 %,
    // n = 256 to 1024, in 0.82 to 0.91 of the time of unrolled code. Not with AVX2, nor where 40 %
    // are entries (16 x 8192, n = 512: 1.5), or C is so large that unrolled code streams it.
    constexpr double k_many_entries = 0.25;
    const CsrMatrix& a = *problem.a;
    const bool is_dense =
        as_double(a.nnz()) > k_many_entries * as_double(a.rows) * as_double(a.cols);
    const bool packs_anyway = device.l3_is_far && device.isa == HostIsa::avx512 && !is_dense &&
                              !should_stream_c(device, a.rows, a.cols, problem.n.value);
    if (!packs_anyway) return "few entries read a row of B: unrolled code packs none";
  } else if (problem.n.value > most_loop_columns(device)) {
    return fmt::format("n is {}: unrolled code is read often enough from {} on", problem.n.value,
                       most_loop_columns(device) + 1);
  }
  // Unrolled code loads a row of B once for all of them. RadiX-Net's 1024 x 1024, 32 rows each: n =
  // 64 in 0.75 of the time, 256 in 0.68; blocks of four rows, n = 256: 0.9.
  const double alike = problem.n.value >= 48 ? rows_alike(*problem.a, request.cancel) : 1;
  if (alike >= 16 || (alike >= 4 && problem.n.value >= 192)) {
    return fmt::format("{:.0f} rows of A each have the same columns: they share unrolled code",
                       alike);
  }
  return {};
}

BuiltKernel CompactFamily::build(const BuildRequest& request) const {
  BuiltKernel built = build_csr(request, *this);
  built.reason = "heuristic: A as data comes fastest from memory";
  return built;
}

LoadedKernel CompactFamily::open(const HostObject& object, const Cancellation& cancel) const {
  CsrImage read = read_csr_image(object.image, cancel);
  require_record(read.header.isa != HostIsa::generic, "compact instruction set");
  KernelInfo info = info_of(read.header, object);
  info.panel_columns = read.panel_columns;
  return {std::move(info), make_compact_loop(object, std::move(read), cancel)};
}

}  // namespace spjit
