#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <map>
#include <set>

#include "base/elf_object.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

static_assert(std::endian::native == std::endian::little, "ELF structures are copied as they lie");

constexpr std::uint64_t k_largest_alignment = 4096;
constexpr std::size_t k_most_sections = 60000;  // below SHN_LORESERVE, with those added here
constexpr std::array<std::string_view, 4> k_reserved_names = {".note.GNU-stack", ".symtab",
                                                              ".strtab", ".shstrtab"};

bool is_name(std::string_view name) {
  return !name.empty() && name.find('\0') == std::string_view::npos;
}

/// Section name -> its place in ElfObject::sections.
using SectionIndex = std::map<std::string_view, std::size_t>;

SectionIndex check_sections(const ElfObject& object) {
  if (object.sections.size() > k_most_sections) {
    throw InvalidArgument(fmt::format("ELF object with {} sections: expected at most {}",
                                      object.sections.size(), k_most_sections));
  }
  SectionIndex index;
  for (std::size_t i = 0; i < object.sections.size(); ++i) {
    const ElfSection& section = object.sections[i];
    if (!is_name(section.name) || std::ranges::count(k_reserved_names, section.name) != 0) {
      throw InvalidArgument(fmt::format(
          "ELF section name '{}': expected text without NUL that is none of the names the writer "
          "adds ({})",
          section.name, fmt::join(k_reserved_names, ", ")));
    }
    if (!std::has_single_bit(section.alignment) || section.alignment > k_largest_alignment) {
      throw InvalidArgument(
          fmt::format("ELF section '{}' aligned to {}: expected a power of two of at most {}",
                      section.name, section.alignment, k_largest_alignment));
    }
    if (!index.emplace(section.name, i).second) {
      throw InvalidArgument(
          fmt::format("ELF section '{}' given twice: expected unique names", section.name));
    }
  }
  return index;
}

void check_symbols(const ElfObject& object, const SectionIndex& index) {
  std::set<std::string_view> globals;
  for (const ElfSymbol& symbol : object.symbols) {
    if (!is_name(symbol.name)) {
      throw InvalidArgument(fmt::format(
          "ELF symbol name '{}': expected text that is not empty and has no NUL", symbol.name));
    }
    const auto section = index.find(symbol.section);
    if (section == index.end()) {
      throw InvalidArgument(fmt::format("ELF symbol '{}' is in section '{}', which is not given",
                                        symbol.name, symbol.section));
    }
    const std::uint64_t bytes = object.sections[section->second].bytes.size();
    if (symbol.offset > bytes || symbol.size > bytes - symbol.offset) {
      throw InvalidArgument(fmt::format(
          "ELF symbol '{}' covers [{}, {} + {}) of section '{}', which has {} bytes", symbol.name,
          symbol.offset, symbol.offset, symbol.size, symbol.section, bytes));
    }
    if (symbol.binding == ElfBinding::global && !globals.insert(symbol.name).second) {
      throw InvalidArgument(
          fmt::format("global ELF symbol '{}' given twice: expected unique names", symbol.name));
    }
  }
  if (object.source_name.find('\0') != std::string::npos) {
    throw InvalidArgument("ELF source name with a NUL: expected text");
  }
}

/// NUL-terminated strings one after another, the empty one first.
class StringTable {
 public:
  std::uint32_t add(std::string_view text) {
    if (text.empty()) return 0;
    const std::size_t offset = bytes_.size();
    if (offset + text.size() >= std::numeric_limits<std::uint32_t>::max()) {
      throw InvalidArgument("ELF object with names of 4 GiB in all: expected less");
    }
    bytes_.append(text).push_back('\0');
    return static_cast<std::uint32_t>(offset);
  }

  [[nodiscard]] std::span<const std::byte> bytes() const {
    return std::as_bytes(std::span(bytes_));
  }

 private:
  std::string bytes_ = std::string(1, '\0');
};

unsigned char to_elf(ElfSymbolKind kind) {
  switch (kind) {
    case ElfSymbolKind::function:
      return STT_FUNC;
    case ElfSymbolKind::object:
      return STT_OBJECT;
    case ElfSymbolKind::none:
      break;
  }
  return STT_NOTYPE;
}

struct SymbolSection {
  std::vector<Elf64_Sym> entries;
  std::uint32_t first_global = 0;
  StringTable names;
};

SymbolSection make_symbols(const ElfObject& object, const SectionIndex& index) {
  SymbolSection result;
  result.entries.emplace_back();
  if (!object.source_name.empty()) {
    Elf64_Sym file{};
    file.st_name = result.names.add(object.source_name);
    file.st_info = ELF64_ST_INFO(STB_LOCAL, STT_FILE);
    file.st_shndx = SHN_ABS;
    result.entries.push_back(file);
  }
  const auto add_all = [&](ElfBinding binding, unsigned elf_binding) {
    for (const ElfSymbol& symbol : object.symbols) {
      if (symbol.binding != binding) continue;
      Elf64_Sym entry{};
      entry.st_name = result.names.add(symbol.name);
      entry.st_info = static_cast<unsigned char>(ELF64_ST_INFO(elf_binding, to_elf(symbol.kind)));
      // Entry 0 of the section table is the null section.
      entry.st_shndx = static_cast<Elf64_Section>(index.at(symbol.section) + 1);
      entry.st_value = symbol.offset;
      entry.st_size = symbol.size;
      result.entries.push_back(entry);
    }
  };
  add_all(ElfBinding::local, STB_LOCAL);
  result.first_global = static_cast<std::uint32_t>(result.entries.size());
  add_all(ElfBinding::global, STB_GLOBAL);
  return result;
}

