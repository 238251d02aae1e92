#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace spjit::emulated {

using Address = std::uint64_t;

/// Where device memory begins: bit 48 makes every device address one that an x86-64 or AArch64 host
/// program cannot dereference, so that a pointer mix-up faults at once.
inline constexpr Address k_device_base = Address{1} << 48;
/// Where generic addresses of shared and of local memory begin.
inline constexpr Address k_shared_window = Address{2} << 48;
inline constexpr Address k_local_window = Address{3} << 48;

/// Bytes of a thread or a block, and for each one whether it has been written.
class ShadowedBytes {
 public:
  ShadowedBytes() = default;
  explicit ShadowedBytes(std::uint64_t size) : bytes_(size), defined_(size) {}

  [[nodiscard]] std::uint64_t size() const noexcept { return bytes_.size(); }
  [[nodiscard]] std::uint8_t* bytes() noexcept { return bytes_.data(); }
  [[nodiscard]] std::uint8_t* defined() noexcept { return defined_.data(); }
  [[nodiscard]] const std::uint8_t* bytes() const noexcept { return bytes_.data(); }
  [[nodiscard]] const std::uint8_t* defined() const noexcept { return defined_.data(); }

  /// Grows or shrinks; new bytes are undefined.
  void resize(std::uint64_t size);
  /// All bytes undefined, as many as `size`.
  void reset(std::uint64_t size);
  void write(std::uint64_t offset, std::span<const std::uint8_t> data);

 private:
  std::vector<std::uint8_t> bytes_;
  std::vector<std::uint8_t> defined_;
};

/// Zeros that take memory only where they are touched, so that matrices of many gigabytes of which
/// a kernel reads a few rows are cheap. Move-only.
class SparseBytes {
 public:
  SparseBytes() = default;
  /// Throws std::bad_alloc where there are not so many addresses.
  explicit SparseBytes(std::uint64_t size);
  SparseBytes(SparseBytes&& other) noexcept;
  SparseBytes& operator=(SparseBytes&& other) noexcept;
  SparseBytes(const SparseBytes&) = delete;
  SparseBytes& operator=(const SparseBytes&) = delete;
  ~SparseBytes();

  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  [[nodiscard]] std::uint8_t* data() noexcept { return data_; }

 private:
  std::uint8_t* data_ = nullptr;
  std::uint64_t size_ = 0;
};

/// Bytes of device memory, and for each one whether it has been written.
class DeviceBytes {
 public:
  DeviceBytes() = default;
  explicit DeviceBytes(std::uint64_t size) : bytes_(size), defined_(size) {}

  [[nodiscard]] std::uint64_t size() const noexcept { return bytes_.size(); }
  [[nodiscard]] std::uint8_t* bytes() noexcept { return bytes_.data(); }
  [[nodiscard]] std::uint8_t* defined() noexcept { return defined_.data(); }

  void write(std::uint64_t offset, std::span<const std::uint8_t> data);

 private:
  SparseBytes bytes_;
  SparseBytes defined_;
};

/// One piece of device memory, cuMemAlloc's or a module's variable.
struct Allocation {
  Address address = 0;
  DeviceBytes contents;
  bool constant = false;  ///< in the .const space
};

/// The global and constant memory of one device. Addresses are never used twice, so that one that
/// was freed stays an error. Not thread-safe.
class GlobalMemory {
 public:
  /// The first address is `base`: no two devices have the same.
  explicit GlobalMemory(std::uint64_t capacity_bytes, Address base = k_device_base)
      : capacity_bytes_(capacity_bytes), base_(base), next_(base) {}

  /// Uninitialised memory at a multiple of 256; null if the device, or this process, has less left.
  [[nodiscard]] Allocation* allocate(std::uint64_t size_bytes, bool constant = false);
  /// False if no allocation begins at `address`.
  bool free(Address address);

  /// The allocation that has `address` among its bytes, or null.
  [[nodiscard]] Allocation* find(Address address);
  /// That allocation if all of `[address, address + size)` is in it, or null.
  [[nodiscard]] Allocation* find(Address address, std::uint64_t size);

  [[nodiscard]] Address base() const noexcept { return base_; }
  [[nodiscard]] std::uint64_t capacity_bytes() const noexcept { return capacity_bytes_; }
  [[nodiscard]] std::uint64_t used_bytes() const noexcept { return used_bytes_; }

 private:
  std::uint64_t capacity_bytes_;
  Address base_;
  std::uint64_t used_bytes_ = 0;
  Address next_;
  std::map<Address, std::unique_ptr<Allocation>> allocations_;
};

/// An allocation that is freed with its owner.
class OwnedAllocation {
 public:
  OwnedAllocation(GlobalMemory& memory, Allocation& allocation)
      : memory_(&memory), allocation_(&allocation) {}
  OwnedAllocation(OwnedAllocation&& other) noexcept
      : memory_(other.memory_), allocation_(std::exchange(other.allocation_, nullptr)) {}
  OwnedAllocation& operator=(OwnedAllocation&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(allocation_, other.allocation_);
    return *this;
  }
  OwnedAllocation(const OwnedAllocation&) = delete;
  OwnedAllocation& operator=(const OwnedAllocation&) = delete;
  ~OwnedAllocation() {
    if (allocation_ != nullptr) {
      memory_->free(allocation_->address);
    }
  }

  [[nodiscard]] Allocation& operator*() const noexcept { return *allocation_; }
  [[nodiscard]] Allocation* operator->() const noexcept { return allocation_; }

 private:
  GlobalMemory* memory_;
  Allocation* allocation_;
};

}  // namespace spjit::emulated
