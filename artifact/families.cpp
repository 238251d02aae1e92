#include "artifact/families.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/cuda/csr/csr_cuda_family.hpp"
#include "kernels/cuda/cuda_backend.hpp"
#include "kernels/cuda/dense/dense_cuda_family.hpp"
#include "kernels/cuda/narrow/narrow_family.hpp"
#include "kernels/cuda/packed/packed_family.hpp"
#include "kernels/cuda/unrolled/cuda_family.hpp"
#include "kernels/host/byte_windows/bitmask_family.hpp"
#include "kernels/host/byte_windows/byte_windows_family.hpp"
#include "kernels/host/compact/compact_family.hpp"
#include "kernels/host/csr/csr_family.hpp"
#include "kernels/host/dense/dense_family.hpp"
#include "kernels/host/host_backend.hpp"
#include "kernels/host/reference/reference_family.hpp"
#include "kernels/host/unrolled/unrolled_family.hpp"
#include "kernels/host/windows/windows_family.hpp"
#include "kernels/kernel_record.hpp"
#include "spjit/error.hpp"

namespace spjit {

namespace {

const HostBackend& host_backend() {
  static const DenseFamily k_dense;
  static const CompactFamily k_compact;
  static const WindowsFamily k_windows;
  static const UnrolledHostFamily k_unrolled;
  static const CsrFamily k_csr;
  static const BitmaskFamily k_bitmask;
  static const ByteWindowsFamily k_byte_windows;
  static const ReferenceFamily k_reference;
  static const HostBackend k_host({&k_dense, &k_compact, &k_windows, &k_unrolled, &k_csr,
                                   &k_bitmask, &k_byte_windows, &k_reference});
  return k_host;
}

const CudaBackend& cuda_backend() {
  static const DenseCudaFamily k_dense;
  static const PackedFamily k_packed;
  static const NarrowFamily k_narrow;
  static const UnrolledCudaFamily k_unrolled;
  static const CsrCudaFamily k_csr;
  static const CudaBackend k_cuda({&k_dense, &k_packed, &k_narrow, &k_unrolled, &k_csr});
  return k_cuda;
}

}  // namespace

std::span<const Backend* const> backends() {
  static const std::array<const Backend*, 2> k_backends = {&host_backend(), &cuda_backend()};
  return k_backends;
}

const Backend& backend_named(std::string_view name) {
  return **std::ranges::find(backends(), name, &Backend::name);
}

const Backend& backend_of(const Target& target) { return backend_named(target.backend()); }

DeviceInfo device_info_of(const Target& target) { return backend_of(target).device_info(target); }

std::span<const KernelFamily* const> families_for(const Target& target) {
  return backend_of(target).families();
}

const KernelFamily& find_family(std::string_view name, std::string_view backend) {
  return backend_named(backend).family(name);
}

bool is_family(std::string_view name) noexcept {
  return std::ranges::any_of(backends(), [&](const Backend* backend) {
    return std::ranges::find(backend->families(), name, &KernelFamily::name) !=
           backend->families().end();
  });
}

std::vector<std::string_view> family_names() {
  std::vector<std::string_view> names;
  for (const Backend* backend : backends()) {
    for (const KernelFamily* family : backend->families()) {
      if (std::ranges::find(names, family->name()) == names.end()) names.push_back(family->name());
    }
  }
  return names;
}

std::span<const NamedOption* const> named_options() {
  static const std::vector<const NamedOption*> k_options = [] {
    std::vector<const NamedOption*> options;
    const auto add = [&](std::span<const NamedOption* const> more) {
      options.insert(options.end(), more.begin(), more.end());
    };
    for (const Backend* backend : backends()) {
      add(backend->options());
      for (const KernelFamily* family : backend->families()) add(family->options());
    }
    std::ranges::sort(options, {}, &NamedOption::name);
    return options;
  }();
  return k_options;
}

bool has_options(const Backend& backend) noexcept {
  return std::ranges::any_of(backend.families(),
                             [](const KernelFamily* family) { return !family->options().empty(); });
}

const KernelFamily& family_of(const nlohmann::json& record) {
  const std::string name = family_in(record);
  const auto target = record.find("target");
  // Its card may be a GPU that this machine has not.
  const bool is_named = target != record.end() && target->is_string();
  const std::string text = is_named ? target->get<std::string>() : std::string();
  return find_family(name, Target::backend_in(text));
}

const KernelFamily* chosen_family(const FamilyRequest& request) {
  const Backend& backend = backend_of(request.options.target);
  const bool is_named = !request.options.policy.family.empty();
  const KernelFamily* modest = nullptr;
  for (const KernelFamily* family : backend.families()) {
    if (why_not(*family, request)) continue;
    if (is_named || !backend.leaves_to_others(*family, request)) return family;
    if (modest == nullptr && !backend.is_firm(*family, request)) modest = family;
  }
  return modest;
}

}  // namespace spjit
