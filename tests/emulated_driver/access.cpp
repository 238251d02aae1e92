#include "emulated_driver/access.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>

#include "emulated_driver/program_error.hpp"

namespace spjit::emulated {

Place find_place(GlobalMemory& memory, Allocation*& last, const GlobalAccess& access) {
  const auto& [space, address, size, for_writing] = access;
  Allocation* allocation = last;
  if (allocation == nullptr || address - allocation->address >= allocation->contents.size() ||
      allocation->contents.size() - (address - allocation->address) < size) {
    allocation = memory.find(address, size);
    if (allocation == nullptr) {
      throw ProgramError(FaultKind::illegal_address,
                         fmt::format("{} {} bytes at {:#x}, which are not in one allocation",
                                     for_writing ? "writes" : "reads", size, address));
    }
    last = allocation;
  }
  if (allocation->constant ? for_writing || space == Space::global : space == Space::constant) {
    throw ProgramError(FaultKind::illegal_address,
                       fmt::format("the {} bytes at {:#x} are in {} memory", size, address,
                                   allocation->constant ? "constant" : "global"));
  }
  const std::uint64_t offset = address - allocation->address;
  return {allocation->contents.bytes() + offset, allocation->contents.defined() + offset};
}

void check_defined(const Place& place, Address address, std::uint32_t size) {
  static constexpr std::array<std::uint8_t, 4> k_all = {1, 1, 1, 1};
  if (size == k_all.size() && std::memcmp(place.defined, k_all.data(), k_all.size()) == 0) {
    return;
  }
  for (std::uint32_t i = 0; i < size; ++i) {
    if (place.defined[i] == 0) {
      throw ProgramError(FaultKind::uninitialized_read,
                         fmt::format("reads {} bytes at {:#x}, of which byte {} was never written",
                                     size, address, i));
    }
  }
}

}  // namespace spjit::emulated
