#pragma once

/// @file
/// Memory of a CUDA device.

#include <cstddef>
#include <optional>
#include <span>

#include "runtime/cuda/cuda_context.hpp"

namespace spjit {

/// Owns bytes of device memory, uninitialized when made. Move-only; may be used from any thread,
/// whichever context is current there. No bytes are fine: nothing is allocated or copied then.
///
/// The ranges below are `[offset_bytes, offset_bytes + size)` of the buffer; InvalidArgument is
/// thrown for one that is not inside. Everything else that fails is a DeviceError. One that was
/// moved from has no bytes and no context.
class DeviceBuffer {
 public:
  DeviceBuffer(CudaContext context, std::size_t bytes);
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer();

  /// On the device; a multiple of 256, or 0 if there are no bytes.
  [[nodiscard]] CudaAddress address() const noexcept { return address_; }
  /// The address as a pointer, which only the device may follow.
  [[nodiscard]] void* pointer() const noexcept {
    return reinterpret_cast<void*>(address_);  // NOLINT(performance-no-int-to-ptr)
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] const CudaContext& context() const noexcept { return context_; }

  /// Copies `from` in; done when it returns, for work on any stream.
  void upload(std::span<const std::byte> from, std::size_t offset_bytes = 0);
  /// Copies out; done when it returns. Work on other streams is not waited for.
  void download(std::span<std::byte> to, std::size_t offset_bytes = 0) const;

  /// Sets all bytes to `value` in the order of `stream` (null for the default one).
  void fill_on(void* stream, std::byte value);

 private:
  void check_range(std::size_t size, std::size_t offset_bytes) const;

  CudaContext context_;
  CudaAddress address_ = 0;
  std::size_t bytes_ = 0;
};

/// The ordinal of the device whose memory `address` is in; none for memory of the host. Memory that
/// several devices share is of the one where it was made. Throws DeviceError.
[[nodiscard]] std::optional<int> device_of_memory(const CudaContext& context, CudaAddress address);

}  // namespace spjit
