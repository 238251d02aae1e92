#include "kernels/host/dense/dense_family.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/arithmetic.hpp"
#include "kernels/built_kernel.hpp"
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

Refusal DenseFamily::refusal(const FamilyRequest& request) const {
  if (request.options.target.isa() == HostIsa::generic) {
    return Refusal("it is for avx512 and avx2, not for generic");
  }
  const double density = entries_of(bytes_of_a(request), *request.problem.a);
  if (density < std::min(k_too_sparse, least_density(request))) {
    return Refusal(
        fmt::format("{:.1f} % of A are entries; with its zeros it is too long", 100 * density));
  }
  return Refusal::none();
}

double DenseFamily::bytes_of_a(const FamilyRequest& request) const {
  const CsrMatrix& a = *request.problem.a;
  return 4 * as_double(round_up(a.rows, k_strip_rows)) * as_double(a.cols);
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
