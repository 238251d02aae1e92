#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/elf_object.hpp"
#include "base/elf_reader.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

static_assert(std::endian::native == std::endian::little, "ELF structures are copied as they lie");

using Bytes = std::span<const std::byte>;

Error malformed_object(const std::string& reason) {
  return Error("malformed ELF object: " + reason + "; expected an x86-64 ELF64 relocatable object");
}

[[noreturn]] void malformed(const std::string& reason) { throw malformed_object(reason); }

constexpr ElfReader k_object_reader(malformed_object);

template <class Struct>
std::vector<Struct> read_table(Bytes bytes, std::uint64_t entry_size, std::string_view what) {
  if (entry_size != sizeof(Struct) || bytes.size() % sizeof(Struct) != 0) {
    malformed(fmt::format("{} has {} bytes in entries of {}, expected entries of {}", what,
                          bytes.size(), entry_size, sizeof(Struct)));
  }
  std::vector<Struct> table(bytes.size() / sizeof(Struct));
  if (!bytes.empty()) std::memcpy(table.data(), bytes.data(), bytes.size());
  return table;
}

Elf64_Ehdr read_header(Bytes file) {
  const auto header = k_object_reader.read<Elf64_Ehdr>(file, 0, "the file header");
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) malformed("the magic number is missing");
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
      header.e_ident[EI_VERSION] != EV_CURRENT || header.e_version != EV_CURRENT) {
    malformed("not 64-bit little-endian ELF version 1");
  }
  if (header.e_type != ET_REL) malformed(fmt::format("type {}, expected 1", header.e_type));
  if (header.e_machine != EM_X86_64) {
    malformed(fmt::format("machine {}, expected 62", header.e_machine));
  }
  if (header.e_shentsize != sizeof(Elf64_Shdr)) {
    malformed(fmt::format("section headers of {} bytes, expected 64", header.e_shentsize));
  }
  if (header.e_shnum == 0 && header.e_shoff != 0) {
    throw NotSupported("ELF object with more than 65279 sections: split the object");
  }
  if (header.e_shstrndx >= header.e_shnum) {
    malformed(
        fmt::format("section names are in section {} of {}", header.e_shstrndx, header.e_shnum));
  }
  return header;
}

std::vector<Elf64_Shdr> read_section_headers(Bytes file, const Elf64_Ehdr& header) {
  const std::uint64_t bytes = std::uint64_t{header.e_shnum} * sizeof(Elf64_Shdr);
  return read_table<Elf64_Shdr>(
      k_object_reader.slice(file, header.e_shoff, bytes, "the section header table"),
      sizeof(Elf64_Shdr), "the section header table");
}

ElfSectionView read_section(Bytes file, const Elf64_Shdr& header, std::size_t index) {
  const std::string what = fmt::format("section {}", index);
  if (index == 0 && header.sh_type != SHT_NULL) malformed("section 0 is not the null section");
  ElfSectionView section;
  section.type = header.sh_type;
  section.flags = header.sh_flags;
  section.alignment = header.sh_addralign == 0 ? 1 : header.sh_addralign;
  if (!std::has_single_bit(section.alignment)) {
    malformed(fmt::format("{} is aligned to {}, no power of two", what, section.alignment));
  }
  if ((header.sh_flags & SHF_TLS) != 0) {
    throw NotSupported(fmt::format("ELF object with thread-local {}: kernels have none", what));
  }
  if (header.sh_type == SHT_NULL) return section;
  section.size = header.sh_size;
  if (header.sh_type != SHT_NOBITS) {
    section.bytes = k_object_reader.slice(file, header.sh_offset, header.sh_size, what);
  }
  return section;
}

/// Sections of a file do not overlap (System V ABI, "Sections"); where they did, reading each would
/// take more time and memory than the file accounts for.
void refuse_overlap(const std::vector<ElfSectionView>& sections, std::size_t file_bytes) {
  std::size_t left = file_bytes;
  for (const ElfSectionView& section : sections) {
    if (section.bytes.size() > left) malformed("its sections are longer than the file");
    left -= section.bytes.size();
  }
}

