#pragma once

/// @file
/// Machine code in memory, ready to be called.

#include <cstddef>
#include <span>

#include "base/page_mapping.hpp"

namespace spjit {

/// Owns a copy of machine code (pages read + execute) and of the constants that belong to it (pages
/// read only). Both are written first and sealed after; no page is ever writable and executable at
/// once. Move-only; moving keeps the addresses. Calling the code from many threads is safe as far
/// as the code itself is.
class ExecutableCode {
 public:
  ExecutableCode() = default;

  /// Copies both. The code starts at a page boundary; the data starts at `data_offset(code.size())`
  /// from it, a page boundary too, so code may address it RIP-relative.
  /// Throws InvalidArgument for empty code, Error if the system has no memory for it.
  explicit ExecutableCode(std::span<const std::byte> code,
                          std::span<const std::byte> read_only_data = {});

  /// Distance in bytes from the start of the code to the start of the data.
  [[nodiscard]] static std::size_t data_offset(std::size_t code_bytes) noexcept {
    return PageMapping::round_up(code_bytes);
  }

  [[nodiscard]] std::span<const std::byte> code() const noexcept;
  [[nodiscard]] std::span<const std::byte> data() const noexcept;

  /// The function at `offset` bytes into the code, e.g. `function<void(const float*, float*)>(0)`.
  /// Precondition: `offset < code().size()`, and a function of that type starts there.
  template <class Signature>
  [[nodiscard]] Signature* function(std::size_t offset = 0) const noexcept {
    return reinterpret_cast<Signature*>(pages_.bytes().data() + offset);
  }

 private:
  PageMapping pages_;
  std::size_t code_size_ = 0;
  std::size_t data_size_ = 0;
};

}  // namespace spjit
