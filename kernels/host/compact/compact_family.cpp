#include "kernels/host/compact/compact_family.hpp"

#include <utility>

#include "kernels/built_kernel.hpp"
#include "kernels/host/loops/compact_loop.hpp"
#include "kernels/host/object/csr_image.hpp"

namespace spjit {

Refusal CompactFamily::refusal(const FamilyRequest& request) const {
  const HostIsa isa = request.options.target.isa();
  if (isa == HostIsa::generic) return Refusal("it is for avx512 and avx2, not for generic");
  return unread_refusal(*request.problem.a);
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
  return {std::move(info), make_compact_loop(object, std::move(read), cancel)};
}

}  // namespace spjit
