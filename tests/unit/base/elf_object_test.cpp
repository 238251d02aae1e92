#include "base/elf_object.hpp"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "spjit/error.hpp"
#include "tests/support/files/system_testing.hpp"
#include "tests/support/host/elf_testing.hpp"
#include "tests/support/host/loaded_object.hpp"

namespace spjit {
namespace {

using test::has_program;
using test::run_command;
using test::to_bytes;
using testing::HasSubstr;

// lea eax, [rdi + rsi]; ret
const std::vector<std::byte> k_add_bytes = to_bytes({0x8D, 0x04, 0x37, 0xC3});
const std::vector<std::byte> k_constants = to_bytes("sixteen bytes...");

ElfObject small_object() {
  return {.sections = {{.name = ".text", .bytes = k_add_bytes, .executable = true},
                       {.name = ".rodata", .bytes = k_constants}},
          .symbols = {{.name = "spjit_test_add", .section = ".text", .size = 4},
                      {.name = "local_label",
                       .section = ".text",
                       .offset = 3,
                       .kind = ElfSymbolKind::none,
                       .binding = ElfBinding::local},
                      {.name = "spjit_test_constants",
                       .section = ".rodata",
                       .size = 16,
                       .kind = ElfSymbolKind::object}},
          .source_name = "spjit test"};
}

/// The object with its last symbol changed.
template <class Change>
std::vector<std::byte> with_last_symbol(std::vector<std::byte> bytes, const Change& change) {
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  for (std::size_t i = 1; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, bytes.data() + header.e_shoff + i * sizeof(section), sizeof(section));
    if (section.sh_type != SHT_SYMTAB) continue;
    Elf64_Sym symbol;
    std::byte* const last = bytes.data() + section.sh_offset + section.sh_size - sizeof(symbol);
    std::memcpy(&symbol, last, sizeof(symbol));
    change(symbol);
    std::memcpy(last, &symbol, sizeof(symbol));
  }
  return bytes;
}

/// True if `bytes` load or are refused with one of the project's errors; anything else escapes.
bool loads_or_throws(std::span<const std::byte> bytes) {
  try {
    const LoadedObject object(bytes);
  } catch (const Error&) {
    return true;
  }
  return true;
}

TEST(ElfObject, ReadsBackWhatItWrote) {
  const std::vector<std::byte> bytes = write_elf_object(small_object());

  const ElfObjectView view(bytes);

  const ElfSectionView* text = view.find_section(".text");
  ASSERT_NE(text, nullptr);
  EXPECT_TRUE(std::ranges::equal(text->bytes, k_add_bytes));
  EXPECT_TRUE(text->allocated() && text->executable() && !text->writable());
  EXPECT_EQ(text->alignment, 64U);
  const ElfSectionView* rodata = view.find_section(".rodata");
  ASSERT_NE(rodata, nullptr);
  EXPECT_TRUE(std::ranges::equal(rodata->bytes, k_constants));
  EXPECT_TRUE(rodata->allocated() && !rodata->executable() && !rodata->writable());
  const ElfSectionView* note = view.find_section(".note.GNU-stack");
  ASSERT_NE(note, nullptr);
  EXPECT_FALSE(note->executable());
  const ElfSymbolView* label = view.find_symbol("local_label");
  ASSERT_NE(label, nullptr);
  EXPECT_EQ(label->value, 3U);
  EXPECT_EQ(view.find_symbol("absent"), nullptr);
  EXPECT_TRUE(view.relocations().empty());
}

TEST(ElfObject, TheSameInputGivesTheSameBytes) {
  EXPECT_EQ(write_elf_object(small_object()), write_elf_object(small_object()));
}

TEST(ElfObject, WritesAnEmptyObject) {
  const std::vector<std::byte> bytes = write_elf_object({});

  EXPECT_EQ(ElfObjectView(bytes).symbols().size(), 1U);
}

TEST(ElfObject, KeepsLargeAlignmentsInTheFile) {
  ElfObject object = small_object();
  object.sections[1].alignment = 4096;

  const std::vector<std::byte> bytes = write_elf_object(object);

  const ElfObjectView view(bytes);
  EXPECT_EQ((view.find_section(".rodata")->bytes.data() - bytes.data()) % 4096, 0);
  EXPECT_EQ((view.find_section(".text")->bytes.data() - bytes.data()) % 64, 0);
}

TEST(ElfObject, RefusesWhatCannotBeWritten) {
  const auto refuses = [](auto change) {
    ElfObject object = small_object();
    change(object);
    EXPECT_THROW(static_cast<void>(write_elf_object(object)), InvalidArgument);
  };

  refuses([](ElfObject& o) { o.sections[1].name = ".text"; });
  refuses([](ElfObject& o) { o.sections[1].name = ""; });
  refuses([](ElfObject& o) { o.sections[1].name = ".symtab"; });
  refuses([](ElfObject& o) { o.sections[1].name = std::string("a\0b", 3); });
  refuses([](ElfObject& o) { o.sections[1].alignment = 0; });
  refuses([](ElfObject& o) { o.sections[1].alignment = 48; });
  refuses([](ElfObject& o) { o.sections[1].alignment = 8192; });
  refuses([](ElfObject& o) { o.symbols[0].section = ".absent"; });
  refuses([](ElfObject& o) { o.symbols[0].name = ""; });
  refuses([](ElfObject& o) { o.symbols[0].offset = 1; });
  refuses([](ElfObject& o) { o.symbols[0].offset = ~0ULL; });
  refuses([](ElfObject& o) { o.symbols[0].size = ~0ULL; });
  refuses([](ElfObject& o) { o.symbols[2].name = "spjit_test_add"; });
  refuses([](ElfObject& o) { o.source_name = std::string("a\0b", 3); });
}

TEST(ElfObjectView, RefusesEveryPrefix) {
  const std::vector<std::byte> bytes = write_elf_object(small_object());

  for (std::size_t size = 0; size < bytes.size(); ++size) {
    // A copy of its own, so that a sanitizer sees a read past its end.
    const std::vector<std::byte> prefix(bytes.begin(),
                                        bytes.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_THROW(static_cast<void>(ElfObjectView(prefix)), Error) << size;
  }
}

TEST(ElfObjectView, SurvivesEveryFlippedBit) {
  std::vector<std::byte> bytes = write_elf_object(small_object());

  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_TRUE(loads_or_throws(bytes));
    bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
  }
}

TEST(ElfObjectView, SurvivesEveryByteSetToExtremes) {
  std::vector<std::byte> bytes = write_elf_object(small_object());

  for (std::byte& byte : bytes) {
    const std::byte original = byte;
    for (const int value : {0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF}) {
      byte = static_cast<std::byte>(value);
      EXPECT_TRUE(loads_or_throws(bytes));
    }
    byte = original;
  }
}

TEST(ElfObjectView, RefusesSectionsThatOverlap) {
  const auto bytes =
      testing_support::with_overlapping_sections(write_elf_object(small_object()), 1);

  try {
    const ElfObjectView view(bytes);
    FAIL() << "sections of more bytes than the file were read";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("its sections are longer than the file"));
  }
}

