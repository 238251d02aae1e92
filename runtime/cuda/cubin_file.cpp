#include "runtime/cuda/cubin_file.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "base/elf_reader.hpp"
#include "base/printable.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

static_assert(std::endian::native == std::endian::little, "ELF structures are copied as they lie");

using Bytes = std::span<const std::byte>;

// The numbers of NVIDIA's ELF dialect. LLVM's ELF.h names the file header's.
constexpr std::uint8_t k_os_abi_7 = 0x33;  // CUDA up to 12: e_flags bits 0-7 are the architecture
constexpr std::uint8_t k_os_abi_8 = 0x41;  // CUDA 13: e_flags bits 8-15 are
constexpr std::uint8_t k_symbol_is_entry = 0x10;
// Sections that take memory and no bytes of the file, besides SHT_NOBITS: global, local and shared
// memory of relocatable objects, and the shared reserve.
constexpr std::uint32_t k_types_without_bytes[] = {SHT_LOPROC + 0x7, SHT_LOPROC + 0x9,
                                                   SHT_LOPROC + 0xa, SHT_LOPROC + 0x15};

Error malformed_cubin(const std::string& reason) {
  return Error("malformed cubin: " + reason +
               "; expected a cubin of CUDA 11.8 to 13, compile it again");
}

constexpr ElfReader k_cubin_reader(malformed_cubin);

Elf64_Ehdr read_header(Bytes file) {
  const auto header = k_cubin_reader.read<Elf64_Ehdr>(file, 0, "the file header");
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) refuse_cubin("the ELF magic is missing");
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
      header.e_ident[EI_VERSION] != EV_CURRENT) {
    refuse_cubin("not 64-bit little-endian ELF version 1");
  }
  if (header.e_machine != EM_CUDA) {
    refuse_cubin(fmt::format("machine {}, expected {} (CUDA)", header.e_machine, EM_CUDA));
  }
  if (header.e_type != ET_EXEC && header.e_type != ET_REL) {
    refuse_cubin(fmt::format("type {}, expected 1 (relocatable) or 2 (executable)", header.e_type));
  }
  if (header.e_shentsize != sizeof(Elf64_Shdr)) {
    refuse_cubin(fmt::format("section headers of {} bytes, expected 64", header.e_shentsize));
  }
  if (header.e_shnum == 0 || header.e_shstrndx >= header.e_shnum) {
    refuse_cubin(
        fmt::format("section names are in section {} of {}", header.e_shstrndx, header.e_shnum));
  }
  if (header.e_phnum != 0 && header.e_phentsize != sizeof(Elf64_Phdr)) {
    refuse_cubin(fmt::format("program headers of {} bytes, expected 56", header.e_phentsize));
  }
  return header;
}

int read_arch(const Elf64_Ehdr& header) {
  const std::uint8_t abi = header.e_ident[EI_OSABI];
  const std::uint8_t version = header.e_ident[EI_ABIVERSION];
  std::uint32_t arch = 0;
  if (abi == k_os_abi_7 && version == 7) {
    arch = header.e_flags & 0xff;
  } else if (abi == k_os_abi_8 && version == 8) {
    arch = header.e_flags >> 8 & 0xff;
  } else {
    refuse_cubin(fmt::format("OS ABI {:#x} version {}, expected 0x33 version 7 or 0x41 version 8",
                             abi, version));
  }
  if (arch == 0) refuse_cubin(fmt::format("flags {:#x} name no architecture", header.e_flags));
  return static_cast<int>(arch);  // at most 255
}

bool has_no_bytes(std::uint32_t type) {
  return type == SHT_NULL || type == SHT_NOBITS ||
         std::ranges::find(k_types_without_bytes, type) != std::end(k_types_without_bytes);
}

std::vector<Elf64_Shdr> read_section_headers(Bytes file, const Elf64_Ehdr& header) {
  const Bytes table = k_cubin_reader.slice(
      file, header.e_shoff, header.e_shnum * sizeof(Elf64_Shdr), "the section header table");
  std::vector<Elf64_Shdr> headers(header.e_shnum);
  std::memcpy(headers.data(), table.data(), table.size());
  return headers;
}

