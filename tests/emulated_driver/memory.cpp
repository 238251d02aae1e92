#include "emulated_driver/memory.hpp"

#include <algorithm>

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

Allocation* GlobalMemory::allocate(std::uint64_t size_bytes, bool constant) {
  if (size_bytes > capacity_bytes_ - used_bytes_) {
    return nullptr;
  }
  auto allocation = std::make_unique<Allocation>();
  allocation->address = next_;
  allocation->contents = ShadowedBytes(size_bytes);
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
