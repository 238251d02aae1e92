#include "kernels/families.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

#include "kernels/compact/compact_family.hpp"
#include "kernels/csr/csr_family.hpp"
#include "kernels/dense/dense_family.hpp"
#include "kernels/reference/reference_family.hpp"
#include "kernels/sliced/sliced_family.hpp"
#include "kernels/unrolled_cuda/cuda_family.hpp"
#include "kernels/unrolled_host/unrolled_family.hpp"
#include "spjit/error.hpp"

namespace spjit {

std::span<const KernelFamily* const> kernel_families() {
  static const SlicedFamily k_sliced;
  static const CompactFamily k_compact;
  static const DenseFamily k_dense;
  static const UnrolledHostFamily k_unrolled;
  static const UnrolledCudaFamily k_cuda;
  static const CsrFamily k_csr;
  static const ReferenceFamily k_reference;
  static const std::array<const KernelFamily*, 7> k_families = {
      &k_dense, &k_compact, &k_sliced, &k_unrolled, &k_cuda, &k_csr, &k_reference};
  return k_families;
}

const KernelFamily& find_family(std::string_view name) {
  const auto families = kernel_families();
  const auto found = std::ranges::find(families, name, &KernelFamily::name);
  if (found != families.end()) return **found;
  std::vector<std::string_view> names;
  for (const KernelFamily* family : families) names.push_back(family->name());
  throw Error(fmt::format("the family of kernels \"{}\" is unknown; expected one of {}", name,
                          fmt::join(names, ", ")));
}

std::string why_not(const KernelFamily& family, const FamilyRequest& request) {
  if (family.is_cuda() != request.options.target.is_cuda()) {
    return family.is_cuda() ? "it is for GPUs" : "it is for the host";
  }
  const std::string& named = request.options.policy.family;
  if (!named.empty() && named != family.name()) return "the policy names " + named;
  const ProblemFeatures unknown = features_of(request.problem).without(family.features());
  if (!unknown.empty()) return "it does not know " + to_string(unknown);
  return family.refusal(request);
}

}  // namespace spjit
