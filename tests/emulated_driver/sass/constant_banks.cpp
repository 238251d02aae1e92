#include "emulated_driver/sass/constant_banks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "emulated_driver/program_error.hpp"

namespace spjit::emulated {

void ConstantBanks::fill(std::size_t bank, std::span<const std::uint8_t> bytes) {
  banks_.at(bank).reset(bytes.size());
  banks_[bank].write(0, bytes);
}

void ConstantBanks::write(std::size_t bank, std::uint64_t offset,
                          std::span<const std::uint8_t> bytes) {
  ShadowedBytes& to = banks_.at(bank);
  to.resize(std::max(to.size(), offset + bytes.size()));
  to.write(offset, bytes);
}

std::uint64_t ConstantBanks::read(std::size_t bank, std::int64_t offset,
                                  std::uint32_t width_bytes) const {
  if (bank >= banks_.size() || offset < 0 ||
      static_cast<std::uint64_t>(offset) + width_bytes > banks_[bank].size()) {
    throw ProgramError(FaultKind::illegal_address,
                       fmt::format("reads {} bytes at c[{:#x}][{:#x}], beyond the bank",
                                   width_bytes, bank, offset));
  }
  if (offset % width_bytes != 0) {
    throw ProgramError(FaultKind::misaligned_address,
                       fmt::format("reads {} bytes at c[{:#x}][{:#x}], no multiple of them",
                                   width_bytes, bank, offset));
  }
  const ShadowedBytes& from = banks_[bank];
  const auto begin = static_cast<std::size_t>(offset);
  for (std::size_t i = 0; i < width_bytes; ++i) {
    if (from.defined()[begin + i] != 0) continue;
    throw ProgramError(FaultKind::uninitialized_read,
                       fmt::format("reads {} bytes at c[{:#x}][{:#x}], which nothing has written",
                                   width_bytes, bank, offset));
  }
  std::uint64_t value = 0;
  std::memcpy(&value, from.bytes() + begin, width_bytes);
  return value;
}

}  // namespace spjit::emulated
