#pragma once

/// @file
/// Objects spoilt on purpose.

#include <elf.h>

#include <cstddef>
#include <cstring>
#include <vector>

namespace spjit::testing_support {

/// The 64-bit ELF file with all sections from `first` on at its beginning, half as long as it.
[[nodiscard]] inline std::vector<std::byte> with_overlapping_sections(std::vector<std::byte> file,
                                                                      std::size_t first) {
  Elf64_Ehdr header;
  std::memcpy(&header, file.data(), sizeof(header));
  for (std::size_t i = first; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::byte* at = file.data() + header.e_shoff + i * sizeof(section);
    std::memcpy(&section, at, sizeof(section));
    section.sh_offset = 0;
    section.sh_size = file.size() / 2;
    std::memcpy(at, &section, sizeof(section));
  }
  return file;
}

}  // namespace spjit::testing_support
