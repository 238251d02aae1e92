// What spjit.torch knows weights by.

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>

#include "base/hash.hpp"

/// Writes XXH3-128 of `count` bytes as 32 hexadecimal digits, without a zero byte.
extern "C" __attribute__((visibility("default"))) void spjit_python_checksum(
    const void* bytes, std::size_t count, char* digits) noexcept {
  const std::string hex =
      spjit::checksum_hex(std::span(static_cast<const std::byte*>(bytes), count));
  std::copy(hex.begin(), hex.end(), digits);
}
