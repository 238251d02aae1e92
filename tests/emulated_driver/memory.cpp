#include "emulated_driver/memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace spjit::emulated {

namespace {

constexpr std::uint64_t k_alignment_bytes = 256;
// Between allocations, so that running over the end of one does not reach the next.
constexpr std::uint64_t k_gap_bytes = 1U << 16;

}  // namespace

void ShadowedBytes::resize(std::uint64_t size) {
  bytes_.resize(size);
  defined_.resize(size);
}

void ShadowedBytes::reset(std::uint64_t size) {
  bytes_.assign(size, 0);
  defined_.assign(size, 0);
}

void ShadowedBytes::write(std::uint64_t offset, std::span<const std::uint8_t> data) {
  std::copy(data.begin(), data.end(), bytes_.data() + offset);
  std::fill_n(defined_.data() + offset, data.size(), std::uint8_t{1});
}

SparseBytes::SparseBytes(std::uint64_t size) : size_(size) {
  if (size == 0) {
    return;
  }
  void* mapped = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) {
    throw std::bad_alloc();
  }
  data_ = static_cast<std::uint8_t*>(mapped);
}

SparseBytes::SparseBytes(SparseBytes&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

SparseBytes& SparseBytes::operator=(SparseBytes&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

SparseBytes::~SparseBytes() {
  if (data_ != nullptr) {
    munmap(data_, size_);
  }
}

void DeviceBytes::write(std::uint64_t offset, std::span<const std::uint8_t> data) {
  std::copy(data.begin(), data.end(), bytes_.data() + offset);
  std::fill_n(defined_.data() + offset, data.size(), std::uint8_t{1});
}

Allocation* GlobalMemory::allocate(std::uint64_t size_bytes, bool constant) {
  if (size_bytes > capacity_bytes_ - used_bytes_) {
    return nullptr;
  }
  auto allocation = std::make_unique<Allocation>();
  allocation->address = next_;
  try {
    allocation->contents = DeviceBytes(size_bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  allocation->constant = constant;
  used_bytes_ += size_bytes;
  const std::uint64_t end = next_ + size_bytes + k_gap_bytes;
  next_ = (end + k_alignment_bytes - 1) / k_alignment_bytes * k_alignment_bytes;
  Allocation* found = allocation.get();
  allocations_.emplace(found->address, std::move(allocation));
  return found;
}

bool GlobalMemory::free(Address address) {
  const auto found = allocations_.find(address);
  if (found == allocations_.end()) {
    return false;
  }
  used_bytes_ -= found->second->contents.size();
  allocations_.erase(found);
  return true;
}

Allocation* GlobalMemory::find(Address address) {
  auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin()) {
    return nullptr;
  }
  Allocation* candidate = std::prev(after)->second.get();
  return address - candidate->address < candidate->contents.size() ? candidate : nullptr;
}

Allocation* GlobalMemory::find(Address address, std::uint64_t size) {
  Allocation* allocation = find(address);
  if (allocation == nullptr) {
    return nullptr;
  }
  return size <= allocation->contents.size() - (address - allocation->address) ? allocation
                                                                               : nullptr;
}

}  // namespace spjit::emulated
