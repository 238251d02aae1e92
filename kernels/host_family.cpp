#include "kernels/host_family.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/arithmetic.hpp"
#include "base/host_cpu.hpp"
#include "kernels/csr_image.hpp"
#include "kernels/csr_view.hpp"
#include "matrix/rows_of_b.hpp"
#include "plan/search_policy.hpp"
#include "runtime/host/host_device_info.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

/// Whether the text now runs where it is. On a file system that is mounted noexec it cannot.
bool make_executable(PageMapping& pages, std::span<const std::byte> text) {
  const std::size_t begin = to_size(text.data() - pages.bytes().data());
  if (text.empty() || begin % PageMapping::page_size() != 0) return false;
  try {
    pages.protect(begin, PageMapping::round_up(text.size()), PageAccess::read_execute);
    return true;
  } catch (const NoPages&) {
    return false;
  }
}

}  // namespace

std::string HostFamily::version() const { return std::to_string(k_host_program_version); }

std::string HostFamily::timed_on(const FamilyRequest& request) const {
  if (!why_not_timed_on(host_cpu(), request.options.target).empty()) return {};
  const auto& device = std::get<HostDeviceInfo>(request.device);
  return device.card.empty() ? device.name : device.card;
}

LoadedKernel HostFamily::load(const Artifact& artifact, const nlohmann::json& record,
                              const Device& device, const Cancellation& cancel) const {
  static_cast<void>(host_of(device));
  const auto found = std::ranges::find(artifact.files, k_object_file, &Artifact::File::name);
  if (found == artifact.files.end()) {
    throw Error(fmt::format("the artifact has no file \"{}\"", k_object_file));
  }
  static_cast<void>(record);
  return open(object_on(device, read_object(found->bytes, k_object_name), found->owner), cancel);
}

const HostDevice& HostFamily::host_of(const Device& device) const {
  const auto* host = std::get_if<HostDevice>(&device);
  if (host != nullptr) return *host;
  throw InvalidArgument(fmt::format("a kernel of the family {} runs on the host", name()));
}

HostObject HostFamily::object_on(const Device& device, const HostImage& image,
                                 std::shared_ptr<const void> owner, bool executable) const {
  const HostDevice& host = host_of(device);
  return {image, std::move(owner), host.pool, executable, host.any_isa};
}

KernelInfo HostFamily::info_of(const HostProgramHeader& header, const HostObject& object) const {
  if (header.family != name()) {
    throw Error(fmt::format("program record: a kernel of the family {}; expected one of {}",
                            header.family, name()));
  }
  require_record(!header.runtime_n || features().has(ProblemFeature::runtime_n),
                 "a run-time n, which its family does not know");
  require_record(!header.convolution || features().has(ProblemFeature::convolution),
                 "a convolution, which its family does not know");
  if (!object.any_isa) require_isa(host_cpu(), header.isa);
  KernelInfo info;
  info.family = header.family;
  info.target = Target(header.isa);
  info.device = host_cpu().model_name;
  info.rows = header.rows;
  info.cols = header.cols;
  info.n = header.n;
  info.runtime_n = header.runtime_n;
  info.ldb = header.ldb;
  info.b_layout = header.b_layout;
  info.c_layout = header.c_layout;
  info.epilogue = header.epilogue;
  info.ldc = header.ldc;
  info.nnz = header.nnz;
  info.runtime_values = header.runtime_values;
  info.convolution = header.convolution;
  info.threads = object.pool == nullptr ? 1 : object.pool->threads();
  info.code_bytes = std::ssize(object.image.text);
  info.weight_bytes = std::ssize(object.image.weights);
  return info;
}

Artifact::File object_file(const HostImage& image, const Cancellation& cancel) {
  const std::uint64_t alignment = image.text.empty() ? k_linked_alignment : k_mapped_alignment;
  auto bytes = std::make_shared<const std::vector<std::byte>>(
      write_object(image, k_object_name, cancel, alignment));
  return {k_object_file, *bytes, bytes};
}

nlohmann::json image_record(const HostImage& image) {
  return {{"code_bytes", image.text.size()}, {"weight_bytes", image.weights.size()}};
}

std::vector<Artifact::File> BuiltImage::files(const Cancellation& cancel) const {
  return {object_file(artifact_.image(), cancel)};
}

LoadedKernel BuiltImage::load(const nlohmann::json& record, const Device& device,
                              const Cancellation& cancel) const {
  static_cast<void>(record);
  return family_.open(family_.object_on(device, artifact_.image(), shared_from_this()), cancel);
}

MappedImage::MappedImage(const HostFamily& family, FileBytes file)
    : family_(family),
      file_(std::move(file)),
      image_(read_object(file_.bytes(), k_object_name)),
      executable_(make_executable(file_.pages, image_.text)) {}

std::vector<Artifact::File> MappedImage::files(const Cancellation& cancel) const {
  cancel.check();
  return {{k_object_file, file_.bytes(), shared_from_this()}};
}

