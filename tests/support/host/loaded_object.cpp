#include "tests/support/host/loaded_object.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "base/arithmetic.hpp"
#include "base/elf_object.hpp"
#include "base/printable.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

constexpr std::uint64_t k_least_alignment = 64;
constexpr std::uint64_t k_largest_object_bytes = std::uint64_t{1} << 30;  // for 32-bit distances
constexpr std::uint64_t k_slot_bytes = 8;
constexpr std::uint64_t k_stub_bytes = 8;

bool uses_slot(std::uint32_t type) {
  return type == R_X86_64_GOTPCREL || type == R_X86_64_GOTPCRELX || type == R_X86_64_REX_GOTPCRELX;
}

bool is_undefined(const ElfSymbolView& symbol) {
  return symbol.place == ElfSymbolPlace::undefined && !symbol.name.empty();
}

/// Where everything goes, as offsets into the reservation: first what is executable (sections, then
/// a stub a called external function), then what is read-only (one address slot a symbol, then
/// sections).
struct Layout {
  std::vector<std::optional<std::uint64_t>> sections;  // by section index
  std::map<std::uint32_t, std::uint64_t> stubs;        // by symbol index
  std::map<std::uint32_t, std::uint64_t> slots;        // by symbol index
  std::uint64_t code_bytes = 0;                        // whole pages
  std::uint64_t bytes = 0;
};

/// Places the allocated sections of one kind from `cursor` on; returns where they end.
std::uint64_t place_sections(const ElfObjectView& object, bool executable, std::uint64_t cursor,
                             Layout& layout) {
  for (std::size_t i = 0; i < object.sections().size(); ++i) {
    const ElfSectionView& section = object.sections()[i];
    if (!section.allocated() || section.executable() != executable) continue;
    if (section.alignment > PageMapping::page_size() || section.size > k_largest_object_bytes) {
      throw NotSupported(fmt::format(
          "section '{}' of {} bytes aligned to {}: expected at most {} "
          "bytes aligned to at most a page",
          printable(section.name), section.size, section.alignment, k_largest_object_bytes));
    }
    const std::uint64_t alignment = std::max(section.alignment, k_least_alignment);
    cursor = (cursor + alignment - 1) / alignment * alignment;
    layout.sections[i] = cursor;
    cursor += section.size;
    if (cursor > k_largest_object_bytes) {
      throw NotSupported(fmt::format("object with more than {} bytes of sections: split it",
                                     k_largest_object_bytes));
    }
  }
  return cursor;
}

void refuse_writable_sections(const ElfObjectView& object) {
  for (const ElfSectionView& section : object.sections()) {
    // Constants with addresses in them are writable only until they are relocated.
    const bool constant = section.name.starts_with(".data.rel.ro");
    const bool writable = section.allocated() && section.writable() && section.size != 0;
    if ((writable && !constant) || (section.writable() && section.executable())) {
      throw NotSupported(
          fmt::format("section '{}' is writable ({} bytes): kernels have no state "
                      "of their own; make it constant",
                      printable(section.name), section.size));
    }
  }
}

Layout make_layout(const ElfObjectView& object) {
  refuse_writable_sections(object);
  Layout layout;
  layout.sections.resize(object.sections().size());
  for (const ElfRelocationView& relocation : object.relocations()) {
    const bool external = is_undefined(object.symbols()[relocation.symbol]);
    const bool calls_out = relocation.type == R_X86_64_PLT32 && external;
    if (calls_out) layout.stubs[relocation.symbol] = 0;
    if (calls_out || uses_slot(relocation.type)) layout.slots[relocation.symbol] = 0;
  }
  std::uint64_t cursor = place_sections(object, true, 0, layout);
  cursor = (cursor + k_stub_bytes - 1) / k_stub_bytes * k_stub_bytes;
  for (auto& [symbol, offset] : layout.stubs) {
    offset = cursor;
    cursor += k_stub_bytes;
  }
  layout.code_bytes = PageMapping::round_up(cursor);
  cursor = layout.code_bytes;
  for (auto& [symbol, offset] : layout.slots) {
    offset = cursor;
    cursor += k_slot_bytes;
  }
  layout.bytes = place_sections(object, false, cursor, layout);
  return layout;
}

