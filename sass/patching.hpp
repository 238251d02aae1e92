#pragma once

#include <cstdint>

#include "sass/cubin_code.hpp"

namespace spjit::sass {

/// The instruction with `address` where a relocation of this kind says: in the bits that its
/// operation has for it. Throws Error for an address of data among instructions (address64).
[[nodiscard]] Encoding patched(Encoding code, RelocationKind kind, std::uint64_t address);

}  // namespace spjit::sass
