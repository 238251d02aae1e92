#pragma once

/// @file
/// Helpers of readers of ELF files. They check bytes before use, since anyone may have written
/// them. Each reader words its errors in its own way.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "spjit/error.hpp"

namespace spjit {

/// The error for a file that is wrong in the way that `reason` says.
using ElfError = Error (*)(const std::string& reason);

/// Reads parts of a file, or of a section of one.
class ElfReader {
 public:
  constexpr explicit ElfReader(ElfError error) : error_(error) {}

  /// `count` bytes at `offset`. Throws an error that calls them `what` if they are not all there.
  std::span<const std::byte> slice(std::span<const std::byte> bytes, std::uint64_t offset,
                                   std::uint64_t count, std::string_view what) const;

  /// Structures may lie at any address, so they are copied out. Throws as `slice` does.
  template <class Struct>
  [[nodiscard]] Struct read(std::span<const std::byte> bytes, std::uint64_t offset,
                            std::string_view what) const {
    Struct value;
    std::memcpy(&value, slice(bytes, offset, sizeof(Struct), what).data(), sizeof(Struct));
    return value;
  }

 private:
  ElfError error_;
};

/// Looks names up, all of one file. Many symbols may share the bytes of a name, so a file could
/// name more than it holds; in all, names get no longer than the file.
class ElfNames {
 public:
  ElfNames(std::size_t file_bytes, ElfError error) : left_(file_bytes), error_(error) {}

  /// The name of `what` at byte `offset` of a string table.
  [[nodiscard]] std::string_view read(std::span<const std::byte> strings, std::uint64_t offset,
                                      std::string_view what);

 private:
  std::size_t left_;
  ElfError error_;
};

}  // namespace spjit
