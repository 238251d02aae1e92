#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "spjit/error.hpp"

namespace spjit {

/// At most `capacity` values in the object itself, for lists that are many and short.
template <class Value, std::size_t capacity>
class SmallList {
 public:
  SmallList() = default;
  SmallList(std::initializer_list<Value> values) {
    for (const Value& value : values) push_back(value);
  }

  /// Throws Error if the list is full.
  void push_back(const Value& value) {
    if (size_ == capacity) throw Error("a short list has no room left; it needs a larger capacity");
    values_[size_++] = value;
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] Value& operator[](std::size_t i) noexcept { return values_[i]; }
  [[nodiscard]] const Value& operator[](std::size_t i) const noexcept { return values_[i]; }
  [[nodiscard]] Value& back() noexcept { return values_[size_ - 1]; }
  [[nodiscard]] const Value& back() const noexcept { return values_[size_ - 1]; }
  [[nodiscard]] Value* begin() noexcept { return values_.data(); }
  [[nodiscard]] Value* end() noexcept { return values_.data() + size_; }
  [[nodiscard]] const Value* begin() const noexcept { return values_.data(); }
  [[nodiscard]] const Value* end() const noexcept { return values_.data() + size_; }

 private:
  static_assert(capacity < 256);
  std::array<Value, capacity> values_{};
  std::uint8_t size_ = 0;
};

}  // namespace spjit