/// Sections of a file do not overlap; where they did, reading each would take more time than the
/// file accounts for.
std::vector<CubinSection> read_sections(Bytes file, const std::vector<Elf64_Shdr>& headers) {
  std::vector<CubinSection> sections(headers.size());
  std::size_t left = file.size();
  for (std::size_t i = 0; i < sections.size(); ++i) {
    const Elf64_Shdr& header = headers[i];
    CubinSection& section = sections[i];
    section.type = header.sh_type;
    section.flags = header.sh_flags;
    section.size = header.sh_size;
    section.info = header.sh_info;
    if (has_no_bytes(header.sh_type)) continue;
    section.bytes =
        k_cubin_reader.slice(file, header.sh_offset, header.sh_size, fmt::format("section {}", i));
    if (section.bytes.size() > left) refuse_cubin("its sections are longer than the file");
    left -= section.bytes.size();
  }
  return sections;
}

/// The driver loads segments, so a cubin without all of them is no cubin.
void check_segments(Bytes file, const Elf64_Ehdr& header) {
  for (std::size_t i = 0; i < header.e_phnum; ++i) {
    const std::string what = fmt::format("program header {}", i);
    k_cubin_reader.slice(file, header.e_phoff, header.e_phnum * sizeof(Elf64_Phdr),
                         "the program header table");
    const auto segment =
        k_cubin_reader.read<Elf64_Phdr>(file, header.e_phoff + i * sizeof(Elf64_Phdr), what);
    k_cubin_reader.slice(file, segment.p_offset, segment.p_filesz, "the segment of " + what);
  }
}

struct SymbolTable {
  Bytes entries;
  Bytes strings;
};

SymbolTable find_symbols(const std::vector<Elf64_Shdr>& headers,
                         const std::vector<CubinSection>& sections) {
  const auto table = std::ranges::find(headers, Elf64_Word{SHT_SYMTAB}, &Elf64_Shdr::sh_type);
  if (table == headers.end()) refuse_cubin("there is no symbol table");
  const Bytes entries = sections[static_cast<std::size_t>(table - headers.begin())].bytes;
  if (table->sh_entsize != sizeof(Elf64_Sym) || entries.size() % sizeof(Elf64_Sym) != 0 ||
      table->sh_link >= sections.size()) {
    refuse_cubin(
        fmt::format("the symbol table has {} bytes in entries of {} and names in section "
                    "{}",
                    entries.size(), table->sh_entsize, table->sh_link));
  }
  return {entries, sections[table->sh_link].bytes};
}

std::vector<CubinSymbol> read_symbols(const SymbolTable& table, ElfNames& names) {
  std::vector<CubinSymbol> symbols(table.entries.size() / sizeof(Elf64_Sym));
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    const std::string what = fmt::format("symbol {}", i);
    const auto entry = k_cubin_reader.read<Elf64_Sym>(table.entries, i * sizeof(Elf64_Sym), what);
    symbols[i].name = names.read(table.strings, entry.st_name, what);
    symbols[i].section = entry.st_shndx;
    symbols[i].value = entry.st_value;
    symbols[i].size = entry.st_size;
    symbols[i].is_function = ELF64_ST_TYPE(entry.st_info) == STT_FUNC;
    symbols[i].is_kernel = symbols[i].is_function && (entry.st_other & k_symbol_is_entry) != 0;
  }
  return symbols;
}

/// The entries of one section of relocations, with or without addends.
template <class Entry>
void append_relocations(const CubinSection& section, std::uint64_t target_bytes,
                        std::size_t symbols, std::vector<CubinRelocation>& relocations) {
  const std::string name = printable(section.name);
  if (section.bytes.size() % sizeof(Entry) != 0) {
    refuse_cubin(
        fmt::format("{} has {} bytes in entries of {}", name, section.bytes.size(), sizeof(Entry)));
  }
  for (std::uint64_t at = 0; at < section.bytes.size(); at += sizeof(Entry)) {
    const auto entry = k_cubin_reader.read<Entry>(section.bytes, at, name);
    CubinRelocation relocation{.section = section.info,
                               .offset = entry.r_offset,
                               .type = static_cast<std::uint32_t>(ELF64_R_TYPE(entry.r_info)),
                               .symbol = static_cast<std::uint32_t>(ELF64_R_SYM(entry.r_info)),
                               .addend = {}};
    if constexpr (std::is_same_v<Entry, Elf64_Rela>) relocation.addend = entry.r_addend;
    if (relocation.offset >= target_bytes || relocation.symbol >= symbols) {
      refuse_cubin(fmt::format("{} patches byte {} of {} with symbol {} of {}", name,
                               relocation.offset, target_bytes, relocation.symbol, symbols));
    }
    relocations.push_back(relocation);
  }
}

}  // namespace

