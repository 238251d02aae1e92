#include "kernels/host/sliced/sliced_family.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "base/arithmetic.hpp"
#include "kernels/built_kernel.hpp"
#include "kernels/host/object/csr_image.hpp"
#include "kernels/host/sliced/sliced_kernel.hpp"

namespace spjit {
namespace {

/// A's values of a run as SlicedMatrix has its own.
struct SlicedValues final : PreparedValues::Stream {
  using Stream::Stream;
  FloatBuffer steps;
};

class SlicedMultiplier final : public Multiplier {
 public:
  SlicedMultiplier(HostThreads threads, const CsrImage& read, const Cancellation& cancel)
      : Multiplier(std::move(threads)),
        header_(read.header),
        matrix_(read.view(), cancel),
        parts_(matrix_.split(this->threads().count(), read.header.n)) {}

  void multiply(const Product& product) const override {
    if (product.layout == Layout::row_major) {
      run_row_major(product);
      return;
    }
    // So few columns are one panel. What is past them is zero, as B's is.
    const std::int64_t n = product.n;
    run_row_major({.b = product.b,
                   .ldb = k_csr_panel_columns,
                   .c = product.c,
                   .ldc = k_csr_panel_columns,
                   .n = n,
                   .values = product.values,
                   .workspace = product.workspace});
    for (std::int64_t row = 0; row < header_.rows; ++row) {
      std::fill_n(product.c + row * k_csr_panel_columns + n, k_csr_panel_columns - n, 0.0F);
    }
  }

  [[nodiscard]] std::shared_ptr<const PreparedValues::Stream> prepare_values(
      std::uint64_t kernel, std::span<const float> values) const override {
    const auto prepared = std::make_shared<SlicedValues>(kernel);
    prepared->steps = matrix_.arrange(values);
    return prepared;
  }

  [[nodiscard]] WorkspaceNeed workspace_need(const Product& product) const override {
    return {1, matrix_.column_floats() * product.n};
  }

 private:
  void run_row_major(const Product& product) const {
    SlicedOperands sliced{product.b, product.c, product.ldc, product.n};
    if (const auto* values = dynamic_cast<const SlicedValues*>(product.values)) {
      sliced.values = values->steps.data();
    }
    const bool in_place = matrix_.takes_in_place(product);
    WorkspaceSize copy;
    if (!in_place) {
      copy = {matrix_.column_floats() * product.n, matrix_.copied_floats() * product.n};
    }
    const WorkspacePool::Loan workspace(threads().workspaces(), copy, product.workspace);
    if (!in_place) {
      matrix_.copy_columns(product, workspace.data());
      sliced.b = workspace.data();
    }
    matrix_.zero_empty_rows(sliced);
    threads().run_parts(parts_, product.serial,
                        [&](const RowRange& slices) { matrix_.run(slices, sliced); });
  }

  HostProgramHeader header_;
  SlicedMatrix matrix_;
  std::vector<RowRange> parts_;
};

}  // namespace

Refusal SlicedFamily::refusal(const FamilyRequest& request) const {
  const HostIsa isa = request.options.target.isa();
  const std::int64_t n = request.problem.n.value;
  if (can_be_sliced(isa, n)) return Refusal::none();
  return Refusal(fmt::format("it is for n of 1 to {} and avx512, n is {} and the target {}",
                             k_most_sliced_columns, n, to_string(isa)));
}

double SlicedFamily::bytes_of_a(const FamilyRequest& request) const {
  return as_double(sliced_bytes(view_of(*request.problem.a), request.cancel));
}

BuiltKernel SlicedFamily::build(const BuildRequest& request) const {
  BuiltKernel built = build_csr(request, *this);
  built.reason =
      fmt::format("heuristic: n is {}: a vector is sixteen rows of A, not the columns of B",
                  request.what.problem.n.value);
  return built;
}

LoadedKernel SlicedFamily::open(const HostObject& object, const Cancellation& cancel) const {
  CsrImage read = read_csr_image(object.image, cancel);
  require_record(can_be_sliced(read.header.isa, read.header.n), "sliced columns");
  require_record(read.panel_columns == k_csr_panel_columns, "sliced panel columns");
  return open_csr<SlicedMultiplier>(object, std::move(read), cancel);
}

}  // namespace spjit
