#include "runtime/cuda/local_gpus.hpp"

#include <fmt/format.h>

#include <charconv>

#include "base/environment.hpp"
#include "runtime/cuda/cuda_device.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

/// The driver's numbers; what it does not tell (sub-partitions, allocation units) is the
/// architecture's, or CudaDeviceInfo' default for one that the table does not know.
CudaDeviceInfo limits_of(const CudaDeviceAttributes& device) {
  CudaDeviceInfo limits;
  for (const CudaDeviceInfo& known : known_cuda_cards()) {
    if (known.arch == device.arch) {
      limits = known;
      break;
    }
  }
  limits.arch = device.arch;
  limits.card = fmt::format("gpu{}", device.ordinal);
  limits.product = device.name;
  limits.sms = device.sms;
  limits.l2_bytes = device.l2_bytes;
  limits.registers_per_block = device.registers_per_block;
  limits.registers_per_sm = device.registers_per_sm;
  limits.warp_size = device.warp_size;
  limits.threads_per_block = device.threads_per_block;
  limits.threads_per_sm = device.threads_per_sm;
  limits.blocks_per_sm = device.blocks_per_sm;
  limits.shared_per_sm_bytes = device.shared_per_sm_bytes;
  limits.shared_per_block_bytes = device.shared_per_block_bytes;
  limits.shared_per_block_optin_bytes = device.shared_per_block_optin_bytes;
  limits.reserved_shared_per_block_bytes = device.reserved_shared_per_block_bytes;
  return limits;
}

}  // namespace

std::shared_ptr<const CudaDriver> local_cuda_driver() {
  return CudaDriver::load(read_cuda_environment().spjit_cuda_driver);
}

LocalGpus find_local_gpus() {
  LocalGpus local;
  try {
    const std::shared_ptr<const CudaDriver> driver = local_cuda_driver();
    local.driver = fmt::format("CUDA driver {}.{}, {}", driver->version() / 1000,
                               driver->version() % 1000 / 10, driver->path().string());
    for (int ordinal = 0; ordinal < cuda_device_count(*driver); ++ordinal) {
      const CudaDeviceAttributes device = cuda_device_attributes(*driver, ordinal);
      local.gpus.push_back({ordinal, limits_of(device), device.memory_bytes});
    }
    if (local.gpus.empty()) local.problem = "the CUDA driver sees no GPU";
  } catch (const Error& error) {
    local.gpus.clear();
    local.problem = error.what();
  }
  return local;
}

CudaDeviceInfo local_gpu_info(int ordinal) {
  const LocalGpus local = find_local_gpus();
  if (local.gpus.empty()) throw NotSupported("no GPU to use here: " + local.problem);
  for (const LocalGpu& gpu : local.gpus) {
    if (gpu.ordinal == ordinal) return gpu.limits;
  }
  throw InvalidArgument(fmt::format("there is no GPU {}: this machine has {} (0 to {})", ordinal,
                                    local.gpus.size(), local.gpus.size() - 1));
}

std::optional<int> gpu_ordinal(std::string_view card) noexcept {
  constexpr std::string_view k_prefix = "gpu";
  if (!card.starts_with(k_prefix)) return std::nullopt;
  card.remove_prefix(k_prefix.size());
  int ordinal = 0;
  const char* end = card.data() + card.size();
  const auto [rest, error] = std::from_chars(card.data(), end, ordinal);
  if (error != std::errc{} || rest != end || ordinal < 0) return std::nullopt;
  return ordinal;
}

CudaDeviceInfo cuda_device_info_of(const Target& target) {
  if (const std::optional<int> ordinal = gpu_ordinal(target.card())) {
    return local_gpu_info(*ordinal);
  }
  if (target.card().empty()) {
    for (const LocalGpu& gpu : find_local_gpus().gpus) {
      if (gpu.limits.arch == target.arch()) return gpu.limits;
    }
  }
  return parse_cuda_target(target.name());
}

TimingGpu find_timing_gpu(const Target& target, const CudaDeviceInfo& limits) {
  const LocalGpus local = find_local_gpus();
  const std::optional<int> named = gpu_ordinal(target.card());
  for (const LocalGpu& gpu : local.gpus) {
    const bool same = gpu.limits.arch == limits.arch && gpu.limits.sms == limits.sms;
    if (named ? gpu.ordinal == *named : same) return {gpu.ordinal, gpu.limits.product, ""};
  }
  TimingGpu none;
  none.problem = local.gpus.empty()
                     ? local.problem
                     : fmt::format("no GPU here is an sm_{} with {} SMs", limits.arch, limits.sms);
  return none;
}

}  // namespace spjit