/// The file as it grows: contents first, the section header table at the end.
class FileBuilder {
 public:
  explicit FileBuilder(const Cancellation& cancel)
      : cancel_(cancel), file_(sizeof(Elf64_Ehdr)), headers_(1) {}

  /// What large contents will take, so that they are moved no more.
  void reserve(std::size_t bytes) { file_.reserve(file_.size() + bytes); }

  void add_section(std::string_view name, Elf64_Shdr header, std::span<const std::byte> bytes) {
    header.sh_name = names_.add(name);
    append(header, bytes);
  }

  /// Adds .shstrtab, the section headers and the file header.
  [[nodiscard]] std::vector<std::byte> finish() && {
    Elf64_Shdr header{};
    header.sh_type = SHT_STRTAB;
    header.sh_addralign = 1;
    header.sh_name = names_.add(".shstrtab");
    append(header, names_.bytes());
    align(alignof(Elf64_Shdr));
    write_file_header();
    const auto table = std::as_bytes(std::span(headers_));
    file_.insert(file_.end(), table.begin(), table.end());
    return std::move(file_);
  }

 private:
  /// Fills in the offset and size of `header`.
  void append(Elf64_Shdr header, std::span<const std::byte> bytes) {
    align(header.sh_addralign);
    header.sh_offset = file_.size();
    header.sh_size = bytes.size();
    for_each_piece(std::ssize(bytes), cancel_, [&](std::int64_t begin, std::int64_t end) {
      file_.insert(file_.end(), bytes.begin() + begin, bytes.begin() + end);
    });
    headers_.push_back(header);
  }

  void align(std::uint64_t alignment) {
    file_.resize((file_.size() + alignment - 1) / alignment * alignment);
  }

  void write_file_header() {
    Elf64_Ehdr header{};
    header.e_ident[EI_MAG0] = ELFMAG0;
    header.e_ident[EI_MAG1] = ELFMAG1;
    header.e_ident[EI_MAG2] = ELFMAG2;
    header.e_ident[EI_MAG3] = ELFMAG3;
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_ident[EI_VERSION] = EV_CURRENT;
    header.e_ident[EI_OSABI] = ELFOSABI_NONE;
    header.e_type = ET_REL;
    header.e_machine = EM_X86_64;
    header.e_version = EV_CURRENT;
    header.e_shoff = file_.size();
    header.e_ehsize = sizeof(Elf64_Ehdr);
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shnum = static_cast<Elf64_Half>(headers_.size());
    header.e_shstrndx = static_cast<Elf64_Half>(headers_.size() - 1);
    std::ranges::copy(std::as_bytes(std::span(&header, 1)), file_.begin());
  }

  const Cancellation& cancel_;
  std::vector<std::byte> file_;
  std::vector<Elf64_Shdr> headers_;
  StringTable names_;
};

Elf64_Shdr section_header(std::uint32_t type, std::uint64_t flags, std::uint64_t alignment) {
  Elf64_Shdr header{};
  header.sh_type = type;
  header.sh_flags = flags;
  header.sh_addralign = alignment;
  return header;
}

}  // namespace

std::vector<std::byte> write_elf_object(const ElfObject& object, const Cancellation& cancel) {
  const SectionIndex index = check_sections(object);
  check_symbols(object, index);
  const SymbolSection symbols = make_symbols(object, index);

  FileBuilder file(cancel);
  std::size_t bytes = 0;
  for (const ElfSection& section : object.sections) {
    bytes += section.bytes.size() + section.alignment;
  }
  constexpr std::size_t k_tables = 4096;  // about; more costs one move
  file.reserve(bytes + k_tables);
  for (const ElfSection& section : object.sections) {
    const std::uint64_t flags = SHF_ALLOC | (section.executable ? SHF_EXECINSTR : 0U);
    file.add_section(section.name, section_header(SHT_PROGBITS, flags, section.alignment),
                     section.bytes);
  }
  file.add_section(".note.GNU-stack", section_header(SHT_PROGBITS, 0, 1), {});
  Elf64_Shdr symtab = section_header(SHT_SYMTAB, 0, alignof(Elf64_Sym));
  symtab.sh_entsize = sizeof(Elf64_Sym);
  symtab.sh_info = symbols.first_global;
  // .strtab follows .symtab, which follows the null section, the caller's and .note.GNU-stack.
  symtab.sh_link = static_cast<std::uint32_t>(object.sections.size() + 3);
  file.add_section(".symtab", symtab, std::as_bytes(std::span(symbols.entries)));
  file.add_section(".strtab", section_header(SHT_STRTAB, 0, 1), symbols.names.bytes());
  return std::move(file).finish();
}

}  // namespace spjit
