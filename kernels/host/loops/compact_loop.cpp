#include "kernels/host/loops/compact_loop.hpp"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/arithmetic.hpp"
#include "base/host_cpu.hpp"
#include "kernels/host/loops/compact_kernel.hpp"

namespace spjit {
namespace {

/// Of a thread, in vectors of a nonzero: about a microsecond. Waking it takes as long.
constexpr double k_least_work = 4000;

Extent columns_of(const HostProgramHeader& header) {
  return header.runtime_n ? Extent::at_run_time(header.n) : Extent(header.n);
}

/// Of each part of a kernel.
struct CompactValues final : PreparedValues::Stream {
  using Stream::Stream;
  std::vector<CompactMatrix::Values> parts;
  std::vector<CompactMatrix::Part> all;  ///< of the kernel, with them
};

class CompactMultiplier final : public Multiplier {
 public:
  CompactMultiplier(HostThreads threads, CsrImage read, const Cancellation& cancel)
      : Multiplier(std::move(threads)),
        read_(std::move(read)),
        cpu_(compact_cpu_of(read_.header.isa, host_cpu())) {
    const CsrView matrix = read_.view();
    std::int64_t block =
        compact_block_columns(matrix, cpu_, columns_of(read_.header), read_.header.ldb);
    if (read_.header.b_layout == Layout::tokens_major) {
      block = std::min(block, CompactMatrix::k_most_packed_columns);
    }
    const double work = as_double(matrix.nnz()) * as_double(ceil_div(read_.header.n, 16));
    const std::int64_t parts = worthwhile_parts(work, k_least_work, this->threads().count());
    for (const RowRange& rows : split_rows(matrix, parts)) {
      parts_.emplace_back(matrix, rows, block, cancel);
    }
    for (const CompactMatrix& part : parts_) own_.push_back({&part, nullptr});
  }

  void multiply(const Product& product) const override {
    const SharedWork work{.image = read_,
                          .panel_columns = k_compact_panel_columns,
                          .workspace_floats = CompactMatrix::k_workspace_floats};
    const auto* values = dynamic_cast<const CompactValues*>(product.values);
    if (product.serial) {
      const WorkspacePool::Loan workspace(threads().workspaces(),
                                          {work.workspace_floats, work.workspace_floats},
                                          product.workspace);
      for_each_panel(product, read_, [&](const Product& panel) {
        CompactMatrix::run(values == nullptr ? own_ : values->all, panel, cpu_, workspace.data());
      });
      return;
    }
    threads().run_shared(parts_, product, work,
                         [&](const CompactMatrix& part, const Product& some, float* workspace) {
                           const auto index = &part - parts_.data();
                           part.run(some, cpu_, workspace,
                                    values == nullptr ? nullptr : &values->parts[to_size(index)]);
                         });
  }

  [[nodiscard]] WorkspaceNeed workspace_need(const Product& product) const override {
    return HostThreads::shared_need(parts_, product, CompactMatrix::k_workspace_floats);
  }

  [[nodiscard]] bool takes_tokens() const noexcept override {
    return std::ranges::all_of(parts_, &CompactMatrix::takes_tokens);
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
    for (const CompactMatrix& part : parts_) prepared->parts.push_back(part.arrange(values));
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      prepared->all.push_back({&parts_[i], &prepared->parts[i]});
    }
    return prepared;
  }

 private:
  CsrImage read_;
  CompactCpu cpu_;
  std::vector<CompactMatrix> parts_;
  std::vector<CompactMatrix::Part> own_;  ///< all of them
};

}  // namespace

std::shared_ptr<const HostExecutable> make_compact_loop(const HostObject& object, CsrImage read,
                                                        const Cancellation& cancel) {
  return csr_executable<CompactMultiplier>(object, std::move(read), cancel);
}

}  // namespace spjit
