#include "artifact/families.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/cuda/csr/csr_cuda_family.hpp"
#include "kernels/cuda/dense/dense_cuda_family.hpp"
#include "kernels/cuda/narrow/narrow_family.hpp"
#include "kernels/cuda/unrolled/cuda_family.hpp"
#include "kernels/host/compact/compact_family.hpp"
#include "kernels/host/csr/csr_family.hpp"
#include "kernels/host/dense/dense_family.hpp"
#include "kernels/host/reference/reference_family.hpp"
#include "kernels/host/sliced/sliced_family.hpp"
#include "kernels/host/unrolled/unrolled_family.hpp"
#include "kernels/kernel_record.hpp"
#include "spjit/error.hpp"

namespace spjit {

std::span<const KernelFamily* const> kernel_families() {
  static const SlicedFamily k_sliced;
  static const CompactFamily k_compact;
  static const DenseFamily k_dense;
  static const UnrolledHostFamily k_unrolled;
  static const DenseCudaFamily k_dense_cuda;
  static const NarrowFamily k_narrow;
  static const UnrolledCudaFamily k_unrolled_cuda;
  static const CsrFamily k_csr;
  static const CsrCudaFamily k_csr_cuda;
  static const ReferenceFamily k_reference;
  static const std::array<const KernelFamily*, 10> k_families = {
      &k_dense,  &k_compact,       &k_sliced, &k_unrolled, &k_dense_cuda,
      &k_narrow, &k_unrolled_cuda, &k_csr,    &k_csr_cuda, &k_reference};
  return k_families;
}

const KernelFamily& find_family(std::string_view name, bool is_cuda) {
  std::vector<std::string_view> names;
  for (const KernelFamily* family : kernel_families()) {
    if (family->is_cuda() != is_cuda) continue;
    if (family->name() == name) return *family;
    names.push_back(family->name());
  }
  throw Error(fmt::format("the family of kernels \"{}\" is unknown; expected one of {}", name,
                          fmt::join(names, ", ")));
}

bool is_family(std::string_view name) noexcept {
  return std::ranges::find(kernel_families(), name, &KernelFamily::name) != kernel_families().end();
}

std::vector<std::string_view> family_names() {
  std::vector<std::string_view> names;
  for (const KernelFamily* family : kernel_families()) {
    if (std::ranges::find(names, family->name()) == names.end()) names.push_back(family->name());
  }
  return names;
}

const KernelFamily& family_of(const nlohmann::json& record) {
  const std::string name = family_in(record);
  const auto target = record.find("target");
  const bool is_cuda = target != record.end() && target->is_string() &&
                       target->get_ref<const std::string&>().starts_with("sm_");
  return find_family(name, is_cuda);
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

const KernelFamily* family_by_rules(const FamilyRequest& request) {
  const bool is_named = !request.options.policy.family.empty();
  const KernelFamily* modest = nullptr;
  for (const KernelFamily* family : kernel_families()) {
    if (!why_not(*family, request).empty()) continue;
    if (is_named || family->leaves_to_others(request).empty()) return family;
    if (modest == nullptr) modest = family;
  }
  return modest;
}

}  // namespace spjit
