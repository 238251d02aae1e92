#pragma once

/// @file
/// x86-64 ELF64 relocatable objects, written and read.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.hpp"

namespace spjit {

/// One section to be written. Names are unique within an object.
struct ElfSection {
  std::string name;                  ///< e.g. ".text", ".rodata", ".text.tile3"
  std::span<const std::byte> bytes;  ///< borrowed until `write_elf_object()` returns
  bool executable = false;           ///< flags AX (code) or A (constants); never writable
  std::uint64_t alignment = 64;      ///< a power of two, at most 4096
};

enum class ElfSymbolKind { none, function, object };
enum class ElfBinding { local, global };

/// A name for a range of a section.
struct ElfSymbol {
  std::string name;
  std::string section;       ///< the name of a section of the same object
  std::uint64_t offset = 0;  ///< bytes from the start of the section
  std::uint64_t size = 0;    ///< bytes; offset + size must lie inside the section
  ElfSymbolKind kind = ElfSymbolKind::function;
  ElfBinding binding = ElfBinding::global;
};

/// An object without relocations: everything in it is position-independent by itself.
struct ElfObject {
  std::vector<ElfSection> sections;
  std::vector<ElfSymbol> symbols;
  std::string source_name;  ///< the FILE symbol; empty: none
};

/// The bytes of an ET_REL object that ld, gcc, objdump and `LoadedObject` take: the sections in
/// their order, .note.GNU-stack (no executable stack), .symtab with local symbols first, .strtab,
/// .shstrtab. The same input gives the same bytes. Throws InvalidArgument for duplicate or empty
/// names, names reserved above, names with a NUL, symbols outside their section, a global symbol
/// defined twice, or an alignment out of range; what `cancel` throws soon after it is reached.
[[nodiscard]] std::vector<std::byte> write_elf_object(const ElfObject& object,
                                                      const Cancellation& cancel = {});

/// A section header with its content. Views point into the bytes the ElfObjectView was made of.
struct ElfSectionView {
  std::string_view name;
  std::uint32_t type = 0;   ///< SHT_*
  std::uint64_t flags = 0;  ///< SHF_*
  std::uint64_t alignment = 1;
  std::uint64_t size = 0;            ///< bytes in memory
  std::span<const std::byte> bytes;  ///< content; empty for SHT_NOBITS

  [[nodiscard]] bool allocated() const noexcept;
  [[nodiscard]] bool writable() const noexcept;
  [[nodiscard]] bool executable() const noexcept;
};

enum class ElfSymbolPlace {
  undefined,  ///< to be resolved by the loader
  absolute,   ///< `value` is the address
  section,    ///< `value` is an offset into section `section`
};

struct ElfSymbolView {
  std::string_view name;
  ElfSymbolPlace place = ElfSymbolPlace::undefined;
  std::uint32_t section = 0;  ///< index into `sections()`; meaningful for ElfSymbolPlace::section
  std::uint64_t value = 0;
  std::uint64_t size = 0;
  std::uint8_t type = 0;     ///< STT_*
  std::uint8_t binding = 0;  ///< STB_*
};

struct ElfRelocationView {
  std::uint32_t section = 0;  ///< index of the section that is patched
  std::uint64_t offset = 0;   ///< into that section; < its size
  std::uint32_t type = 0;     ///< R_X86_64_*
  std::uint32_t symbol = 0;   ///< index into `symbols()`
  std::int64_t addend = 0;
};

/// A strict reader of x86-64 ET_REL objects: construction checks every offset, size, index and
/// string before anything is believed, so hostile bytes end in an Error with the reason, never in a
/// crash. The bytes must outlive the view and need no particular alignment.
class ElfObjectView {
 public:
  /// Throws Error for bytes that are no such object, NotSupported for legal objects of a kind that
  /// spjit never meets (more than 65279 sections, common symbols, REL relocations, TLS).
  explicit ElfObjectView(std::span<const std::byte> bytes);

  /// Indexed as in the file; entry 0 is the null section.
  [[nodiscard]] const std::vector<ElfSectionView>& sections() const noexcept { return sections_; }
  /// Indexed as in the file; entry 0 is the null symbol. Empty if there is no symbol table.
  [[nodiscard]] const std::vector<ElfSymbolView>& symbols() const noexcept { return symbols_; }
  /// Relocations of allocated sections only, in file order.
  [[nodiscard]] const std::vector<ElfRelocationView>& relocations() const noexcept {
    return relocations_;
  }

  /// The first section called `name`, or null.
  [[nodiscard]] const ElfSectionView* find_section(std::string_view name) const noexcept;
  /// The first defined symbol called `name`, or null.
  [[nodiscard]] const ElfSymbolView* find_symbol(std::string_view name) const noexcept;

 private:
  std::vector<ElfSectionView> sections_;
  std::vector<ElfSymbolView> symbols_;
  std::vector<ElfRelocationView> relocations_;
};

}  // namespace spjit
