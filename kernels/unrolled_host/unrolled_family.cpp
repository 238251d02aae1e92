#include "kernels/unrolled_host/unrolled_family.hpp"

#include <fmt/format.h>

#include <utility>

#include "kernels/unrolled_host/host_heuristic.hpp"
#include "kernels/unrolled_host/unrolled_executable.hpp"
#include "matrix/rows_of_b.hpp"

namespace spjit {
namespace {

#ifdef SPJIT_HAVE_LLVM
constexpr bool k_have_llvm = true;
#else
constexpr bool k_have_llvm = false;
#endif

}  // namespace

std::string_view UnrolledHostFamily::name() const noexcept { return k_unrolled_host_name; }

std::string UnrolledHostFamily::refusal(const FamilyRequest& request) const {
  const HostIsa isa = request.options.target.isa();
  const CsrMatrix& a = *request.problem.a;
  if (isa == HostIsa::generic && !k_have_llvm) {
    return "the generic target needs LLVM, which this build was made without";
  }
  const HostTile tile = host_tile_by_rules(
      workload_of(request.problem, request.options.resources.threads, request.cancel),
      std::get<HostDeviceInfo>(request.device));
  if (tile.pack_b && !request.problem.panel_columns && is_mostly_unread(a.cols, a.nnz())) {
    return fmt::format("B has {} rows, and {} nonzeros read few of them; it is not copied", a.cols,
                       a.nnz());
  }
  // Before any work: an FMA of a nonzero has at least five bytes (VEX) or six (EVEX).
  const std::int64_t fma_bytes = isa == HostIsa::avx512 ? 6 : 5;
  const std::int64_t vectors = isa == HostIsa::generic ? 1 : tile.nv;
  const std::int64_t bytes = a.nnz() * vectors * fma_bytes;
  const std::int64_t budget = request.options.policy.code_budget_bytes;
  if (bytes <= budget) return {};
  return fmt::format("at least {} bytes of code for {} nonzeros, the budget is {}", bytes, a.nnz(),
                     budget);
}

LoadedKernel UnrolledHostFamily::open(const HostObject& object, const Cancellation& cancel) const {
  HostProgramRecord record = read_program(object.image, cancel);
  LoadedKernel loaded;
  loaded.info = info_of(record.header, object);
  loaded.info.tile = to_string(record.tile);
  auto executable = std::make_shared<UnrolledExecutable>(object, std::move(record));
  loaded.info.panel_columns = executable->program().panel_width();
  loaded.executable = std::move(executable);
  return loaded;
}

}  // namespace spjit
