#pragma once

/// @file
/// Arrays far larger than the memory there is, of which tests touch a few pages.

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace spjit::testing_support {

/// Why a test of what is not mapped() is skipped.
inline constexpr const char* k_no_space = "this machine gives no address space of that size";

/// Floats that are 0 until they are written, between pages that cannot be touched; the last ends
/// where such a page begins. Only pages that are written cost memory.
class SparseFloats {
 public:
  explicit SparseFloats(std::int64_t count) {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const std::size_t floats = static_cast<std::size_t>(count) * sizeof(float);
    const std::size_t used = (floats + page - 1) / page * page;
    bytes_ = used + 2 * page;
    void* const memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return;
    base_ = static_cast<std::byte*>(memory);
    // A huge page a row would be what this is to avoid.
    ::madvise(base_, bytes_, MADV_NOHUGEPAGE);
    ::mprotect(base_, page, PROT_NONE);
    ::mprotect(base_ + page + used, page, PROT_NONE);
    data_ = reinterpret_cast<float*>(base_ + page + used - floats);
  }
  SparseFloats(const SparseFloats&) = delete;
  SparseFloats& operator=(const SparseFloats&) = delete;
  ~SparseFloats() {
    if (base_ != nullptr) ::munmap(base_, bytes_);
  }

  /// False where the machine gives no such address space; tests skip then.
  [[nodiscard]] bool mapped() const noexcept { return base_ != nullptr; }
  [[nodiscard]] float* data() const noexcept { return data_; }

 private:
  std::size_t bytes_ = 0;
  std::byte* base_ = nullptr;
  float* data_ = nullptr;
};

}  // namespace spjit::testing_support
