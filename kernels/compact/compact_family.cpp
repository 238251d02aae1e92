#include "kernels/compact/compact_family.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/arithmetic.hpp"
#include "kernels/compact/compact_kernel.hpp"
#include "kernels/csr_image.hpp"

namespace spjit {
namespace {

/// Of a thread, in vectors of a nonzero: about a microsecond. Waking it takes as long.
constexpr std::int64_t k_least_work = 4000;

std::int64_t parts_of(const HostProgramHeader& header, int threads) {
  const double work = as_double(header.nnz) * as_double(ceil_div(header.n, 16));
  return static_cast<std::int64_t>(
      std::clamp(work / as_double(k_least_work), 1.0, static_cast<double>(threads)));
}

class CompactExecutable final : public HostExecutable {
 public:
  CompactExecutable(HostObject object, CsrImage read, const Cancellation& cancel)
      : HostExecutable(std::move(object)), read_(std::move(read)) {
    const CsrView matrix = read_.view();
    const std::int64_t block = compact_block_columns(matrix, read_.header.isa, read_.header.n);
    for (const RowRange& rows : split_rows(matrix, parts_of(read_.header, threads()))) {
      parts_.emplace_back(matrix, rows, block, cancel);
    }
  }

  void run(const Arguments& arguments) const override {
    for_each_panel(arguments, read_, [&](const Arguments& part) { run_row_major(part); });
  }

 private:
  /// Threads share the rows: each brings its part of A from memory once. Of very few rows each
  /// would pack all of B for a few: then they share the columns.
  void run_row_major(const Arguments& arguments) const {
    const std::int64_t panels = ceil_div(arguments.n, k_compact_panel_columns);
    const std::int64_t threads = std::ssize(parts_);
    constexpr std::int64_t k_few_rows = 32;  // a thread
    if (threads <= 1 || panels < threads || read_.header.rows >= k_few_rows * threads) {
      run_with_workspace(threads, [&](std::int64_t task, float* workspace) {
        parts_[to_size(task)].run(arguments, read_.header.isa, workspace);
      });
      return;
    }
    run_with_workspace(threads, [&](std::int64_t task, float* workspace) {
      const std::int64_t begin = task * panels / threads * k_compact_panel_columns;
      const std::int64_t end =
          std::min(arguments.n, (task + 1) * panels / threads * k_compact_panel_columns);
      Arguments some = arguments;
      some.b += begin;
      some.c += begin;
      some.n = end - begin;
      for (const CompactMatrix& part : parts_) part.run(some, read_.header.isa, workspace);
    });
  }

  /// Calls `task` with 0 to `count` - 1 and a workspace.
  template <class Task>
  void run_with_workspace(std::int64_t count, const Task& task) const {
    run_tasks(count, [&](int index) {
      const std::int64_t floats = CompactMatrix::k_workspace_floats;
      const WorkspacePool::Loan workspace(workspaces(), {floats, floats});
      task(index, workspace.data());
    });
  }

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
  if (problem.n.runtime) return {};
  if (problem.panel_columns && *problem.panel_columns < problem.n.value) {
    return "every panel of B and C would read all of A";
  }
  if (request.options.policy.hot) return "unrolled code is faster where it stays in the caches";
  if (std::string loop = loop_preference(request); !loop.empty()) return loop;
  constexpr std::int64_t k_many_columns = 768;
  if (problem.n.value > k_many_columns) {
    return fmt::format("n is {}: unrolled code is read often enough from {} on", problem.n.value,
                       k_many_columns + 1);
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
  return {std::move(info),
          std::make_shared<const CompactExecutable>(object, std::move(read), cancel)};
}

}  // namespace spjit
