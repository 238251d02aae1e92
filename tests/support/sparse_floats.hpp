#pragma once

/// @file
/// Arrays far larger than the memory there is, of which tests touch a few pages.

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace spjit::testing_support {

/// Floats that are 0 until they are written. Only pages that are written cost memory.
class SparseFloats {
 public:
  explicit SparseFloats(std::int64_t count)
      : bytes_(static_cast<std::size_t>(count) * sizeof(float)) {
    void* const memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return;
    // A huge page a row would be what this is to avoid.
    ::madvise(memory, bytes_, MADV_NOHUGEPAGE);
    data_ = static_cast<float*>(memory);
  }
  SparseFloats(const SparseFloats&) = delete;
  SparseFloats& operator=(const SparseFloats&) = delete;
  ~SparseFloats() {
    if (data_ != nullptr) ::munmap(data_, bytes_);
  }

  /// False where the machine gives no such address space; tests skip then.
  [[nodiscard]] bool mapped() const noexcept { return data_ != nullptr; }
  [[nodiscard]] float* data() const noexcept { return data_; }

 private:
  std::size_t bytes_;
  float* data_ = nullptr;
};

}  // namespace spjit::testing_support