/// Addresses of the symbols that relocations use.
class Resolver {
 public:
  Resolver(const ElfObjectView& object, const Layout& layout, std::uint64_t base,
           const SymbolTable& externals)
      : object_(object), layout_(layout), base_(base), externals_(externals) {}

  [[nodiscard]] std::uint64_t address(std::uint32_t index) const {
    const ElfSymbolView& symbol = object_.symbols()[index];
    switch (symbol.place) {
      case ElfSymbolPlace::absolute:
        return symbol.value;
      case ElfSymbolPlace::section:
        return section_address(symbol);
      case ElfSymbolPlace::undefined:
        break;
    }
    if (symbol.name.empty()) return 0;
    const auto found = externals_.find(symbol.name);
    if (found == externals_.end()) {
      throw InvalidArgument(
          fmt::format("object refers to symbol '{}', which is not among the {} "
                      "it may use: add it to the table or rebuild the object",
                      printable(symbol.name), externals_.size()));
    }
    return reinterpret_cast<std::uint64_t>(found->second);
  }

 private:
  [[nodiscard]] std::uint64_t section_address(const ElfSymbolView& symbol) const {
    const auto offset = layout_.sections[symbol.section];
    if (!offset) {
      throw Error(
          fmt::format("malformed ELF object: code refers to section '{}', which is not "
                      "loaded",
                      printable(object_.sections()[symbol.section].name)));
    }
    return base_ + *offset + symbol.value;
  }

  const ElfObjectView& object_;
  const Layout& layout_;
  std::uint64_t base_;
  const SymbolTable& externals_;
};

/// Bytes a relocation patches; 0 for one that is not handled.
std::size_t relocation_width(std::uint32_t type) {
  switch (type) {
    case R_X86_64_64:
    case R_X86_64_PC64:
      return 8;
    case R_X86_64_32:
    case R_X86_64_32S:
    case R_X86_64_PC32:
    case R_X86_64_PLT32:
    case R_X86_64_GOTPCREL:
    case R_X86_64_GOTPCRELX:
    case R_X86_64_REX_GOTPCRELX:
      return 4;
    default:
      return 0;
  }
}

/// Whether the low 32 bits of `value` stand for it, as the relocation type extends them.
bool fits(std::uint32_t type, std::uint64_t value) {
  if (type == R_X86_64_32) return value <= std::numeric_limits<std::uint32_t>::max();
  const auto extended = static_cast<std::int64_t>(value);
  return extended >= std::numeric_limits<std::int32_t>::min() &&
         extended <= std::numeric_limits<std::int32_t>::max();
}

/// Fills one reservation; arithmetic is modulo 2^64, as the psABI has it.
class Loader {
 public:
  Loader(const ElfObjectView& object, const Layout& layout, std::span<std::byte> pages,
         const SymbolTable& externals)
      : object_(object),
        layout_(layout),
        pages_(pages),
        base_(reinterpret_cast<std::uint64_t>(pages.data())),
        resolver_(object, layout, base_, externals) {}

  void load() const {
    for (std::size_t i = 0; i < layout_.sections.size(); ++i) {
      if (!layout_.sections[i]) continue;
      const auto bytes = object_.sections()[i].bytes;
      std::ranges::copy(bytes, pages_.subspan(*layout_.sections[i], bytes.size()).begin());
    }
    for (const auto& [symbol, offset] : layout_.slots) {
      const std::uint64_t address = resolver_.address(symbol);
      std::memcpy(pages_.data() + offset, &address, sizeof(address));
    }
    for (const auto& [symbol, offset] : layout_.stubs) write_stub(offset, layout_.slots.at(symbol));
    for (const ElfRelocationView& relocation : object_.relocations()) relocate(relocation);
  }

 private:
  /// jmp [rip + distance to the slot]: reaches an external function at any distance.
  void write_stub(std::uint64_t stub, std::uint64_t slot) const {
    constexpr std::uint64_t jump_bytes = 6;
    const auto distance = checked_cast<std::int32_t>(
        static_cast<std::int64_t>(slot) - static_cast<std::int64_t>(stub + jump_bytes),
        "bytes from a stub to its slot");
    constexpr std::array<unsigned char, 2> opcode = {0xFF, 0x25};
    std::memcpy(pages_.data() + stub, opcode.data(), opcode.size());
    std::memcpy(pages_.data() + stub + opcode.size(), &distance, sizeof(distance));
  }

