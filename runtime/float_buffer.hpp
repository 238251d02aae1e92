#pragma once

/// @file
/// Memory for operands of kernels.

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
  /// Throws std::bad_alloc if there is not so much memory.
  explicit FloatBuffer(std::size_t size)
      : floats_(
            static_cast<float*>(::operator new[](bytes_of(size), std::align_val_t{k_alignment}))),
        size_(size) {}

  [[nodiscard]] float* data() const noexcept { return floats_.get(); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::span<float> span() const noexcept { return {floats_.get(), size_}; }

 private:
  struct Release {
    void operator()(float* floats) const noexcept {
      ::operator delete[](floats, std::align_val_t{k_alignment});
    }
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
