#include "kernels/backend.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace spjit {

const KernelFamily& Backend::family(std::string_view name) const {
  std::vector<std::string_view> names;
  for (const KernelFamily* family : families_) {
    if (family->name() == name) return *family;
    names.push_back(family->name());
  }
  throw Error(fmt::format("the family of kernels \"{}\" is unknown; expected one of {}", name,
                          fmt::join(names, ", ")));
}

std::shared_ptr<ThreadPool> Backend::make_pool(const Resources& /*resources*/) const {
  return nullptr;
}

int Backend::most_threads(const Resources& /*resources*/) const { return 1; }

std::optional<Device> Backend::device(int /*ordinal*/) const { return std::nullopt; }

std::string Backend::lacks(const Target& /*target*/) const { return {}; }

void Backend::require(const Target& /*target*/) const {}

std::string Backend::too_large_to_time(const Problem& /*problem*/) const { return {}; }

std::optional<HostIsa> Backend::peak_isa(const Target& /*target*/) const { return std::nullopt; }

bool Backend::is_fault(const DeviceError& /*error*/) const noexcept { return false; }

bool Backend::is_out_of_memory(const DeviceError& /*error*/) const noexcept { return false; }

}  // namespace spjit
