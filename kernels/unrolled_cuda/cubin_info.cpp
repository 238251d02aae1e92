#include "kernels/unrolled_cuda/cubin_info.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "base/printable.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

static_assert(std::endian::native == std::endian::little, "ELF structures are copied as they lie");

using Bytes = std::span<const std::byte>;

// The numbers of NVIDIA's ELF dialect. LLVM's ELF.h names the file header's; those of .nv.info are
// the ones `cuobjdump -elf` prints by name.
constexpr std::uint8_t k_os_abi_7 = 0x33;  // CUDA up to 12: e_flags bits 0-7 are the architecture
constexpr std::uint8_t k_os_abi_8 = 0x41;  // CUDA 13: e_flags bits 8-15 are
constexpr std::uint8_t k_symbol_is_entry = 0x10;
constexpr std::uint32_t k_type_info = SHT_LOPROC;
// Sections that take memory and no bytes of the file, besides SHT_NOBITS: global, local and shared
// memory of relocatable objects, and the shared reserve.
constexpr std::uint32_t k_types_without_bytes[] = {SHT_LOPROC + 0x7, SHT_LOPROC + 0x9,
                                                   SHT_LOPROC + 0xa, SHT_LOPROC + 0x15};
constexpr std::uint8_t k_max_threads = 0x05;
constexpr std::uint8_t k_required_threads = 0x10;
constexpr std::uint8_t k_frame_size = 0x11;
constexpr std::uint8_t k_min_stack_size = 0x12;
constexpr std::uint8_t k_parameter_bytes = 0x19;
constexpr std::uint8_t k_register_count = 0x2f;
// Hopper and newer lay a kernel's static shared memory out behind the driver's 1 KiB.
constexpr std::int64_t k_first_arch_with_reserve_in_section = 90;
constexpr std::uint64_t k_reserved_shared_bytes = 1024;

[[noreturn]] void malformed(const std::string& reason) {
  throw Error("malformed cubin: " + reason +
              "; expected a cubin of CUDA 11.8 to 13, compile it again");
}

/// `count` bytes at `offset`, or an error that calls them `what`.
Bytes slice(Bytes bytes, std::uint64_t offset, std::uint64_t count, std::string_view what) {
  if (offset > bytes.size() || count > bytes.size() - offset) {
    malformed(fmt::format("{} at byte {} with {} bytes reaches past the end ({} bytes)", what,
                          offset, count, bytes.size()));
  }
  return bytes.subspan(offset, count);
}

/// Structures may lie at any address, so they are copied out.
template <class Struct>
Struct read_struct(Bytes bytes, std::uint64_t offset, std::string_view what) {
  Struct value;
  std::memcpy(&value, slice(bytes, offset, sizeof(Struct), what).data(), sizeof(Struct));
  return value;
}

/// Looks names up, all of one cubin. Many symbols may share the bytes of a name, so a cubin could
/// name more than it holds; in all, names get no longer than the cubin.
class NameReader {
 public:
  explicit NameReader(std::size_t cubin_bytes) : left_(cubin_bytes) {}

  std::string_view read(Bytes strings, std::uint64_t offset, std::string_view what) {
    const Bytes rest = strings.subspan(std::min<std::uint64_t>(offset, strings.size()));
    const Bytes searched = rest.first(std::min(rest.size(), left_ + 1));
    const auto end = std::ranges::find(searched, std::byte{0});
    if (end == searched.end() && searched.size() > left_) {
      malformed("its names are longer than the cubin");
    }
    if (end == searched.end()) {
      malformed(fmt::format("the name of {} at byte {} of a string table of {} bytes has no end",
                            what, offset, strings.size()));
    }
    const auto length = static_cast<std::size_t>(end - searched.begin());
    left_ -= length;
    return {reinterpret_cast<const char*>(rest.data()), length};
  }

 private:
  std::size_t left_;
};

Elf64_Ehdr read_header(Bytes file) {
  const auto header = read_struct<Elf64_Ehdr>(file, 0, "the file header");
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) malformed("the ELF magic is missing");
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
      header.e_ident[EI_VERSION] != EV_CURRENT) {
    malformed("not 64-bit little-endian ELF version 1");
  }
  if (header.e_machine != EM_CUDA) {
    malformed(fmt::format("machine {}, expected {} (CUDA)", header.e_machine, EM_CUDA));
  }
  if (header.e_type != ET_EXEC && header.e_type != ET_REL) {
    malformed(fmt::format("type {}, expected 1 (relocatable) or 2 (executable)", header.e_type));
  }
  if (header.e_shentsize != sizeof(Elf64_Shdr)) {
    malformed(fmt::format("section headers of {} bytes, expected 64", header.e_shentsize));
  }
  if (header.e_shnum == 0 || header.e_shstrndx >= header.e_shnum) {
    malformed(
        fmt::format("section names are in section {} of {}", header.e_shstrndx, header.e_shnum));
  }
  if (header.e_phnum != 0 && header.e_phentsize != sizeof(Elf64_Phdr)) {
    malformed(fmt::format("program headers of {} bytes, expected 56", header.e_phentsize));
  }
  return header;
}

