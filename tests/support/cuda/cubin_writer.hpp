#pragma once

/// @file
/// Cubins written by hand: as much of an ELF file as readers look at.

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace spjit::testing_support {

/// The section of a file that the first of TestCubin's becomes.
inline constexpr std::uint16_t k_first_section = 4;

using Content = std::vector<std::uint8_t>;

inline void append(Content& bytes, const void* data, std::size_t size) {
  const auto* begin = static_cast<const std::uint8_t*>(data);
  bytes.insert(bytes.end(), begin, begin + size);
}

template <class Struct>
void append(Content& bytes, const Struct& value) {
  append(bytes, &value, sizeof(value));
}

/// A .nv.info record with a payload of words.
[[nodiscard]] inline Content record(std::uint8_t code, const std::vector<std::uint32_t>& words) {
  Content bytes = {4, code};
  append(bytes, static_cast<std::uint16_t>(words.size() * sizeof(std::uint32_t)));
  for (const std::uint32_t word : words) append(bytes, word);
  return bytes;
}

/// A .nv.info record whose value is 16 bits.
[[nodiscard]] inline Content short_record(std::uint8_t code, std::uint16_t value) {
  Content bytes = {3, code};
  append(bytes, value);
  return bytes;
}

[[nodiscard]] inline Content join(const std::vector<Content>& parts) {
  Content all;
  for (const Content& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

struct TestSection {
  std::string name;
  std::uint32_t type = SHT_PROGBITS;
  std::uint64_t flags = 0;
  Content content;
  std::uint64_t memory_bytes = 0;  ///< of a section without content
  std::uint32_t info = 0;
};

struct TestSymbol {
  std::string name;
  std::uint8_t other = 0;  ///< 0x10: a kernel
  std::uint16_t section = k_first_section;
  std::uint8_t type = STT_FUNC;
  std::uint64_t value = 0;
  std::uint64_t size = 0;
};

/// The few bytes of a cubin that the reader looks at.
struct TestCubin {
  std::uint8_t os_abi = 0x41;
  std::uint8_t abi_version = 8;
  std::uint32_t flags = 0x06005a04;  // sm_90
  std::uint16_t type = ET_EXEC;
  std::vector<TestSection> sections;
  std::vector<TestSymbol> symbols;  ///< symbol 0 is added
};

inline std::uint32_t add_name(Content& strings, const std::string& name) {
  const auto offset = static_cast<std::uint32_t>(strings.size());
  append(strings, name.c_str(), name.size() + 1);
  return offset;
}

[[nodiscard]] inline Elf64_Ehdr file_header(const TestCubin& cubin, std::size_t sections) {
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_ident[EI_OSABI] = cubin.os_abi;
  header.e_ident[EI_ABIVERSION] = cubin.abi_version;
  header.e_type = cubin.type;
  header.e_machine = EM_CUDA;
  header.e_version = EV_CURRENT;
  header.e_flags = cubin.flags;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = static_cast<Elf64_Half>(sections);
  header.e_shstrndx = 1;
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = 1;
  return header;
}

/// Null, .shstrtab, .strtab, .symtab, then the given sections; headers and one segment at the end,
/// as ptxas lays them out.
[[nodiscard]] inline std::vector<std::byte> write_cubin(const TestCubin& cubin) {
  Content names = {0};
  Content strings = {0};
  Content table(sizeof(Elf64_Sym), 0);
  for (const TestSymbol& symbol : cubin.symbols) {
    Elf64_Sym entry = {};
    entry.st_name = add_name(strings, symbol.name);
    entry.st_info = static_cast<unsigned char>(ELF64_ST_INFO(STB_GLOBAL, symbol.type));
    entry.st_other = symbol.other;
    entry.st_shndx = symbol.section;
    entry.st_value = symbol.value;
    entry.st_size = symbol.size;
    append(table, entry);
  }
  std::vector<TestSection> sections = {{"", SHT_NULL, 0, {}, 0, 0},
                                       {".shstrtab", SHT_STRTAB, 0, {}, 0, 0},
                                       {".strtab", SHT_STRTAB, 0, strings, 0, 0},
                                       {".symtab", SHT_SYMTAB, 0, table, 0, 0}};
  sections.insert(sections.end(), cubin.sections.begin(), cubin.sections.end());
  std::vector<Elf64_Shdr> headers(sections.size());
  for (std::size_t i = 1; i < sections.size(); ++i) {
    headers[i].sh_name = add_name(names, sections[i].name);
  }
  sections[1].content = names;

  Elf64_Ehdr header = file_header(cubin, sections.size());
  Content file;
  append(file, header);
  for (std::size_t i = 1; i < sections.size(); ++i) {
    headers[i].sh_type = sections[i].type;
    headers[i].sh_flags = sections[i].flags;
    headers[i].sh_info = sections[i].info;
    headers[i].sh_offset = file.size();
    headers[i].sh_size =
        sections[i].content.empty() ? sections[i].memory_bytes : sections[i].content.size();
    append(file, sections[i].content.data(), sections[i].content.size());
  }
  headers[3].sh_link = 2;
  headers[3].sh_entsize = sizeof(Elf64_Sym);
  header.e_shoff = file.size();
  append(file, headers.data(), headers.size() * sizeof(Elf64_Shdr));
  header.e_phoff = file.size();
  append(file, Elf64_Phdr{});
  std::memcpy(file.data(), &header, sizeof(header));

  std::vector<std::byte> bytes(file.size());
  std::memcpy(bytes.data(), file.data(), file.size());
  return bytes;
}

}  // namespace spjit::testing_support
