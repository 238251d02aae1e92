#include "runtime/cuda/cuda_memory.hpp"

#include <fmt/format.h>

#include <utility>

#include "spjit/error.hpp"

namespace spjit {
namespace {

// CUpointer_attribute.
constexpr int k_device_ordinal_of_pointer = 9;

// What the driver says of memory that it does not know.
constexpr int k_cuda_invalid_value = 1;

}  // namespace

DeviceBuffer::DeviceBuffer(CudaContext context, std::size_t bytes)
    : context_(std::move(context)), bytes_(bytes) {
  if (bytes == 0) return;  // the driver refuses to allocate nothing
  context_.call(
      [&] { return fmt::format("allocate {} bytes on {}", bytes, context_.device().label()); },
      &CudaApi::allocate, &address_, bytes);
}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : context_(std::move(other.context_)),
      address_(std::exchange(other.address_, 0)),
      bytes_(std::exchange(other.bytes_, 0)) {}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(address_, other.address_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

DeviceBuffer::~DeviceBuffer() {
  if (address_ == 0) return;
  context_.release([&](const CudaApi& api) { return api.free(address_); });
}

void DeviceBuffer::upload(std::span<const std::byte> from, std::size_t offset_bytes) {
  check_range(from.size(), offset_bytes);
  if (from.empty()) return;
  const auto what = [&] {
    return fmt::format("copy {} bytes to {}", from.size(), context_.device().label());
  };
  context_.call(what, &CudaApi::upload, address_ + offset_bytes, from.data(), from.size());
  // From pageable memory the call above may return while the last bytes are still on their way,
  // which streams that do not wait for the default one would overtake.
  context_.call(what, &CudaApi::synchronize_stream, nullptr);
}

void DeviceBuffer::download(std::span<std::byte> to, std::size_t offset_bytes) const {
  check_range(to.size(), offset_bytes);
  if (to.empty()) return;
  context_.call(
      [&] { return fmt::format("copy {} bytes from {}", to.size(), context_.device().label()); },
      &CudaApi::download, to.data(), address_ + offset_bytes, to.size());
}

void DeviceBuffer::fill_on(void* stream, std::byte value) {
  if (bytes_ == 0) return;
  context_.call(
      [&] { return fmt::format("fill {} bytes on {}", bytes_, context_.device().label()); },
      &CudaApi::fill_async, address_, std::to_integer<unsigned char>(value), bytes_, stream);
}

void DeviceBuffer::check_range(std::size_t size, std::size_t offset_bytes) const {
  if (offset_bytes <= bytes_ && size <= bytes_ - offset_bytes) return;
  throw InvalidArgument(fmt::format("{} bytes at offset {} of a buffer of {} bytes on {}", size,
                                    offset_bytes, bytes_, context_.device().label()));
}

std::optional<int> device_of_memory(const CudaContext& context, CudaAddress address) {
  const CurrentCudaContext current(context);
  int ordinal = 0;
  const int result =
      context.driver().api().pointer_attribute(&ordinal, k_device_ordinal_of_pointer, address);
  if (result == k_cuda_invalid_value) return std::nullopt;
  context.driver().check(result, [&] { return fmt::format("ask where {:#x} is", address); });
  return ordinal;
}

}  // namespace spjit