std::int64_t read_arch(const Elf64_Ehdr& header) {
  const std::uint8_t abi = header.e_ident[EI_OSABI];
  const std::uint8_t version = header.e_ident[EI_ABIVERSION];
  std::uint32_t arch = 0;
  if (abi == k_os_abi_7 && version == 7) {
    arch = header.e_flags & 0xff;
  } else if (abi == k_os_abi_8 && version == 8) {
    arch = header.e_flags >> 8 & 0xff;
  } else {
    malformed(fmt::format("OS ABI {:#x} version {}, expected 0x33 version 7 or 0x41 version 8", abi,
                          version));
  }
  if (arch == 0) malformed(fmt::format("flags {:#x} name no architecture", header.e_flags));
  return arch;
}

struct Section {
  std::string_view name;
  Elf64_Shdr header = {};
  Bytes bytes;  ///< content; empty where the file holds none
};

struct Symbol {
  std::string_view name;
  Elf64_Sym entry = {};
};

/// A record of .nv.info: `payload` of the long form, else `value`.
struct Attribute {
  std::uint8_t code = 0;
  std::uint16_t value = 0;
  Bytes payload;
};

bool has_no_bytes(const Elf64_Shdr& header) {
  return header.sh_type == SHT_NULL || header.sh_type == SHT_NOBITS ||
         std::ranges::find(k_types_without_bytes, header.sh_type) !=
             std::end(k_types_without_bytes);
}

/// Sections of a file do not overlap; where they did, reading each would take more time than the
/// file accounts for.
std::vector<Section> read_sections(Bytes file, const Elf64_Ehdr& header) {
  const Bytes table =
      slice(file, header.e_shoff, header.e_shnum * sizeof(Elf64_Shdr), "the section header table");
  std::vector<Section> sections(header.e_shnum);
  std::size_t left = file.size();
  for (std::size_t i = 0; i < sections.size(); ++i) {
    const std::string what = fmt::format("section {}", i);
    Section& section = sections[i];
    section.header = read_struct<Elf64_Shdr>(table, i * sizeof(Elf64_Shdr), what);
    if (!has_no_bytes(section.header)) {
      section.bytes = slice(file, section.header.sh_offset, section.header.sh_size, what);
      if (section.bytes.size() > left) malformed("its sections are longer than the file");
      left -= section.bytes.size();
    }
  }
  return sections;
}

void name_sections(std::vector<Section>& sections, std::size_t names_index, NameReader& names) {
  const Bytes strings = sections[names_index].bytes;
  for (std::size_t i = 0; i < sections.size(); ++i) {
    sections[i].name =
        names.read(strings, sections[i].header.sh_name, fmt::format("section {}", i));
  }
}

/// The driver loads segments, so a cubin without all of them is no cubin.
void check_segments(Bytes file, const Elf64_Ehdr& header) {
  for (std::size_t i = 0; i < header.e_phnum; ++i) {
    const std::string what = fmt::format("program header {}", i);
    slice(file, header.e_phoff, header.e_phnum * sizeof(Elf64_Phdr), "the program header table");
    const auto segment =
        read_struct<Elf64_Phdr>(file, header.e_phoff + i * sizeof(Elf64_Phdr), what);
    slice(file, segment.p_offset, segment.p_filesz, "the segment of " + what);
  }
}

std::vector<Symbol> read_symbols(const std::vector<Section>& sections, NameReader& names) {
  const auto table = std::ranges::find_if(
      sections, [](const Section& section) { return section.header.sh_type == SHT_SYMTAB; });
  if (table == sections.end()) malformed("there is no symbol table");
  if (table->header.sh_entsize != sizeof(Elf64_Sym) ||
      table->bytes.size() % sizeof(Elf64_Sym) != 0 || table->header.sh_link >= sections.size()) {
    malformed(fmt::format("the symbol table has {} bytes in entries of {} and names in section {}",
                          table->bytes.size(), table->header.sh_entsize, table->header.sh_link));
  }
  const Bytes strings = sections[table->header.sh_link].bytes;
  std::vector<Symbol> symbols(table->bytes.size() / sizeof(Elf64_Sym));
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    const std::string what = fmt::format("symbol {}", i);
    symbols[i].entry = read_struct<Elf64_Sym>(table->bytes, i * sizeof(Elf64_Sym), what);
    symbols[i].name = names.read(strings, symbols[i].entry.st_name, what);
  }
  return symbols;
}