TEST(ElfObjectView, RefusesNamesThatShareTheirBytesBeyondTheFile) {
  ElfObject object = small_object();
  const std::string long_name(5000, 'n');
  object.symbols = {{.name = long_name, .section = ".text"}};
  for (int i = 0; i < 100; ++i) {
    object.symbols.push_back({.name = std::to_string(i), .section = ".text"});
  }
  std::vector<std::byte> bytes = write_elf_object(object);
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  std::uint32_t name = 0;
  for (std::size_t i = 1; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, bytes.data() + header.e_shoff + i * sizeof(section), sizeof(section));
    if (section.sh_type != SHT_SYMTAB) continue;
    // All get the name of the first, which is the long one.
    for (std::uint64_t at = sizeof(Elf64_Sym); at < section.sh_size; at += sizeof(Elf64_Sym)) {
      Elf64_Sym symbol;
      std::memcpy(&symbol, bytes.data() + section.sh_offset + at, sizeof(symbol));
      if (ELF64_ST_BIND(symbol.st_info) != STB_GLOBAL) continue;
      if (name == 0) name = symbol.st_name;
      symbol.st_name = name;
      std::memcpy(bytes.data() + section.sh_offset + at, &symbol, sizeof(symbol));
    }
  }

  try {
    const ElfObjectView view(bytes);
    FAIL() << "101 names of 5000 bytes were read from " << bytes.size() << " bytes";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("its names are longer than the file"));
  }
}

