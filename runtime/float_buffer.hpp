#pragma once

/// @file
/// Memory for operands of kernels.

#include <cstddef>
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
  explicit FloatBuffer(std::size_t size)
      : floats_(static_cast<float*>(
            ::operator new[](size * sizeof(float), std::align_val_t{k_alignment}))),
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

  std::unique_ptr<float[], Release> floats_;
  std::size_t size_ = 0;
};

}  // namespace spjit
