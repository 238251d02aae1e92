#pragma once

/// @file
/// How much heap a stretch of code holds at once, on all threads. Under AddressSanitizer that is
/// what malloc gave, libraries in C included; otherwise what operator new gave.

#include <cstdint>

namespace spjit::fuzz {

class MemoryMeter {
 public:
  /// Measures from here on. One meter at a time.
  MemoryMeter();

  /// The most bytes held at once since then, beyond what was held at its start.
  [[nodiscard]] std::int64_t peak_bytes() const;

 private:
  std::int64_t start_bytes_;
};

}  // namespace spjit::fuzz