/// A record is four bytes (form, code, 16 bits of value) and, in form 4, as many more as the value
/// says.
std::vector<Attribute> read_attributes(const Section& section) {
  constexpr std::uint8_t newest_form = 4;
  const std::string name = printable(section.name);
  std::vector<Attribute> attributes;
  for (std::uint64_t offset = 0; offset < section.bytes.size();) {
    const Bytes record = slice(section.bytes, offset, 4, name);
    const auto form = std::to_integer<std::uint8_t>(record[0]);
    if (form < 1 || form > newest_form) {
      malformed(fmt::format("{} has a record of form {} at byte {}", name, form, offset));
    }
    Attribute attribute{.code = std::to_integer<std::uint8_t>(record[1]),
                        .value = read_struct<std::uint16_t>(record, 2, name),
                        .payload = {}};
    offset += 4;
    if (form == newest_form) {
      attribute.payload = slice(section.bytes, offset, attribute.value, name);
      offset += attribute.value;
    }
    attributes.push_back(attribute);
  }
  return attributes;
}

std::uint32_t read_word(const Attribute& attribute, std::uint64_t index) {
  return read_struct<std::uint32_t>(attribute.payload, index * sizeof(std::uint32_t),
                                    fmt::format(".nv.info attribute {:#x}", attribute.code));
}

/// What .nv.info says of one function.
struct FunctionResources {
  std::optional<std::int64_t> registers;
  std::int64_t frame_bytes = 0;
  std::optional<std::int64_t> min_stack_bytes;
};

/// By symbol index.
std::map<std::uint32_t, FunctionResources> read_resources(const std::vector<Section>& sections,
                                                          std::size_t symbols) {
  std::map<std::uint32_t, FunctionResources> resources;
  for (const Section& section : sections) {
    if (section.header.sh_type != k_type_info || section.name != ".nv.info") continue;
    for (const Attribute& attribute : read_attributes(section)) {
      if (attribute.code != k_register_count && attribute.code != k_frame_size &&
          attribute.code != k_min_stack_size) {
        continue;
      }
      const std::uint32_t symbol = read_word(attribute, 0);
      const std::int64_t value = read_word(attribute, 1);
      if (symbol >= symbols)
        malformed(fmt::format(".nv.info names symbol {} of {}", symbol, symbols));
      FunctionResources& function = resources[symbol];
      if (attribute.code == k_register_count) function.registers = value;
      if (attribute.code == k_frame_size) function.frame_bytes = value;
      if (attribute.code == k_min_stack_size) function.min_stack_bytes = value;
    }
  }
  return resources;
}

/// The product of a block's three dimensions.
std::int64_t read_threads(const Attribute& attribute) {
  constexpr std::uint32_t most = 1024;  // of any dimension on any GPU
  std::int64_t threads = 1;
  for (std::uint64_t i = 0; i < 3; ++i) {
    const std::uint32_t extent = read_word(attribute, i);
    if (extent < 1 || extent > most) {
      malformed(fmt::format("a block bound of {} threads in one dimension", extent));
    }
    threads *= extent;
  }
  return threads;
}

/// Finds what belongs to a kernel by the names of sections.
class SectionIndex {
 public:
  explicit SectionIndex(const std::vector<Section>& sections) {
    for (const Section& section : sections) by_name_.emplace(section.name, &section);
  }
  [[nodiscard]] const Section* find(const std::string& name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }

 private:
  std::map<std::string_view, const Section*> by_name_;
};

std::int64_t static_shared_bytes(const SectionIndex& index, const std::string& kernel,
                                 std::int64_t arch) {
  const Section* section = index.find(".nv.shared." + kernel);
  if (section == nullptr) return 0;
  constexpr std::uint64_t most = std::uint64_t{1} << 31;
  const std::uint64_t bytes = section->header.sh_size;
  if (bytes > most)
    malformed(fmt::format("{} bytes of shared memory for {}", bytes, printable(kernel)));
  // A relocatable object has a section of another type, before the reserve is added.
  const bool with_reserve =
      section->header.sh_type == SHT_NOBITS && arch >= k_first_arch_with_reserve_in_section;
  if (!with_reserve) return static_cast<std::int64_t>(bytes);
  return static_cast<std::int64_t>(bytes - std::min(bytes, k_reserved_shared_bytes));
}

