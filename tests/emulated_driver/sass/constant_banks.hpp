#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "emulated_driver/memory.hpp"

namespace spjit::emulated {

inline constexpr std::size_t k_constant_banks = 18;

/// The memory that c[bank][offset] reads: bank 0 holds the launch and its parameters, others what
/// the file has.
class ConstantBanks {
 public:
  /// All bytes of it are there.
  void fill(std::size_t bank, std::span<const std::uint8_t> bytes);
  /// Bytes of a bank that may have others that nothing wrote.
  void write(std::size_t bank, std::uint64_t offset, std::span<const std::uint8_t> bytes);

  /// Up to eight bytes at an offset that is a multiple of their number. Throws ProgramError.
  [[nodiscard]] std::uint64_t read(std::size_t bank, std::int64_t offset,
                                   std::uint32_t width_bytes) const;

 private:
  std::array<ShadowedBytes, k_constant_banks> banks_;
};

}  // namespace spjit::emulated
