#pragma once

/// @file
/// The version of PTX text, and addresses in it.

#include <cstdint>
#include <string_view>

#include "kernels/cuda/code/source_text.hpp"

namespace spjit {

/// The lowest PTX version that knows `sm` and `.noreturn` (6.4), "7.8" for 90 (PTX ISA, "Release
/// Notes"): the lower it is, the more CUDA versions take the text. Throws NotSupported for an `sm`
/// other than 70, 75, 80, 86, 89, 90, 100, 120.
[[nodiscard]] std::string_view ptx_version(int sm);

/// A pointer register that is moved so that offsets stay in [0, 2^23): what the immediate offset of
/// a load or store holds (24 bits, signed) on every architecture.
class MovingPointer {
 public:
  explicit MovingPointer(std::string_view name) : name_(name) {}

  /// Moves the pointer for an access at `bytes`, which may be before the last one; returns the
  /// offset. The distance moved has 63 bits: `add.s64` takes it as it is, however far columns are
  /// apart.
  std::int64_t reach(SourceText& text, std::int64_t bytes) {
    constexpr std::int64_t k_reach = std::int64_t{1} << 23;
    if (bytes < position_ || bytes - position_ >= k_reach) {
      text << "add.s64 " << name_ << "," << name_ << "," << bytes - position_ << ";\n";
      position_ = bytes;
    }
    return bytes - position_;
  }

 private:
  std::string_view name_;
  std::int64_t position_ = 0;
};

/// Puts base + row * leading_dimension, of registers, into the register `address`. ptxas makes one
/// instruction of these two, but three of the mad.wide that says the same.
inline void runtime_address(SourceText& text, std::int64_t row, std::string_view leading_dimension,
                            std::string_view base) {
  text << "mul.wide.u32 address," << leading_dimension << "," << row
       << ";\nadd.s64 address,address," << base << ";\n";
}

}  // namespace spjit
