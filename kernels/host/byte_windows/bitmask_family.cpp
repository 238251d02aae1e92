#include "kernels/host/byte_windows/bitmask_family.hpp"

#include <fmt/format.h>

namespace spjit {

Refusal BitmaskFamily::refusal(const FamilyRequest& request) const {
  const HostIsa isa = request.options.target.isa();
  if (isa == HostIsa::avx512) return problem_refusal(request.problem);
  return Refusal(fmt::format("it is for avx512; the target is {}", to_string(isa)));
}

LoadedKernel BitmaskFamily::open(const HostObject& object, const Cancellation& cancel) const {
  return open_bytes(object, true, cancel);
}

}  // namespace spjit