  void relocate(const ElfRelocationView& relocation) const {
    if (relocation.type == R_X86_64_NONE) return;
    const ElfSectionView& section = object_.sections()[relocation.section];
    const std::size_t width = relocation_width(relocation.type);
    if (width == 0) {
      throw NotSupported(
          fmt::format("ELF relocation type {} in section '{}': compile as "
                      "position-independent code in the small code model",
                      relocation.type, printable(section.name)));
    }
    if (relocation.offset > section.bytes.size() ||
        width > section.bytes.size() - relocation.offset) {
      throw Error(
          fmt::format("malformed ELF object: a relocation of {} bytes at byte {} of "
                      "section '{}', which has {} bytes",
                      width, relocation.offset, printable(section.name), section.bytes.size()));
    }
    const std::uint64_t place = *layout_.sections[relocation.section] + relocation.offset;
    const std::uint64_t value = relocated_value(relocation, base_ + place);
    if (width == 4 && !fits(relocation.type, value)) {
      throw Error(
          fmt::format("ELF relocation type {} against '{}' in section '{}' does not fit 32 "
                      "bits: compile as position-independent code",
                      relocation.type, printable(object_.symbols()[relocation.symbol].name),
                      printable(section.name)));
    }
    std::memcpy(pages_.data() + place, &value, width);
  }

  [[nodiscard]] std::uint64_t relocated_value(const ElfRelocationView& relocation,
                                              std::uint64_t place) const {
    const auto addend = static_cast<std::uint64_t>(relocation.addend);
    if (uses_slot(relocation.type)) {
      return base_ + layout_.slots.at(relocation.symbol) + addend - place;
    }
    const bool absolute = relocation.type == R_X86_64_64 || relocation.type == R_X86_64_32 ||
                          relocation.type == R_X86_64_32S;
    if (absolute) return resolver_.address(relocation.symbol) + addend;
    const auto stub = layout_.stubs.find(relocation.symbol);
    const bool through_stub = relocation.type == R_X86_64_PLT32 && stub != layout_.stubs.end();
    const std::uint64_t target =
        through_stub ? base_ + stub->second : resolver_.address(relocation.symbol);
    return target + addend - place;
  }

  const ElfObjectView& object_;
  const Layout& layout_;
  std::span<std::byte> pages_;
  std::uint64_t base_;
  Resolver resolver_;
};

std::map<std::string, void*, std::less<>> loaded_symbols(const ElfObjectView& object,
                                                         const Layout& layout,
                                                         std::span<std::byte> pages) {
  std::map<std::string, void*, std::less<>> symbols;
  for (const ElfSymbolView& symbol : object.symbols()) {
    if (symbol.place != ElfSymbolPlace::section || symbol.name.empty()) continue;
    if (symbol.type == STT_SECTION || !layout.sections[symbol.section]) continue;
    // Local symbols come first in the table, so a global one of the same name wins.
    symbols.insert_or_assign(std::string(symbol.name),
                             pages.data() + *layout.sections[symbol.section] + symbol.value);
  }
  return symbols;
}

}  // namespace

LoadedObject::LoadedObject(std::span<const std::byte> object, const SymbolTable& externals) {
  const ElfObjectView view(object);
  const Layout layout = make_layout(view);
  if (layout.bytes == 0) return;
  pages_ = PageMapping(layout.bytes);
  const std::span<std::byte> pages = pages_.bytes();
  Loader(view, layout, pages, externals).load();
  pages_.protect(layout.code_bytes, pages.size() - layout.code_bytes, PageAccess::read_only);
  pages_.protect(0, layout.code_bytes, PageAccess::read_execute);
  symbols_ = loaded_symbols(view, layout, pages);
}

void* LoadedObject::symbol(std::string_view name) const {
  if (void* address = find_symbol(name)) return address;
  throw InvalidArgument(
      fmt::format("object has no symbol '{}' among its {}", name, symbols_.size()));
}

void* LoadedObject::find_symbol(std::string_view name) const noexcept {
  const auto found = symbols_.find(name);
  return found == symbols_.end() ? nullptr : found->second;
}

}  // namespace spjit