/// The string table that section `user` refers to by index.
Bytes string_table(const std::vector<ElfSectionView>& sections, std::uint32_t index,
                   std::string_view user) {
  if (index >= sections.size() || sections[index].type != SHT_STRTAB) {
    malformed(
        fmt::format("{} refers to section {} for names, which is no string table", user, index));
  }
  return sections[index].bytes;
}

void place_symbol(ElfSymbolView& symbol, const Elf64_Sym& entry,
                  const std::vector<ElfSectionView>& sections, std::string_view what) {
  switch (entry.st_shndx) {
    case SHN_UNDEF:
      symbol.place = ElfSymbolPlace::undefined;
      return;
    case SHN_ABS:
      symbol.place = ElfSymbolPlace::absolute;
      return;
    case SHN_COMMON:
      throw NotSupported(fmt::format("ELF {} is a common symbol: compile with -fno-common", what));
    default:
      break;
  }
  if (entry.st_shndx >= sections.size()) {
    malformed(fmt::format("{} is in section {} of {}", what, entry.st_shndx, sections.size()));
  }
  symbol.place = ElfSymbolPlace::section;
  symbol.section = entry.st_shndx;
  const std::uint64_t bytes = sections[symbol.section].size;
  if (symbol.value > bytes || symbol.size > bytes - symbol.value) {
    malformed(fmt::format("{} covers [{}, {} + {}) of a section of {} bytes", what, symbol.value,
                          symbol.value, symbol.size, bytes));
  }
}

ElfSymbolView read_symbol(const Elf64_Sym& entry, const std::vector<ElfSectionView>& sections,
                          std::string_view name, std::size_t index) {
  const std::string what = fmt::format("symbol {}", index);
  ElfSymbolView symbol;
  symbol.name = name;
  symbol.value = entry.st_value;
  symbol.size = entry.st_size;
  symbol.type = ELF64_ST_TYPE(entry.st_info);
  symbol.binding = ELF64_ST_BIND(entry.st_info);
  if (symbol.type == STT_TLS || symbol.type == STT_GNU_IFUNC) {
    throw NotSupported(
        fmt::format("ELF {} is thread-local or an indirect function: kernels have none", what));
  }
  place_symbol(symbol, entry, sections, what);
  return symbol;
}

std::vector<ElfSymbolView> read_symbols(const std::vector<ElfSectionView>& sections,
                                        const Elf64_Shdr& header, Bytes content, ElfNames& names) {
  const Bytes strings = string_table(sections, header.sh_link, "the symbol table");
  const auto entries = read_table<Elf64_Sym>(content, header.sh_entsize, "the symbol table");
  if (header.sh_info > entries.size()) {
    malformed(fmt::format("the first global symbol is {} of {}", header.sh_info, entries.size()));
  }
  std::vector<ElfSymbolView> symbols;
  symbols.reserve(entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::string_view name =
        names.read(strings, entries[i].st_name, fmt::format("symbol {}", i));
    symbols.push_back(read_symbol(entries[i], sections, name, i));
    if ((symbols.back().binding == STB_LOCAL) != (i < header.sh_info)) {
      malformed(fmt::format("symbol {} breaks the order local before global", i));
    }
  }
  return symbols;
}

std::vector<ElfRelocationView> read_relocations(const ElfSectionView& target,
                                                std::uint32_t target_index, Bytes content,
                                                std::uint64_t entry_size) {
  const auto entries = read_table<Elf64_Rela>(content, entry_size, "a relocation section");
  std::vector<ElfRelocationView> relocations;
  relocations.reserve(entries.size());
  for (const Elf64_Rela& entry : entries) {
    if (entry.r_offset >= target.bytes.size()) {
      malformed(fmt::format("a relocation at byte {} of section {}, which has {} bytes of content",
                            entry.r_offset, target_index, target.bytes.size()));
    }
    relocations.push_back({.section = target_index,
                           .offset = entry.r_offset,
                           .type = static_cast<std::uint32_t>(ELF64_R_TYPE(entry.r_info)),
                           .symbol = static_cast<std::uint32_t>(ELF64_R_SYM(entry.r_info)),
                           .addend = entry.r_addend});
  }
  return relocations;
}