LoadedKernel MappedImage::load(const nlohmann::json& record, const Device& device,
                               const Cancellation& cancel) const {
  static_cast<void>(record);
  return family_.open(family_.object_on(device, image_, shared_from_this(), executable_), cancel);
}

std::string unread_refusal(const CsrMatrix& a) {
  if (!is_mostly_unread(a.cols, a.nnz())) return {};
  return fmt::format("B has {} rows, and {} nonzeros read few of them; it is not copied", a.cols,
                     a.nnz());
}

namespace {

double entries_a_row(const CsrMatrix& a) {
  return as_double(a.nnz()) / as_double(std::max<std::int64_t>(a.rows, 1));
}

/// Whether at most a tenth are entries. With more, unrolled code is 1.2 to 2.5 times as fast as a
/// loop, however few rows of A there are to read a row of B (n of 192 to 512; 16 x 8192 at 60 %).
bool is_sparse(const CsrMatrix& a) {
  constexpr double k_sparse = 0.101;
  return as_double(a.nnz()) <= k_sparse * as_double(a.rows) * as_double(a.cols);
}

/// Hot, B comes from L3 where it does not fit L2, and what packs it or walks it in place, panel by
/// panel, takes longer than a loop where few entries share a row and rows share few sets of the
/// caches (1.5 times as long on AVX-512, 1.4 on AVX2: docs/host-kernel.md).
bool loop_is_faster_hot(const FamilyRequest& request, double entries) {
  const auto& limits = std::get<HostDeviceInfo>(request.device);
  if (limits.isa == HostIsa::generic) return false;
  const Problem& problem = request.problem;
  const bool is_avx512 = limits.isa == HostIsa::avx512;
  constexpr std::int64_t k_shared_bytes = 2048;
  constexpr std::int64_t k_shared_bytes_avx2 = 512;
  constexpr double k_nearly_none = 1;  // then all of it is writing zeros to C, of many rows
  constexpr double k_long_row = 64;
  constexpr double k_few = 7;
  constexpr double k_few_avx2 = 12;
  const CsrMatrix& a = *problem.a;
  const double n = as_double(problem.n.value);
  const double b_bytes = as_double(a.cols) * n * 4;
  const bool is_far = limits.l3_bytes > 0 && b_bytes > as_double(limits.l3_bytes) / 4;
  constexpr double k_few_far = 4;
  const double few = is_far ? k_few_far : is_avx512 ? k_few : k_few_avx2;
  const bool has_some = entries >= k_nearly_none || entries_a_row(a) >= k_long_row;
  return row_alignment_bytes(problem.ldb()) >= (is_avx512 ? k_shared_bytes : k_shared_bytes_avx2) &&
         has_some && entries < few && is_sparse(a) && b_bytes >= as_double(limits.l2_bytes);
}

/// Whether a loop that goes through all of B for a row of C finds B there, once C has passed by.
/// From a far L3 it takes 1.1 to 3 times as long as what goes block by block (5 % entries, n of 384
/// to 1024; AVX2: from 512 on), but with AVX2 where hardly any row of A reads it (64 x 768 at 90 %,
/// n = 512: 0.70).
bool finds_b(const FamilyRequest& request, double entries) {
  constexpr double k_hardly_any = 7;
  const auto& device = std::get<HostDeviceInfo>(request.device);
  const CsrMatrix& a = *request.problem.a;
  const double bytes = 4 * as_double(a.rows + a.cols) * as_double(request.problem.n.value);
  const std::int64_t most = device.isa == HostIsa::avx512 ? device.l2_bytes / 2 : device.l2_bytes;
  const bool is_read_once = device.isa == HostIsa::avx2 && entries < k_hardly_any;
  return !device.l3_is_far || is_read_once || bytes <= as_double(most);
}

/// Cold, where few entries share a row of B, of few that A has.
bool shares_little_cold(const FamilyRequest& request, double entries) {
  constexpr double k_nearly_none = 5;
  constexpr std::int64_t k_many_rows_of_b = 8192;
  const CsrMatrix& a = *request.problem.a;
  return is_sparse(a) && ((barely_shares_b(request) && finds_b(request, entries)) ||
                          (a.cols >= k_many_rows_of_b && entries < k_nearly_none));
}

/// Cold, where beginning and ending a slice of rows takes longer than its entries: 256 x 64 at 90
/// %, n = 64: 6 us, not 8; 512 x 512 at 98 %, n = 128: 20 us, not 23. From a far L3 rows of B that
/// are packed come sooner: 384 x 384 at 98 %, n = 32 and 64, in 0.70 and 0.89 of the loop's time.
/// With AVX2, whose slices are computed sixteen columns at a time, short rows are so for n of 32 to
/// 256: 512 x 16 at 70 %, n = 64: 36 us, not 60. Where C bypasses the caches, only code does that.
bool has_short_rows_cold(const FamilyRequest& request, double entries) {
  const std::int64_t n = request.problem.n.value;
  const auto& device = std::get<HostDeviceInfo>(request.device);
  const CsrMatrix& a = *request.problem.a;
  if (should_stream_c(device, a.rows, a.cols, n)) return false;
  constexpr std::int64_t k_most_columns_avx2 = 256;
  if (device.isa == HostIsa::avx2) return n >= 32 && n <= k_most_columns_avx2 && entries <= 8;
  return device.isa == HostIsa::avx512 &&
         ((n >= 96 && entries <= 16) || (n >= 32 && !device.l3_is_far && entries <= 8) ||
          entries <= 1);
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

bool outgrows_caches(const FamilyRequest& request) {
  const CsrMatrix& a = *request.problem.a;
  const std::int64_t n = request.problem.n.value;
  const auto& device = std::get<HostDeviceInfo>(request.device);
  const bool is_avx512 = device.isa == HostIsa::avx512;
  const std::optional<std::int64_t>& panel = request.problem.panel_columns;
  if (!request.options.policy.hot || device.isa == HostIsa::generic || (panel && *panel < n)) {
    return false;
  }
  SearchPolicy alone;
  alone.network_nnz = std::max<std::int64_t>(a.nnz(), 1);
  const double code = as_double(bytes_between_runs(alone)) / as_double(device.l2_bytes);
  if (n <= 4) {
    // Where few entries share a load of B there is more code than that.
    constexpr std::int64_t k_tiny = 1500;  // beginning and ending segments takes longer
    const double a_column = entries_a_column(a.nnz(), a.cols);
    return a.nnz() <= k_tiny || code > (a_column < k_few_entries_a_column ? 0.25 : 0.625);
  }
  if (n <= 8) return code > (is_avx512 ? 0.125 : 1.5);
  return n <= 16 && code > 2;
}

bool barely_shares_b(const FamilyRequest& request) {
  const Problem& problem = request.problem;
  const bool is_avx512 = request.options.target.isa() == HostIsa::avx512;
  if (problem.b.layout == Layout::tokens_major || problem.convolution)
    return false;  // copied anyway
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
std::string loop_preference_of_image(const FamilyRequest& request) {
  constexpr double k_few = 8;
  const CsrMatrix& a = *request.problem.a;
  const double a_column = entries_a_column(a.nnz(), a.cols);
  if (a_column >= k_few) return {};
  if (is_depthwise(a, *request.problem.convolution)) {
    // A pruned detector at 90 %, AVX2: oneDNN's dense depthwise ones take 0.3 to 1.2 of the time.
    return "a depthwise convolution: a loop over its entries is the fastest here, and a library's "
           "dense one up to 3 times as fast";
  }
  return fmt::format("{:.1f} entries of A read a row of patches: a loop over them is faster",
                     a_column);
}

/// Cold, where all that a kernel does takes as long as its code takes to come, of which a loop has
/// the least: 16 x 24 at 80 %, n = 4: 8 us, not 18 (AVX2), 14, not 23 (AVX-512).
bool is_tiny_cold(const FamilyRequest& request) {
  constexpr std::int64_t k_tiny = 500;
  const std::int64_t nnz = request.problem.a->nnz();
  constexpr std::int64_t k_most_columns = 64;
  return nnz > 0 && nnz <= k_tiny && request.problem.n.value <= k_most_columns &&
         !stays_in_caches(request);
}

}  // namespace

std::string loop_preference(const FamilyRequest& request) {
  const Problem& problem = request.problem;
  if (problem.convolution) return loop_preference_of_image(request);
  const bool reads_rows = problem.b.layout == Layout::row_major && !problem.convolution;
  if (problem.n.runtime || problem.panel_columns || !reads_rows) return {};
  // From L3 code is slower than the loop where that is faster from memory.
  const bool is_hot = reuses_code(request) && stays_in_l2(request);
  const double a_column = entries_a_column(problem.a->nnz(), problem.a->cols);
  if (is_hot ? loop_is_faster_hot(request, a_column) : shares_little_cold(request, a_column)) {
    return fmt::format(
        "{:.1f} entries of A read a row of B, of {} columns: a loop over them is faster", a_column,
        problem.n.value);
  }
  if (is_tiny_cold(request)) {
    return fmt::format("A has {} entries: they take less time than to fetch other code",
                       problem.a->nnz());
  }
  const double a_row = entries_a_row(*problem.a);
  if (is_hot || !has_short_rows_cold(request, a_row)) return {};
  return fmt::format("rows of A have {:.1f} entries: a loop over them is faster for n of {}", a_row,
                     problem.n.value);
}

BuiltKernel build_csr(const BuildRequest& request, const HostFamily& family) {
  const FamilyRequest& what = request.what;
  HostArtifact artifact = make_csr_artifact(what.problem, std::string(family.name()),
                                            what.options.target.isa(), what.cancel);
  BuiltKernel built;
  built.record = image_record(artifact.image());
  built.code = std::make_shared<const BuiltImage>(family, std::move(artifact));
  return built;
}

}  // namespace spjit
