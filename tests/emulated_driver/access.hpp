#pragma once

#include <cstdint>

#include "emulated_driver/memory.hpp"
#include "emulated_driver/ptx_type.hpp"

namespace spjit::emulated {

/// Where an access goes: the bytes themselves, and whether each has been written.
struct Place {
  std::uint8_t* bytes;
  std::uint8_t* defined;
};

struct GlobalAccess {
  Space space = Space::global;  ///< or constant, or generic: either of them
  Address address = 0;
  std::uint32_t size = 0;  ///< bytes
  bool for_writing = false;
};

/// Where an access to global or constant memory goes. `last` is the allocation that it is likely to
/// be in, or null, and becomes the one it is in. Throws ProgramError for what is not in one
/// allocation, or in the wrong space.
[[nodiscard]] Place find_place(GlobalMemory& memory, Allocation*& last, const GlobalAccess& access);

/// Throws ProgramError if nothing has written one of the bytes.
void check_defined(const Place& place, Address address, std::uint32_t size);

}  // namespace spjit::emulated
