#include "sass/patching.hpp"

#include "spjit/error.hpp"

namespace spjit::sass {

Encoding patched(Encoding code, RelocationKind kind, std::uint64_t address) {
  constexpr std::uint64_t low = 0xffffffff;
  const auto put = [&code](unsigned first, unsigned width, std::uint64_t value) {
    for (unsigned i = 0; i < width; ++i) {
      const unsigned bit = first + i;
      const std::uint64_t mask = std::uint64_t{1} << bit % 64;
      code[bit / 64] = (value >> i & 1) != 0 ? code[bit / 64] | mask : code[bit / 64] & ~mask;
    }
  };
  switch (kind) {
    case RelocationKind::low32:
      put(32, 32, address & low);
      break;
    case RelocationKind::high32:
      put(32, 32, address >> 32);
      break;
    case RelocationKind::call47:
      put(34, 47, address >> 2);
      break;
    case RelocationKind::call55:
      put(16, 8, address >> 2);
      put(34, 47, address >> 10);
      break;
    case RelocationKind::address64:
      throw Error("the address of data lies among instructions");
  }
  return code;
}

}  // namespace spjit::sass
