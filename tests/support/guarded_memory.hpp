#pragma once

/// @file
/// Arrays of exact sizes between pages that cannot be touched: an access outside of one is a crash,
/// with any compiler and without a sanitizer.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <span>
#include <stdexcept>

namespace spjit::testing_support {

/// Which end of an array lies at a page that cannot be touched. Pages are larger than arrays, so it
/// is one of them: a test runs with both.
enum class GuardPlacement : std::uint8_t { at_end, at_start };

inline constexpr std::array k_placements = {GuardPlacement::at_end, GuardPlacement::at_start};

[[nodiscard]] inline const char* to_string(GuardPlacement placement) {
  return placement == GuardPlacement::at_end ? "at_end" : "at_start";
}

inline std::ostream& operator<<(std::ostream& stream, GuardPlacement placement) {
  return stream << to_string(placement);
}

/// Bytes in pages of their own. What those have besides holds a pattern, which `intact()` checks.
class GuardedPages {
 public:
  /// The start is a multiple of `alignment`, for which bytes may be left over between the end and
  /// the page behind it.
  GuardedPages(std::size_t size, GuardPlacement placement, std::size_t alignment = 1) {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const std::size_t used = (size + page - 1) / page * page;
    mapped_ = used + 2 * page;
    void* memory = ::mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("mmap");
    base_ = static_cast<std::byte*>(memory);
    inside_ = {base_ + page, used};
    protect(PROT_READ | PROT_WRITE);
    const std::size_t start =
        placement == GuardPlacement::at_start ? 0 : (used - size) / alignment * alignment;
    bytes_ = inside_.subspan(start, size);
    std::ranges::fill(before(), k_pattern);
    std::ranges::fill(behind(), k_pattern);
  }
  GuardedPages(const GuardedPages&) = delete;
  GuardedPages& operator=(const GuardedPages&) = delete;
  ~GuardedPages() { ::munmap(base_, mapped_); }

  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return bytes_; }
  /// From now on nobody may write.
  void seal() const { protect(PROT_READ); }
  /// Whether nothing was written beside the bytes.
  [[nodiscard]] bool intact() const {
    const auto untouched = [](std::byte byte) { return byte == k_pattern; };
    return std::ranges::all_of(before(), untouched) && std::ranges::all_of(behind(), untouched);
  }

 private:
  static constexpr std::byte k_pattern{0xA5};

  void protect(int access) const {
    if (inside_.empty()) return;
    if (::mprotect(inside_.data(), inside_.size(), access) != 0) {
      throw std::runtime_error("mprotect");
    }
  }
  [[nodiscard]] std::span<std::byte> before() const {
    return inside_.first(static_cast<std::size_t>(bytes_.data() - inside_.data()));
  }
  [[nodiscard]] std::span<std::byte> behind() const {
    return inside_.subspan(before().size() + bytes_.size());
  }

  std::size_t mapped_ = 0;
  std::byte* base_ = nullptr;
  std::span<std::byte> inside_;
  std::span<std::byte> bytes_;
};

/// `count` elements, not initialized.
template <class T>
class Guarded {
 public:
  explicit Guarded(std::int64_t count, GuardPlacement placement = GuardPlacement::at_end)
      : pages_(static_cast<std::size_t>(count) * sizeof(T), placement) {}
  /// A copy that nobody may write to.
  Guarded(std::span<const T> values, GuardPlacement placement)
      : pages_(values.size_bytes(), placement) {
    std::ranges::copy(values, data());
    pages_.seal();
  }

  [[nodiscard]] T* data() const noexcept { return reinterpret_cast<T*>(pages_.bytes().data()); }
  [[nodiscard]] std::span<T> span() const noexcept {
    return {data(), pages_.bytes().size() / sizeof(T)};
  }
  void seal() const { pages_.seal(); }
  [[nodiscard]] bool intact() const { return pages_.intact(); }

 private:
  GuardedPages pages_;
};

using GuardedFloats = Guarded<float>;

}  // namespace spjit::testing_support
