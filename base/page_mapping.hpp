#pragma once

/// @file
/// Anonymous memory pages whose protection changes once, from writable to final.

#include <cstddef>
#include <span>

#include "spjit/error.hpp"

namespace spjit {

/// Pages that the system does not give, or not as they are wanted.
class NoPages : public Error {
 public:
  using Error::Error;
};

enum class PageAccess {
  read_only,
  read_execute,
};

/// Owns one reservation of whole pages, mapped readable and writable at first. Every page is sealed
/// by `protect()` before its content is used; no page is ever writable and executable at once, and
/// a sealed page never becomes writable again. Move-only; not thread-safe while being filled.
class PageMapping {
 public:
  PageMapping() = default;

  /// Maps `bytes` rounded up to whole pages, zeroed. Throws InvalidArgument for 0 bytes, NoPages if
  /// the system refuses.
  explicit PageMapping(std::size_t bytes);
  PageMapping(PageMapping&& other) noexcept;
  PageMapping& operator=(PageMapping&& other) noexcept;
  ~PageMapping();

  /// All pages. Writing is legal only to those not yet protected.
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {begin_, size_}; }

  /// Seals the pages of [offset, offset + size); both must be multiples of the page size and lie
  /// inside (InvalidArgument otherwise). Throws Error if the system refuses.
  void protect(std::size_t offset, std::size_t size, PageAccess access);

  [[nodiscard]] static std::size_t page_size() noexcept;

  /// `bytes` rounded up to whole pages.
  [[nodiscard]] static std::size_t round_up(std::size_t bytes) noexcept;

 private:
  std::byte* begin_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace spjit
