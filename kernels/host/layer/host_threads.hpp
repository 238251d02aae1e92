#pragma once

/// @file
/// The threads of a host kernel, and how its work is divided among them.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "base/arithmetic.hpp"
#include "base/row_ranges.hpp"
#include "base/thread_pool.hpp"
#include "kernels/host/object/csr_image.hpp"
#include "kernels/host/operands/packing.hpp"
#include "kernels/host/operands/product.hpp"
#include "kernels/host/operands/workspace_pool.hpp"

namespace spjit {

/// Calls `run` with row-major arguments: once, or for each panel where B and C are panel-major.
template <class Run>
void for_each_panel(const Product& product, const CsrImage& image, const Run& run) {
  if (product.layout == Layout::row_major) {
    run(product);
    return;
  }
  const std::int64_t width = image.panel_columns;
  const PanelLayout b{image.header.cols, product.n, width};
  const PanelLayout c{image.header.rows, product.n, width};
  for (std::int64_t panel = 0; panel < b.panels(); ++panel) {
    run({.b = product.b + panel * b.stride(),
         .ldb = width,
         .c = product.c + panel * c.stride(),
         .ldc = width,
         .n = width,
         .serial = product.serial,
         .values = product.values,
         .workspace = product.workspace});
  }
}

/// Data that threads share.
struct SharedWork {
  const CsrImage& image;
  std::int64_t panel_columns;     ///< columns are shared in multiples
  std::int64_t workspace_floats;  ///< that each thread needs
};

/// Into how many parts work is worth dividing. `least` is a thread's: less takes no longer than
/// waking it.
[[nodiscard]] inline std::int64_t worthwhile_parts(double work, double least, int threads) {
  return static_cast<std::int64_t>(std::clamp(work / least, 1.0, static_cast<double>(threads)));
}

/// A pool, or the caller's thread, with the workspaces of what runs in it. Thread-safe.
class HostThreads {
 public:
  explicit HostThreads(std::shared_ptr<ThreadPool> pool) : pool_(std::move(pool)) {}

  [[nodiscard]] int count() const noexcept { return pool_ == nullptr ? 1 : pool_->threads(); }
  [[nodiscard]] ThreadPool* pool() const noexcept { return pool_.get(); }
  [[nodiscard]] const WorkspacePool& workspaces() const noexcept { return *workspaces_; }

  /// Calls `task` with 0 to `count` - 1, in the pool's threads if there is one and not `serial`.
  template <class Task>
  void run_tasks(std::int64_t count, bool serial, const Task& task) const {
    if (pool() == nullptr || serial || count <= 1) {
      for (int index = 0; index < count; ++index) task(index);
      return;
    }
    // A task a thread at most, of which a pool has k_most_threads at most.
    pool()->run(static_cast<int>(count), [&](int index, int) { task(index); });
  }

  /// Calls `part` with each of the parts, as run_tasks().
  template <class Part>
  void run_parts(const std::vector<RowRange>& parts, bool serial, const Part& part) const {
    run_tasks(std::ssize(parts), serial,
              [&](int index) { part(parts[static_cast<std::size_t>(index)]); });
  }

  /// Calls `task` with the rows that each thread has.
  template <class Task>
  void share_rows(std::int64_t rows, bool serial, const Task& task) const {
    const std::int64_t most = serial ? 1 : count();
    const std::int64_t parts = std::min<std::int64_t>(most, ceil_div(rows, 16));
    run_tasks(parts, serial, [&](std::int64_t part) {
      task(RowRange{rows * part / parts, rows * (part + 1) / parts});
    });
  }

  /// Computes C with parts that have some rows each. `run(part, product, workspace)` computes the
  /// part's rows of row-major C. Threads share the rows, so that each brings its part of A from
  /// memory once. Of very few rows each would pack all of B for a few: then they share the columns,
  /// in panels.
  template <class Part, class Run>
  void run_shared(const std::vector<Part>& parts, const Product& product, const SharedWork& work,
                  const Run& run) const {
    for_each_panel(product, work.image,
                   [&](const Product& panel) { run_row_major(parts, panel, work, run); });
  }

  /// The workspace that run_shared() with such parts borrows.
  template <class Part>
  [[nodiscard]] static WorkspaceNeed shared_need(const std::vector<Part>& parts,
                                                 const Product& product, std::int64_t floats) {
    return {product.serial ? 1 : std::ssize(parts), floats};
  }

 private:
  template <class Part, class Run>
  void run_row_major(const std::vector<Part>& parts, const Product& product, const SharedWork& work,
                     const Run& run) const {
    const std::int64_t panels = ceil_div(product.n, work.panel_columns);
    const std::int64_t count = std::ssize(parts);
    constexpr std::int64_t k_few_rows = 32;  // a thread
    const bool by_rows =
        count <= 1 || panels < count || work.image.header.rows >= k_few_rows * count;
    run_tasks(count, product.serial, [&](std::int64_t task) {
      const WorkspacePool::Loan workspace(
          workspaces(), {work.workspace_floats, work.workspace_floats}, product.workspace);
      if (by_rows) {
        run(parts[static_cast<std::size_t>(task)], product, workspace.data());
        return;
      }
      const std::int64_t begin = task * panels / count * work.panel_columns;
      const std::int64_t end =
          std::min(product.n, (task + 1) * panels / count * work.panel_columns);
      const Product some = product.columns(begin, end - begin);
      for (const Part& part : parts) run(part, some, workspace.data());
    });
  }

  std::shared_ptr<ThreadPool> pool_;
  std::shared_ptr<const WorkspacePool> workspaces_ = WorkspacePool::shared();
};

}  // namespace spjit
