#include "runtime/device.hpp"

namespace spjit {
namespace {

void add(const HostDeviceInfo& device, KeyBuilder& key) {
  key.field("l1i_bytes", device.l1i_bytes)
      .field("l1d_bytes", device.l1d_bytes)
      .field("l2_bytes", device.l2_bytes)
      .field("l3_bytes", device.l3_bytes)
      .field("l3_is_far", device.l3_is_far)
      .field("fmas_per_cycle", device.fmas_per_cycle);
}

void add(const CudaDeviceInfo& device, KeyBuilder& key) {
  key.field("arch", device.arch)
      .field("sms", device.sms)
      .field("l2_bytes", device.l2_bytes)
      .field("registers_per_block", device.registers_per_block)
      .field("registers_per_sm", device.registers_per_sm)
      .field("threads_per_sm", device.threads_per_sm)
      .field("blocks_per_sm", device.blocks_per_sm)
      .field("shared_per_sm_bytes", device.shared_per_sm_bytes);
}

}  // namespace

const std::string& product_of(const DeviceInfo& device) noexcept {
  const auto* host = std::get_if<HostDeviceInfo>(&device);
  return host != nullptr ? host->name : std::get_if<CudaDeviceInfo>(&device)->product;
}

void add_to_key(const DeviceInfo& device, KeyBuilder& key) {
  std::visit([&](const auto& info) { add(info, key); }, device);
}

}  // namespace spjit
