#pragma once

/// @file
/// Memory for operands of kernels.

#include <sys/mman.h>

#include <cstddef>
#include <limits>
#include <memory>
#include <new>
#include <span>

namespace spjit {

/// Floats on cache-line boundaries, not initialized.
class FloatBuffer {
 public:
  static constexpr std::size_t k_alignment = 64;

  /// None: `data()` is null.
  FloatBuffer() = default;
  /// A buffer of `size` floats of which few are ever touched: only their pages take memory. Throws
  /// std::bad_alloc if there are not so many addresses.
  [[nodiscard]] static FloatBuffer sparse(std::size_t size) {
    FloatBuffer buffer;
    const std::size_t bytes = bytes_of(size);
    void* pages = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED) throw std::bad_alloc();
    // A huge page for a few rows is what this avoids.
    ::madvise(pages, bytes, MADV_NOHUGEPAGE);
    buffer.floats_ = std::unique_ptr<float[], Release>(static_cast<float*>(pages), Release(bytes));
    buffer.size_ = size;
    return buffer;
  }
  /// Throws std::bad_alloc if there is not so much memory.
  explicit FloatBuffer(std::size_t size)
      : floats_(
            static_cast<float*>(::operator new[](bytes_of(size), std::align_val_t{k_alignment}))),
        size_(size) {}

  [[nodiscard]] float* data() const noexcept { return floats_.get(); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::span<float> span() const noexcept { return {floats_.get(), size_}; }

 private:
  class Release {
   public:
    Release() noexcept : mapped_bytes_(0) {}
    explicit Release(std::size_t mapped_bytes) noexcept : mapped_bytes_(mapped_bytes) {}

    void operator()(float* floats) const noexcept {
      if (mapped_bytes_ > 0) {
        ::munmap(floats, mapped_bytes_);
      } else {
        ::operator delete[](floats, std::align_val_t{k_alignment});
      }
    }

   private:
    std::size_t mapped_bytes_;  // 0: of operator new
  };

  static std::size_t bytes_of(std::size_t size) {
    // As `new float[size]` does; the product would wrap around.
    if (size > std::numeric_limits<std::size_t>::max() / sizeof(float)) {
      throw std::bad_array_new_length();
    }
    return size * sizeof(float);
  }

  std::unique_ptr<float[], Release> floats_;
  std::size_t size_ = 0;
};

}  // namespace spjit
