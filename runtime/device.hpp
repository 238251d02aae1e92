#pragma once

/// @file
/// Devices that kernels are compiled for and run on: this CPU or a GPU.

#include <memory>
#include <string>
#include <variant>

#include "base/hash.hpp"
#include "base/thread_pool.hpp"
#include "runtime/cuda/cuda_device_info.hpp"
#include "runtime/host/host_device_info.hpp"

namespace spjit {

/// A device as plain data: what rules, formulas and the cache key look at.
using DeviceInfo = std::variant<HostDeviceInfo, CudaDeviceInfo>;

/// The name that people use: "AMD EPYC 9354", "H200 SXM".
[[nodiscard]] const std::string& product_of(const DeviceInfo& device) noexcept;

/// Adds what choices look at to a cache key; not a card's name: a table and a driver, or an
/// operating system, that agree on a card give one key.
void add_to_key(const DeviceInfo& device, KeyBuilder& key);

/// Where a kernel is loaded to run: on this CPU, in the threads of a pool (null: in the caller's),
struct HostDevice {
  std::shared_ptr<ThreadPool> pool = nullptr;
  /// Loads also kernels for instruction sets that this CPU lacks: they are looked at, not run.
  bool any_isa = false;
};
/// or on a GPU of this machine.
struct GpuDevice {
  int ordinal = 0;
};
using Device = std::variant<HostDevice, GpuDevice>;

}  // namespace spjit
