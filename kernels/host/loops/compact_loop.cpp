#include "kernels/host/loops/compact_loop.hpp"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/arithmetic.hpp"
#include "base/host_cpu.hpp"
#include "kernels/host/loops/compact_kernel.hpp"
#include "matrix/limits.hpp"

namespace spjit {
namespace {

/// Of a thread, in vectors of a nonzero: about a microsecond. Waking it takes as long.
constexpr double k_least_work = 4000;

/// Columns of the products of a kernel: of a panel, where B or C has panels.
Extent columns_of(const CsrImage& read) {
  const HostProgramHeader& header = read.header;
  const bool has_panels =
      header.b_layout == Layout::panel_major || header.c_layout == Layout::panel_major;
  const std::int64_t n = has_panels ? std::min(header.n, read.panel_columns) : header.n;
  return header.runtime_n && !has_panels ? Extent::at_run_time(n) : Extent(n);
}

/// The values of a form.
struct FormValues {
  std::vector<CompactMatrix::Values> parts;
  std::vector<CompactMatrix::Part> all;  ///< of the form, with them
};

/// A in blocks of one kind, in a part for each thread.
struct CompactForm {
  std::vector<CompactMatrix> parts;
  std::vector<CompactMatrix::Part> own;  ///< all of them, with A's values

  [[nodiscard]] FormValues arrange(std::span<const float> values) const {
    FormValues arranged;
    for (const CompactMatrix& part : parts) arranged.parts.push_back(part.arrange(values));
    for (std::size_t i = 0; i < parts.size(); ++i) {
      arranged.all.push_back({&parts[i], &arranged.parts[i]});
    }
    return arranged;
  }
};

/// Of each form of a kernel.
struct CompactValues final : PreparedValues::Stream {
  using Stream::Stream;
  std::vector<FormValues> forms;
};

class CompactMultiplier final : public Multiplier {
 public:
  CompactMultiplier(HostThreads threads, CsrImage read, const Cancellation& cancel)
      : Multiplier(std::move(threads)),
        read_(std::move(read)),
        cpu_(compact_cpu_of(read_.header.isa, host_cpu())) {
    const Extent n = columns_of(read_);
    if (n.runtime && cpu_.wide_columns <= k_max_dimension) {
      add_form(Extent::at_run_time(std::min(n.value, cpu_.wide_columns - 1)), cancel);
      add_form(Extent::at_run_time(std::max(n.value, cpu_.wide_columns)), cancel);
    } else {
      add_form(n, cancel);
    }
    read_.drop_widened();
  }

  void multiply(const Product& product) const override {
    const SharedWork work{.image = read_,
                          .panel_columns = k_compact_panel_columns,
                          .workspace_floats = CompactMatrix::k_workspace_floats};
    const std::size_t index = form_of(product);
    const CompactForm& form = forms_[index];
    const auto* prepared = dynamic_cast<const CompactValues*>(product.values);
    const FormValues* values = prepared == nullptr ? nullptr : &prepared->forms[index];
    if (product.serial) {
      const WorkspacePool::Loan workspace(threads().workspaces(),
                                          {work.workspace_floats, work.workspace_floats},
                                          product.workspace);
      for_each_panel(product, read_, [&](const Product& panel) {
        CompactMatrix::run(values == nullptr ? form.own : values->all, panel, cpu_,
                           workspace.data());
      });
      return;
    }
    threads().run_shared(form.parts, product, work,
                         [&](const CompactMatrix& part, const Product& some, float* workspace) {
                           const auto at = &part - form.parts.data();
                           part.run(some, cpu_, workspace,
                                    values == nullptr ? nullptr : &values->parts[to_size(at)]);
                         });
  }

  [[nodiscard]] WorkspaceNeed workspace_need(const Product& product) const override {
    return HostThreads::shared_need(forms_[form_of(product)].parts, product,
                                    CompactMatrix::k_workspace_floats);
  }

  [[nodiscard]] bool takes_tokens() const noexcept override {
    return std::ranges::all_of(forms_, [](const CompactForm& form) {
      return std::ranges::all_of(form.parts, &CompactMatrix::takes_tokens);
    });
  }

  [[nodiscard]] bool takes_runs() const noexcept override { return takes_tokens(); }

  /// As many columns of a batch as an image has at once.
  [[nodiscard]] ColumnGroups column_groups(bool in_place) const noexcept override {
    ColumnGroups groups = Multiplier::column_groups(in_place);
    groups.of_batch = 256;
    return groups;
  }

  [[nodiscard]] std::shared_ptr<const PreparedValues::Stream> prepare_values(
      std::uint64_t kernel, std::span<const float> values) const override {
    const auto prepared = std::make_shared<CompactValues>(kernel);
    for (const CompactForm& form : forms_) prepared->forms.push_back(form.arrange(values));
    return prepared;
  }

 private:
  void add_form(const Extent& n, const Cancellation& cancel) {
    const CsrView matrix = read_.view();
    CompactBlocks blocks = compact_blocks(matrix, cpu_, n, read_.header.ldb);
    if (read_.header.b_layout == Layout::tokens_major) {
      blocks.columns = std::min(blocks.columns, CompactMatrix::k_most_packed_columns);
    }
    // Where weights are loaded one by one, an FMA takes a float from memory. Not of groups with
    // scales: floats of those, n of 8 and 16, hot, take 0.85 to 1.1 of the time, and thrice the
    // bytes.
    if (!cpu_.loads_weights || !matrix.groups.empty()) {
      blocks.held = held_type_of(stored_type(read_.header.numerics));
    }
    const double work = as_double(matrix.nnz()) * as_double(ceil_div(read_.header.n, 16));
    const std::int64_t parts = worthwhile_parts(work, k_least_work, threads().count());
    CompactForm form;
    for (const RowRange& rows : split_rows(matrix, parts)) {
      form.parts.emplace_back(matrix, rows, blocks, cancel);
    }
    for (const CompactMatrix& part : form.parts) form.own.push_back({&part, nullptr});
    forms_.push_back(std::move(form));
  }

  /// Of few columns, of many: the place in forms_.
  [[nodiscard]] std::size_t form_of(const Product& product) const noexcept {
    const std::int64_t n = product.layout == Layout::panel_major ? read_.panel_columns : product.n;
    return forms_.size() > 1 && n >= cpu_.wide_columns ? 1 : 0;
  }

  CsrImage read_;
  CompactCpu cpu_;
  std::vector<CompactForm> forms_;  ///< one, or of a run-time n the suited one is run
};

}  // namespace

std::shared_ptr<const HostExecutable> make_compact_loop(const HostObject& object, CsrImage read,
                                                        const Cancellation& cancel) {
  return csr_executable<CompactMultiplier>(object, std::move(read), cancel);
}

}  // namespace spjit