std::int64_t constant_bytes(const SectionIndex& index, const std::string& kernel) {
  constexpr int banks = 18;
  std::int64_t bytes = 0;
  for (int bank = 0; bank < banks; ++bank) {
    const Section* section = index.find(fmt::format(".nv.constant{}.{}", bank, kernel));
    if (section != nullptr) bytes += static_cast<std::int64_t>(section->bytes.size());
  }
  return bytes;
}

CubinKernel read_kernel(const SectionIndex& index, const std::string& name, std::int64_t arch) {
  CubinKernel kernel;
  kernel.name = name;
  const Section* text = index.find(".text." + name);
  if (text == nullptr || text->header.sh_type != SHT_PROGBITS) {
    malformed(fmt::format("kernel {} has no code", printable(name)));
  }
  kernel.code_bytes = static_cast<std::int64_t>(text->bytes.size());
  kernel.static_shared_bytes = static_shared_bytes(index, name, arch);
  kernel.constant_bytes = constant_bytes(index, name);
  const Section* info = index.find(".nv.info." + name);
  if (info == nullptr) malformed(fmt::format("kernel {} has no .nv.info", printable(name)));
  for (const Attribute& attribute : read_attributes(*info)) {
    if (attribute.code == k_parameter_bytes) kernel.parameter_bytes = attribute.value;
    if (attribute.code == k_max_threads || attribute.code == k_required_threads) {
      kernel.max_threads = read_threads(attribute);
    }
  }
  return kernel;
}

std::int64_t count_code_bytes(const std::vector<Section>& sections) {
  std::int64_t bytes = 0;
  for (const Section& section : sections) {
    const bool code =
        section.header.sh_type == SHT_PROGBITS && (section.header.sh_flags & SHF_EXECINSTR) != 0;
    if (code) bytes += static_cast<std::int64_t>(section.bytes.size());
  }
  return bytes;
}

}  // namespace

const CubinKernel* CubinInfo::find_kernel(std::string_view name) const noexcept {
  const auto found = std::ranges::find(kernels, name, &CubinKernel::name);
  return found == kernels.end() ? nullptr : &*found;
}

CubinInfo read_cubin_info(std::span<const std::byte> cubin) {
  const Elf64_Ehdr header = read_header(cubin);
  CubinInfo info;
  info.arch = read_arch(header);
  info.relocatable = header.e_type == ET_REL;
  std::vector<Section> sections = read_sections(cubin, header);
  NameReader names(cubin.size());
  name_sections(sections, header.e_shstrndx, names);
  check_segments(cubin, header);
  info.code_bytes = count_code_bytes(sections);

  const std::vector<Symbol> symbols = read_symbols(sections, names);
  const SectionIndex index(sections);
  std::set<std::string_view> kernel_names;
  const auto resources = read_resources(sections, symbols.size());
  for (std::uint32_t i = 0; i < symbols.size(); ++i) {
    const Elf64_Sym& entry = symbols[i].entry;
    if (ELF64_ST_TYPE(entry.st_info) != STT_FUNC || entry.st_shndx == SHN_UNDEF) continue;
    const std::string name(symbols[i].name);
    const bool is_kernel = (entry.st_other & k_symbol_is_entry) != 0;
    const auto found = resources.find(i);
    // A function that was merged into its caller's code has no registers of its own.
    const bool counted = found != resources.end() && found->second.registers.has_value();
    if (!is_kernel && !counted) continue;
    if (!counted) malformed(fmt::format("no register count for {}", printable(name)));
    const FunctionResources& function = found->second;
    if (!is_kernel) {
      info.functions.push_back({name, *function.registers, function.frame_bytes});
      continue;
    }
    // What belongs to a kernel is found by its name.
    if (!kernel_names.insert(symbols[i].name).second) {
      malformed(fmt::format("two kernels are called {}", printable(name)));
    }
    CubinKernel kernel = read_kernel(index, name, info.arch);
    kernel.registers = *function.registers;
    kernel.frame_bytes = function.frame_bytes;
    kernel.stack_bytes = function.min_stack_bytes.value_or(function.frame_bytes);
    info.kernels.push_back(std::move(kernel));
  }
  return info;
}

}  // namespace spjit
