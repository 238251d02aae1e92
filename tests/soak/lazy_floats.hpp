#pragma once

/// @file
/// Arrays of many gigabytes of which few pages are ever touched.

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <new>

#include "runtime/arithmetic.hpp"

namespace spjit::soak {

/// Zeros that end where an unmapped page begins and start behind another. Only pages that are
/// written take memory.
class LazyFloats {
 public:
  /// Throws std::bad_alloc where there are not so many addresses.
  explicit LazyFloats(std::int64_t count) {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const std::size_t used = (to_size(count) * sizeof(float) + page - 1) / page * page;
    bytes_ = used + 2 * page;
    void* memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    base_ = static_cast<std::byte*>(memory);
    ::mprotect(base_, page, PROT_NONE);
    ::mprotect(base_ + page + used, page, PROT_NONE);
    data_ = reinterpret_cast<float*>(base_ + page + used) - count;
  }
  LazyFloats(const LazyFloats&) = delete;
  LazyFloats& operator=(const LazyFloats&) = delete;
  ~LazyFloats() { ::munmap(base_, bytes_); }

  [[nodiscard]] float* data() noexcept { return data_; }

 private:
  std::size_t bytes_ = 0;
  std::byte* base_ = nullptr;
  float* data_ = nullptr;
};

}  // namespace spjit::soak
