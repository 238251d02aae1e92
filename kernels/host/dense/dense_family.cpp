#include "kernels/host/dense/dense_family.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/arithmetic.hpp"
#include "kernels/host/dense/dense_kernel.hpp"
#include "kernels/host/host_rules.hpp"
#include "kernels/host/loops/csr_kernel.hpp"
#include "kernels/host/object/csr_image.hpp"

namespace spjit {
namespace {

/// Of a thread, in vectors of an entry of A with its zeros: about a microsecond.
constexpr double k_least_dense_work = 8000;

/// With fewer entries in A it is the fastest for no n, but where least_density() says less.
constexpr double k_too_sparse = 0.2;

/// From which on it is the fastest for n columns. Few wait for A, where a zero is 4 bytes and an
/// entry without zeros 6; for many the products take longest. MiniLM with 0 to 70 % zeros, in
/// sequence and hot (docs/results/host.md).
double least_density(const FamilyRequest& request) {
  constexpr double k_few_zeros_hot = 0.28;
  constexpr double k_few_zeros_of_a_vector = 0.18;  // of L2: 64 x 528 at 80 %: 3.6 us, not 6.0
  constexpr double k_most_l2 = 4;
  constexpr double k_most_l2_cold = 1.0 / 6;
  constexpr std::int64_t k_most_columns_hot = 4;
  const std::int64_t n = request.problem.n.value;
  const auto& device = std::get<HostDeviceInfo>(request.device);
  const CsrMatrix& a = *request.problem.a;
  // AVX2 has no slices for them. 1536 x 256 at 60 %, n = 4, hot: 64 us; `compact` 108.
  const double bytes = 4 * as_double(a.rows) * as_double(a.cols);
  const auto l2_bytes = as_double(device.l2_bytes);
  // Cold, from a far L3, the first lines of A are waited for: 96 x 240 at 70 %, n = 1: 17 us,
  // not 25.
  const bool is_hot = request.options.policy.hot;
  const double most = is_hot ? k_most_l2 : device.l3_is_far ? k_most_l2_cold : 0;
  if (device.isa == HostIsa::avx2 && n <= k_most_columns_hot && bytes <= most * l2_bytes) {
    return is_hot && n == 1 && bytes <= l2_bytes ? k_few_zeros_of_a_vector : k_few_zeros_hot;
  }
  if (n <= 5) return 0.45;
  if (n <= 48) return 0.65;
  return 0.75;
}

/// Entries of all that is read: of A with its zeros in whole strips.
double density_of(const CsrMatrix& a) {
  const double all = as_double(round_up(a.rows, k_strip_rows)) * as_double(a.cols);
  return all > 0 ? as_double(a.nnz()) / all : 0;
}

/// Why others are faster; empty: none is.
std::string doubt(const FamilyRequest& request) {
  const Problem& problem = request.problem;
  if (problem.panel_columns && *problem.panel_columns < problem.n.value) {
    return "every panel of B and C would read all of A";
  }
  if (std::string loop = loop_preference(request); !loop.empty()) return loop;
  const double density = density_of(*problem.a);
  const double least = least_density(request);
  if (density >= least) return {};
  return fmt::format("{:.1f} % of A are entries; for n of {} zeros are left out below {:.0f} %",
                     100 * density, problem.n.value, 100 * least);
}

/// A's values of a run: with their zeros, and as the loop over the entries takes them.
struct DenseValues final : PreparedValues::Stream {
  using Stream::Stream;
  std::vector<DenseMatrix> parts;
  std::vector<float> entries;
};

class DenseMultiplier final : public Multiplier {
 public:
  DenseMultiplier(HostThreads threads, CsrImage read, const Cancellation& cancel)
      : Multiplier(std::move(threads)), read_(std::move(read)) {
    const HostProgramHeader& header = read_.header;
    const double work =
        as_double(header.rows) * as_double(header.cols) * as_double(ceil_div(header.n, 16));
    // In whole strips: they are equally much work, whatever their entries.
    const std::int64_t strips = ceil_div(header.rows, k_strip_rows);
    for (const RowRange& range :
         split_evenly(strips, worthwhile_parts(work, k_least_dense_work, this->threads().count()),
                      [](std::int64_t strip) { return strip; })) {
      const RowRange rows{range.begin * k_strip_rows,
                          std::min(range.end * k_strip_rows, header.rows)};
      rows_.push_back(rows);
    }
    if (!header.runtime_values) own_ = with_zeros(read_.view(), cancel);
  }

