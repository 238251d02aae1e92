#pragma once

/// @file
/// Memory pages whose protection changes once: anonymous ones from writable to final, those of a
/// file from readable to executable.

#include <cstddef>
#include <cstdint>
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

/// Owns one reservation of whole pages. Anonymous ones are mapped readable and writable at first,
/// and sealed by `protect()` before their content is used. No page is ever writable and executable
/// at once, and a sealed page never becomes writable again. Move-only; not thread-safe while being
/// filled.
class PageMapping {
 public:
  PageMapping() = default;

  /// Maps `bytes` rounded up to whole pages, zeroed. Throws InvalidArgument for 0 bytes, NoPages if
  /// the system refuses.
  explicit PageMapping(std::size_t bytes);

  /// Maps `bytes` of an open file from `offset` on, a multiple of the page size: read-only, shared
  /// with all who map it, in huge pages where the system has them. All pages are read first, so
  /// that what cannot be read is an error; one that the file loses later, cut short in place, ends
  /// in SIGBUS. Throws InvalidArgument for 0 bytes, NoPages if the system refuses.
  [[nodiscard]] static PageMapping of_file(int descriptor, std::size_t bytes,
                                           std::int64_t offset = 0);

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
  PageMapping(std::size_t bytes, int protection, int flags, int descriptor, std::int64_t offset);

  std::byte* begin_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace spjit