void refuse_cubin(const std::string& reason) { throw malformed_cubin(reason); }

bool CubinSection::is_code() const noexcept {
  return type == SHT_PROGBITS && (flags & SHF_EXECINSTR) != 0;
}

bool CubinSection::is_without_bytes() const noexcept { return has_no_bytes(type); }

std::uint32_t CubinAttribute::word(std::uint64_t index) const {
  return k_cubin_reader.read<std::uint32_t>(payload, index * sizeof(std::uint32_t),
                                            fmt::format(".nv.info attribute {:#x}", code));
}

CubinFile::CubinFile(std::span<const std::byte> bytes) {
  const Elf64_Ehdr header = read_header(bytes);
  arch_ = read_arch(header);
  relocatable_ = header.e_type == ET_REL;
  const std::vector<Elf64_Shdr> headers = read_section_headers(bytes, header);
  sections_ = read_sections(bytes, headers);
  ElfNames names(bytes.size(), malformed_cubin);
  const Bytes section_names = sections_[header.e_shstrndx].bytes;
  for (std::size_t i = 0; i < sections_.size(); ++i) {
    sections_[i].name = names.read(section_names, headers[i].sh_name, fmt::format("section {}", i));
    by_name_.emplace(sections_[i].name, i);
  }
  check_segments(bytes, header);
  symbols_ = read_symbols(find_symbols(headers, sections_), names);
}

const CubinSection* CubinFile::find_section(std::string_view name) const noexcept {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &sections_[found->second];
}

std::vector<CubinRelocation> CubinFile::relocations() const {
  std::vector<CubinRelocation> relocations;
  for (const CubinSection& section : sections_) {
    if (section.type != SHT_RELA && section.type != SHT_REL) continue;
    if (section.info >= sections_.size()) {
      refuse_cubin(fmt::format("{} patches section {} of {}", printable(section.name), section.info,
                               sections_.size()));
    }
    const std::uint64_t target_bytes = sections_[section.info].bytes.size();
    if (section.type == SHT_RELA) {
      append_relocations<Elf64_Rela>(section, target_bytes, symbols_.size(), relocations);
    } else {
      append_relocations<Elf64_Rel>(section, target_bytes, symbols_.size(), relocations);
    }
  }
  return relocations;
}

/// A record is four bytes (form, code, 16 bits of value) and, in form 4, as many more as the value
/// says.
std::vector<CubinAttribute> read_cubin_attributes(const CubinSection& section) {
  constexpr std::uint8_t newest_form = 4;
  const std::string name = printable(section.name);
  std::vector<CubinAttribute> attributes;
  for (std::uint64_t offset = 0; offset < section.bytes.size();) {
    const Bytes record = k_cubin_reader.slice(section.bytes, offset, 4, name);
    const auto form = std::to_integer<std::uint8_t>(record[0]);
    if (form < 1 || form > newest_form) {
      refuse_cubin(fmt::format("{} has a record of form {} at byte {}", name, form, offset));
    }
    CubinAttribute attribute{.code = std::to_integer<std::uint8_t>(record[1]),
                             .value = k_cubin_reader.read<std::uint16_t>(record, 2, name),
                             .payload = {}};
    offset += 4;
    if (form == newest_form) {
      attribute.payload = k_cubin_reader.slice(section.bytes, offset, attribute.value, name);
      offset += attribute.value;
    }
    attributes.push_back(attribute);
  }
  return attributes;
}

}  // namespace spjit