  void multiply(const Product& product) const override {
    const SharedWork work{.image = read_,
                          .panel_columns = k_dense_panel_columns,
                          .workspace_floats = DenseMatrix::k_workspace_floats};
    const auto* values = dynamic_cast<const DenseValues*>(product.values);
    CsrView a = read_.view();
    if (values != nullptr) a.values = values->entries;
    threads().run_shared(values == nullptr ? own_ : values->parts, product, work,
                         [&](const DenseMatrix& part, const Product& some, float* workspace) {
                           const HostIsa isa = read_.header.isa;
                           if (part.run(some, isa, workspace)) return;
                           run_csr(a, isa, part.rows(), some);
                         });
  }

  [[nodiscard]] std::shared_ptr<const PreparedValues::Stream> prepare_values(
      std::uint64_t kernel, std::span<const float> values) const override {
    const auto prepared = std::make_shared<DenseValues>(kernel);
    prepared->entries.assign(values.begin(), values.end());
    CsrView a = read_.view();
    a.values = prepared->entries;
    prepared->parts = with_zeros(a);
    return prepared;
  }

  [[nodiscard]] WorkspaceNeed workspace_need(const Product& product) const override {
    return HostThreads::shared_need(rows_, product, DenseMatrix::k_workspace_floats);
  }

 private:
  /// A part a thread, and by it.
  [[nodiscard]] std::vector<DenseMatrix> with_zeros(const CsrView& a,
                                                    const Cancellation& cancel = {}) const {
    std::vector<std::optional<DenseMatrix>> made(rows_.size());
    threads().run_tasks(std::ssize(rows_), false, [&](std::int64_t part) {
      made[to_size(part)].emplace(a, rows_[to_size(part)], cancel);
    });
    std::vector<DenseMatrix> parts;
    parts.reserve(made.size());
    for (std::optional<DenseMatrix>& part : made) parts.push_back(*std::move(part));
    return parts;
  }

  CsrImage read_;
  std::vector<RowRange> rows_;    ///< of the parts
  std::vector<DenseMatrix> own_;  ///< none where values are of a run
};

}  // namespace

std::string DenseFamily::refusal(const FamilyRequest& request) const {
  if (request.options.target.isa() == HostIsa::generic) {
    return "it is for avx512 and avx2, not for generic";
  }
  const double density = density_of(*request.problem.a);
  if (density < std::min(k_too_sparse, least_density(request))) {
    return fmt::format("{:.1f} % of A are entries; with its zeros it is too long", 100 * density);
  }
  // Where nothing is timed it would be the first of all that would rather not.
  const SearchPolicy& policy = request.options.policy;
  const bool is_asked_for = !policy.family.empty() || policy.search != SearchMode::instant;
  return is_asked_for ? std::string() : doubt(request);
}

std::string DenseFamily::leaves_to_others(const FamilyRequest& request) const {
  return doubt(request);
}

BuiltKernel DenseFamily::build(const BuildRequest& request) const {
  BuiltKernel built = build_csr(request, *this);
  built.reason = "heuristic: A has too few zeros to leave them out";
  return built;
}

LoadedKernel DenseFamily::open(const HostObject& object, const Cancellation& cancel) const {
  CsrImage read = read_csr_image(object.image, cancel);
  require_record(read.header.isa != HostIsa::generic, "dense instruction set");
  return open_csr<DenseMultiplier>(object, std::move(read), cancel);
}

}  // namespace spjit
