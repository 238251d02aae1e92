#include "runtime/cuda/local_gpus.hpp"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <utility>

#include "base/environment.hpp"
#include "base/number_text.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

// CUdevice_attribute.
enum DeviceAttribute : int {
  max_threads_per_block = 1,
  max_shared_per_block = 8,
  warp_size = 10,
  max_registers_per_block = 12,
  multiprocessor_count = 16,
  l2_size = 38,
  max_threads_per_sm = 39,
  compute_capability_major = 75,
  compute_capability_minor = 76,
  max_shared_per_sm = 81,
  max_registers_per_sm = 82,
  max_shared_per_block_optin = 97,
  max_blocks_per_sm = 106,
  reserved_shared_per_block = 111,
};

std::string name_of(const CudaDriver& driver, int device) {
  std::array<char, 256> name{};
  driver.check(driver.api().device_name(name.data(), static_cast<int>(name.size()), device),
               [&] { return fmt::format("ask for the name of device {}", device); });
  return name.data();
}

std::int64_t memory_of(const CudaDriver& driver, int device) {
  std::size_t bytes = 0;
  driver.check(driver.api().device_memory(&bytes, device),
               [&] { return fmt::format("ask for the memory of device {}", device); });
  return static_cast<std::int64_t>(bytes);
}

int checked_device(const CudaDriver& driver, int ordinal) {
  const int count = cuda_device_count(driver);
  if (ordinal < 0 || ordinal >= count) {
    throw InvalidArgument(fmt::format(
        "there is no CUDA device {}: the driver has {}, numbered from 0 (CUDA_VISIBLE_DEVICES "
        "can hide and renumber them)",
        ordinal, count));
  }
  int device = 0;
  driver.check(driver.api().device(&device, ordinal),
               [&] { return fmt::format("get device {}", ordinal); });
  return device;
}

/// What the driver does not tell (sub-partitions, allocation units): the architecture's, or
/// CudaDeviceInfo's default for one that the table does not know.
CudaDeviceInfo known_limits(std::int64_t arch) {
  for (CudaDeviceInfo& known : known_cuda_cards()) {
    if (known.arch == arch) return std::move(known);
  }
  return {};
}

}  // namespace

std::string LocalGpu::label() const {
  return fmt::format("device {} (\"{}\")", ordinal, limits.product);
}

int cuda_device_count(const CudaDriver& driver) {
  int count = 0;
  driver.check(driver.api().device_count(&count), [] { return "count the CUDA devices"; });
  return count;
}

LocalGpu describe_cuda_device(const CudaDriver& driver, int ordinal) {
  const int device = checked_device(driver, ordinal);
  const auto attribute = [&](DeviceAttribute number) {
    int value = 0;
    driver.check(driver.api().device_attribute(&value, number, device), [&] {
      return fmt::format("ask for attribute {} of device {}", static_cast<int>(number), ordinal);
    });
    return value;
  };
  const int arch = 10 * attribute(compute_capability_major) + attribute(compute_capability_minor);
  CudaDeviceInfo limits = known_limits(arch);
  limits.arch = arch;
  limits.card = fmt::format("gpu{}", ordinal);
  limits.product = name_of(driver, device);
  limits.sms = attribute(multiprocessor_count);
  limits.l2_bytes = attribute(l2_size);
  limits.registers_per_block = attribute(max_registers_per_block);
  limits.registers_per_sm = attribute(max_registers_per_sm);
  limits.warp_size = attribute(warp_size);
  limits.threads_per_block = attribute(max_threads_per_block);
  limits.threads_per_sm = attribute(max_threads_per_sm);
  limits.blocks_per_sm = attribute(max_blocks_per_sm);
  limits.shared_per_sm_bytes = attribute(max_shared_per_sm);
  limits.shared_per_block_bytes = attribute(max_shared_per_block);
  limits.shared_per_block_optin_bytes = attribute(max_shared_per_block_optin);
  limits.reserved_shared_per_block_bytes = attribute(reserved_shared_per_block);
  return {ordinal, std::move(limits), memory_of(driver, device)};
}

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
      local.gpus.push_back(describe_cuda_device(*driver, ordinal));
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
  const auto ordinal = read_number<int>(card);
  return ordinal.value_or(-1) < 0 ? std::nullopt : ordinal;
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