TEST(ElfObjectView, RefusesASymbolThatEndsBehindItsSection) {
  const auto bytes = with_last_symbol(write_elf_object(small_object()), [](Elf64_Sym& symbol) {
    symbol.st_value = 1;  // of 16 bytes, as many as the section has
  });

  EXPECT_THROW(static_cast<void>(ElfObjectView(bytes)), Error);
}

TEST(ElfObjectView, SaysWhatIsWrong) {
  std::vector<std::byte> bytes = write_elf_object(small_object());
  bytes[18] = std::byte{0xB7};  // e_machine: AArch64

  try {
    const ElfObjectView view(bytes);
    FAIL() << "accepted an object of another machine";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("machine 183, expected 62"));
  }
}

TEST(ElfObject, LinksIntoACProgram) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "the code is x86-64";
#endif
  if (!has_program("cc")) GTEST_SKIP() << "no C compiler (cc) on the PATH";
  const test::ScratchDirectory directory;
  const std::string object = directory.path() / "small.o";
  const std::string source = directory.path() / "main.c";
  const std::string program = directory.path() / "program";
  test::write_bytes(object, write_elf_object(small_object()));
  test::write_bytes(source, to_bytes("int spjit_test_add(int, int);\n"
                                     "extern const char spjit_test_constants[16];\n"
                                     "int main(void) { return spjit_test_add(30, 4) +\n"
                                     "    (spjit_test_constants[0] == 's') +\n"
                                     "    ((unsigned long)spjit_test_constants % 64 != 0); }\n"));

  const auto linked = run_command("cc -Wall -Werror -Wl,--fatal-warnings " + source + " " + object +
                                  " -o " + program);

  ASSERT_EQ(linked.exit_code, 0) << linked.output;
  EXPECT_EQ(linked.output, "");
  EXPECT_EQ(run_command(program).exit_code, 35);
}

TEST(ElfObject, BinutilsFindNothingToWarnOf) {
  if (!has_program("readelf") || !has_program("objdump")) {
    GTEST_SKIP() << "no readelf or objdump on the PATH";
  }
  const test::ScratchDirectory directory;
  const std::string object = directory.path() / "small.o";
  test::write_bytes(object, write_elf_object(small_object()));

  const auto warnings = run_command("readelf -aW " + object + " >/dev/null");
  const auto symbols = run_command("readelf -sW " + object);
  const auto code = run_command("objdump -d " + object);

  EXPECT_EQ(warnings.exit_code, 0);
  EXPECT_EQ(warnings.output, "");
  EXPECT_THAT(symbols.output, HasSubstr("FUNC    GLOBAL DEFAULT    1 spjit_test_add"));
  EXPECT_THAT(symbols.output, HasSubstr("OBJECT  GLOBAL DEFAULT    2 spjit_test_constants"));
  EXPECT_EQ(code.exit_code, 0);
  EXPECT_THAT(code.output, HasSubstr("<spjit_test_add>"));
  EXPECT_THAT(code.output, HasSubstr("(%rdi,%rsi,1),%eax"));
}

}  // namespace
}  // namespace spjit