/// The index of the only symbol table, or 0.
std::uint32_t find_symbol_table(const std::vector<ElfSectionView>& sections) {
  std::uint32_t found = 0;
  for (std::uint32_t i = 0; i < sections.size(); ++i) {
    if (sections[i].type != SHT_SYMTAB) continue;
    if (found != 0) malformed("two symbol tables");
    found = i;
  }
  return found;
}

void require_symbols(const std::vector<ElfRelocationView>& relocations, std::size_t symbols) {
  for (const ElfRelocationView& relocation : relocations) {
    if (relocation.symbol >= symbols) {
      malformed(fmt::format("a relocation against symbol {} of {}", relocation.symbol, symbols));
    }
  }
}

}  // namespace

bool ElfSectionView::allocated() const noexcept { return (flags & SHF_ALLOC) != 0; }
bool ElfSectionView::writable() const noexcept { return (flags & SHF_WRITE) != 0; }
bool ElfSectionView::executable() const noexcept { return (flags & SHF_EXECINSTR) != 0; }

ElfObjectView::ElfObjectView(std::span<const std::byte> bytes) {
  const Elf64_Ehdr header = read_header(bytes);
  const std::vector<Elf64_Shdr> headers = read_section_headers(bytes, header);
  for (std::size_t i = 0; i < headers.size(); ++i) {
    sections_.push_back(read_section(bytes, headers[i], i));
  }
  refuse_overlap(sections_, bytes.size());
  ElfNames names(bytes.size(), malformed_object);
  const Bytes strings = string_table(sections_, header.e_shstrndx, "the file header");
  for (std::size_t i = 0; i < headers.size(); ++i) {
    sections_[i].name = names.read(strings, headers[i].sh_name, fmt::format("section {}", i));
  }

  const std::uint32_t symbol_table = find_symbol_table(sections_);
  if (symbol_table != 0) {
    symbols_ = read_symbols(sections_, headers[symbol_table], sections_[symbol_table].bytes, names);
  }

  for (std::size_t i = 0; i < headers.size(); ++i) {
    if (headers[i].sh_type != SHT_RELA && headers[i].sh_type != SHT_REL) continue;
    const std::uint32_t target = headers[i].sh_info;
    if (target >= sections_.size()) {
      malformed(fmt::format("section {} relocates section {}", i, target));
    }
    if (!sections_[target].allocated()) continue;
    if (headers[i].sh_type == SHT_REL) {
      throw NotSupported("ELF object with REL relocations: x86-64 compilers write RELA");
    }
    if (symbol_table == 0 || headers[i].sh_link != symbol_table) {
      malformed(
          fmt::format("section {} relocates against symbols of section {}, which is not the "
                      "symbol table",
                      i, headers[i].sh_link));
    }
    const auto relocations =
        read_relocations(sections_[target], target, sections_[i].bytes, headers[i].sh_entsize);
    require_symbols(relocations, symbols_.size());
    relocations_.insert(relocations_.end(), relocations.begin(), relocations.end());
  }
}

const ElfSectionView* ElfObjectView::find_section(std::string_view name) const noexcept {
  for (const ElfSectionView& section : sections_) {
    if (section.name == name) return &section;
  }
  return nullptr;
}

const ElfSymbolView* ElfObjectView::find_symbol(std::string_view name) const noexcept {
  for (const ElfSymbolView& symbol : symbols_) {
    if (symbol.name == name && symbol.place != ElfSymbolPlace::undefined) return &symbol;
  }
  return nullptr;
}

}  // namespace spjit
