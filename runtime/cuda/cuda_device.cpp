#include "runtime/cuda/cuda_device.hpp"

#include <fmt/format.h>

#include <array>
#include <cstddef>

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

}  // namespace

std::string CudaDeviceAttributes::label() const {
  return fmt::format("device {} (\"{}\")", ordinal, name);
}

int cuda_device_count(const CudaDriver& driver) {
  int count = 0;
  driver.check(driver.api().device_count(&count), [] { return "count the CUDA devices"; });
  return count;
}

CudaDeviceAttributes cuda_device_attributes(const CudaDriver& driver, int ordinal) {
  const int device = checked_device(driver, ordinal);
  const auto attribute = [&](DeviceAttribute number) {
    int value = 0;
    driver.check(driver.api().device_attribute(&value, number, device), [&] {
      return fmt::format("ask for attribute {} of device {}", static_cast<int>(number), ordinal);
    });
    return value;
  };
  return {.ordinal = ordinal,
          .name = name_of(driver, device),
          .arch = 10 * attribute(compute_capability_major) + attribute(compute_capability_minor),
          .sms = attribute(multiprocessor_count),
          .l2_bytes = attribute(l2_size),
          .memory_bytes = memory_of(driver, device),
          .registers_per_block = attribute(max_registers_per_block),
          .registers_per_sm = attribute(max_registers_per_sm),
          .warp_size = attribute(warp_size),
          .threads_per_block = attribute(max_threads_per_block),
          .threads_per_sm = attribute(max_threads_per_sm),
          .blocks_per_sm = attribute(max_blocks_per_sm),
          .shared_per_block_bytes = attribute(max_shared_per_block),
          .shared_per_block_optin_bytes = attribute(max_shared_per_block_optin),
          .shared_per_sm_bytes = attribute(max_shared_per_sm),
          .reserved_shared_per_block_bytes = attribute(reserved_shared_per_block)};
}

}  // namespace spjit
