// Relocatable objects: whatever is read lies inside the object, and is loaded (never run) or
// refused.

#include <algorithm>

#include "base/elf_object.hpp"
#include "tests/fuzz/fuzz_support.hpp"
#include "tests/support/host/loaded_object.hpp"

namespace spjit::fuzz {
namespace {

// Objects may ask for up to 1 GiB of memory beyond their bytes, as zeros; here for no more than
// this.
constexpr std::uint64_t k_most_loaded_bytes = std::uint64_t{1} << 20;

void check_symbols(const ElfObjectView& object) {
  for (const ElfSymbolView& symbol : object.symbols()) {
    if (symbol.place != ElfSymbolPlace::section) continue;
    expect(symbol.section < object.sections().size(), "a symbol in no section");
    const std::uint64_t bytes = object.sections()[symbol.section].size;
    expect(symbol.value <= bytes && symbol.size <= bytes - symbol.value,
           "a symbol outside its section");
  }
  for (const ElfRelocationView& relocation : object.relocations()) {
    expect(relocation.section < object.sections().size() &&
               relocation.offset < object.sections()[relocation.section].bytes.size() &&
               relocation.symbol < object.symbols().size(),
           "a relocation of nothing");
  }
}

std::uint64_t loaded_bytes(const ElfObjectView& object) {
  std::uint64_t bytes = 0;
  for (const ElfSectionView& section : object.sections()) {
    bytes += section.allocated() ? std::min(section.size, k_most_loaded_bytes) : 0;
  }
  return bytes;
}

void run(Bytes bytes) {
  constexpr std::size_t k_per_byte = 16;
  constexpr std::size_t k_fixed = std::size_t{64} << 10;
  const auto object =
      read_within(k_per_byte * bytes.size() + k_fixed, {}, [&] { return ElfObjectView(bytes); });
  if (!object) return;
  check_symbols(*object);
  if (loaded_bytes(*object) >= k_most_loaded_bytes) return;
  int external = 0;
  const SymbolTable externals = {{"outside", &external}};
  read_within(4 * k_per_byte * bytes.size() + k_fixed, {},
              [&] { return LoadedObject(bytes, externals).mapped_bytes(); });
}

}  // namespace
}  // namespace spjit::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  spjit::fuzz::run(spjit::fuzz::as_bytes(data, size));
  return 0;
}
