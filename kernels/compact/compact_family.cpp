#include "kernels/compact/compact_family.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/arithmetic.hpp"
#include "kernels/compact/compact_kernel.hpp"
#include "kernels/csr_image.hpp"

namespace spjit {
namespace {

/// Of a thread, in vectors of a nonzero: about a microsecond. Waking it takes as long.
constexpr double k_least_work = 4000;

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

/// Sixteen rows at once (`sliced`) take 0.4 to 0.8 of the time for n of 1 and 2, and for 3 and 4
/// 0.7 to 1 where A has at least a tenth of its entries, else up to 1.3; from memory 1.1 to 2.3.
bool suits_slices(const FamilyRequest& request) {
  constexpr std::int64_t k_few_columns = 2;
  constexpr std::int64_t k_most_columns = 4;
  constexpr double k_dense = 0.1;
  const CsrMatrix& a = *request.problem.a;
  const std::int64_t n = request.problem.n.value;
  const bool is_dense = as_double(a.nnz()) >= k_dense * as_double(a.rows) * as_double(a.cols);
  return request.options.target.isa() == HostIsa::avx512 && stays_in_caches(request) &&
         (n <= k_few_columns || (n <= k_most_columns && is_dense));
}

/// Of each part of a kernel.
struct CompactValues final : PreparedValues::Stream {
  using Stream::Stream;
  std::vector<CompactMatrix::Values> parts;
};

class CompactExecutable final : public HostExecutable {
 public:
  CompactExecutable(HostObject object, CsrImage read, const Cancellation& cancel)
      : HostExecutable(std::move(object), read.header, read.panel_columns), read_(std::move(read)) {
    const CsrView matrix = read_.view();
    std::int64_t block = compact_block_columns(matrix, read_.header.isa, read_.header.n);
    if (read_.header.b_layout == Layout::tokens_major) {
      block = std::min(block, CompactMatrix::k_most_packed_columns);
    }
    const double work = as_double(matrix.nnz()) * as_double(ceil_div(read_.header.n, 16));
    const std::int64_t parts = worthwhile_parts(work, k_least_work, threads());
    for (const RowRange& rows : split_rows(matrix, parts)) {
      parts_.emplace_back(matrix, rows, block, cancel);
    }
  }

  void multiply(const Product& product) const override {
    const SharedWork work{.image = read_,
                          .panel_columns = k_compact_panel_columns,
                          .workspace_floats = CompactMatrix::k_workspace_floats};
    const auto* values = dynamic_cast<const CompactValues*>(product.values);
    run_shared(parts_, product, work,
               [&](const CompactMatrix& part, const Product& some, float* workspace) {
                 const auto index = &part - parts_.data();
                 part.run(some, read_.header.isa, workspace,
                          values == nullptr ? nullptr : &values->parts[to_size(index)]);
               });
  }

  [[nodiscard]] bool takes_tokens() const noexcept override {
    return std::ranges::all_of(parts_, &CompactMatrix::takes_tokens);
  }

  [[nodiscard]] std::shared_ptr<const PreparedValues::Stream> prepare_values(
      std::span<const float> values) const override {
    const auto prepared = std::make_shared<CompactValues>(id());
    for (const CompactMatrix& part : parts_) prepared->parts.push_back(part.arrange(values));
    return prepared;
  }

 private:
  CsrImage read_;
  std::vector<CompactMatrix> parts_;
};

}  // namespace

std::string CompactFamily::refusal(const FamilyRequest& request) const {
  const HostIsa isa = request.options.target.isa();
  if (isa == HostIsa::generic) return "it is for avx512 and avx2, not for generic";
  return unread_refusal(*request.problem.a);
}

std::string CompactFamily::leaves_to_others(const FamilyRequest& request) const {
  const Problem& problem = request.problem;
  if (problem.n.runtime) {
    constexpr std::int64_t k_often_many = 256;
    const bool has_many = problem.n.value >= k_often_many || reuses_code(request);
    return has_many ? "unrolled code for many columns has this loop for few" : "";
  }
  if (problem.panel_columns && *problem.panel_columns < problem.n.value) {
    return "every panel of B and C would read all of A";
  }
  if (reuses_code(request)) return "unrolled code is faster where it stays in the caches";
  if (suits_slices(request)) return "slices of sixteen rows stay in the caches";
  if (std::string loop = loop_preference(request); !loop.empty()) return loop;
  if (barely_shares_b(request)) return "few entries read a row of B: unrolled code packs none";
  if (problem.n.value > k_most_loop_columns) {
    return fmt::format("n is {}: unrolled code is read often enough from {} on", problem.n.value,
                       k_most_loop_columns + 1);
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

std::shared_ptr<const HostExecutable> make_compact_loop(HostObject object, CsrImage read,
                                                        const Cancellation& cancel) {
  return std::make_shared<const CompactExecutable>(std::move(object), std::move(read), cancel);
}

LoadedKernel CompactFamily::open(const HostObject& object, const Cancellation& cancel) const {
  CsrImage read = read_csr_image(object.image, cancel);
  require_record(read.header.isa != HostIsa::generic, "compact instruction set");
  return open_csr<CompactExecutable>(object, std::move(read), cancel);
}

}  // namespace spjit
