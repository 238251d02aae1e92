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
constexpr double k_least_work = 4000;

class CompactExecutable final : public HostExecutable {
 public:
  CompactExecutable(HostObject object, CsrImage read, const Cancellation& cancel)
      : HostExecutable(std::move(object)), read_(std::move(read)) {
    const CsrView matrix = read_.view();
    const std::int64_t block = compact_block_columns(matrix, read_.header.isa, read_.header.n);
    const double work = as_double(matrix.nnz()) * as_double(ceil_div(read_.header.n, 16));
    const std::int64_t parts = worthwhile_parts(work, k_least_work, threads());
    for (const RowRange& rows : split_rows(matrix, parts)) {
      parts_.emplace_back(matrix, rows, block, cancel);
    }
  }

  void run(const Arguments& arguments) const override {
    const SharedWork work{.rows = read_.header.rows,
                          .panel_columns = k_compact_panel_columns,
                          .workspace_floats = CompactMatrix::k_workspace_floats};
    for_each_panel(arguments, read_, [&](const Arguments& panel) {
      run_shared(parts_, panel, work,
                 [&](const CompactMatrix& part, const Arguments& some, float* workspace) {
                   part.run(some, read_.header.isa, workspace);
                 });
    });
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
