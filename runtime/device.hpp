#pragma once

/// @file
/// What kernels are compiled for and run on: this CPU or a GPU.

#include <memory>
#include <string>
#include <variant>

#include "base/hash.hpp"
#include "base/thread_pool.hpp"
#include "runtime/cuda/cuda_device_info.hpp"
#include "runtime/host/host_device_info.hpp"
#include "spjit/target.hpp"

namespace spjit {

/// A device as plain data: what rules, formulas and the cache key look at.
using DeviceInfo = std::variant<HostDeviceInfo, CudaDeviceInfo>;

/// The device: for a host the named card or this machine (host_device_info()); for a GPU the named
/// card, the GPU of this machine that the target names, or for a bare architecture a GPU of this
/// machine that has it, else the architecture's default card. Throws NotSupported and
/// InvalidArgument as Target::parse().
[[nodiscard]] DeviceInfo device_info_of(const Target& target);

/// What people call it: "AMD EPYC 9354", "H200 SXM".
[[nodiscard]] const std::string& product_of(const DeviceInfo& device) noexcept;

/// Adds what choices look at to a cache key; not a card's name: a table and a driver, or an
/// operating system, that agree on a card give one key.
void add_to_key(const DeviceInfo& device, KeyBuilder& key);

/// Where a kernel is loaded to run: on this CPU, in the threads of a pool (null: in the caller's),
struct HostDevice {
  std::shared_ptr<ThreadPool> pool = nullptr;
  /// Also kernels for instruction sets that this CPU lacks: they are looked at, not run.
  bool any_isa = false;
};
/// or on a GPU of this machine.
struct GpuDevice {
  int ordinal = 0;
};
using Device = std::variant<HostDevice, GpuDevice>;

}  // namespace spjit
