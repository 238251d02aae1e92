#include "tests/support/host/loaded_object.hpp"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/elf_object.hpp"
#include "spjit/error.hpp"
#include "tests/support/files/system_testing.hpp"

namespace spjit {
namespace {

using test::compile_c;
using test::has_program;
using test::permissions_at;
using test::to_bytes;
using testing::HasSubstr;

int times_three(int x) { return 3 * x; }

// Constants in a merged section, a jump table or a lookup table, addresses in constants, a global
// through the GOT, calls inside and outside: the relocations compilers write for small functions.
constexpr const char* k_source = R"(
extern int times_three(int);
extern const int outside;
static const char* const names[] = {"zero", "one", "two"};
float scale(float x) { return x * 1.25f + 3.5f; }
__attribute__((noinline)) int helper(int x) { return times_three(x) + 1; }
int call_out(int x) { return helper(x) * 2; }
const char* name_of(int i) { return names[i]; }
int read_outside(void) { return outside; }
int (*pointer_to_helper(void))(int) { return helper; }
int dispatch(int i, int x) {
  switch (i) {
    case 0: return times_three(x);
    case 1: return x * x;
    case 2: return helper(x);
    case 3: return x - 17;
    case 4: return x ^ 5;
    case 5: return helper(helper(x));
    case 6: return times_three(x) + 6;
    default: return -1;
  }
}
)";

class CompiledObject : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
#if !defined(__x86_64__)
    GTEST_SKIP() << "objects are x86-64";
#endif
    if (!has_program("cc")) GTEST_SKIP() << "no C compiler (cc) on the PATH";
    bytes_ = compile_c(k_source, GetParam());
  }

  [[nodiscard]] const std::vector<std::byte>& bytes() const { return bytes_; }
  [[nodiscard]] SymbolTable externals() const {
    return {{"times_three", reinterpret_cast<void*>(&times_three)},
            {"outside", const_cast<int*>(&outside_)}};
  }

 private:
  std::vector<std::byte> bytes_;
  int outside_ = 4711;
};

TEST_P(CompiledObject, RunsAfterRelocation) {
  const LoadedObject object(bytes(), externals());

  EXPECT_EQ(object.function<float(float)>("scale")(2.0F), 6.0F);
  EXPECT_EQ(object.function<int(int)>("call_out")(5), 32);
  EXPECT_STREQ(object.function<const char*(int)>("name_of")(2), "two");
  EXPECT_EQ(object.function<int()>("read_outside")(), 4711);
  auto* pointer = object.function<int (*())(int)>("pointer_to_helper")();
  EXPECT_EQ(pointer(1), 4);
  auto* dispatch = object.function<int(int, int)>("dispatch");
  EXPECT_EQ(dispatch(0, 2), 6);
  EXPECT_EQ(dispatch(2, 2), 7);
  EXPECT_EQ(dispatch(5, 2), 22);
  EXPECT_EQ(dispatch(9, 2), -1);
}

TEST_P(CompiledObject, CodeIsNotWritableAndConstantsNotExecutable) {
  const LoadedObject object(bytes(), externals());

  EXPECT_EQ(permissions_at(object.symbol("scale")), "r-xp");
  EXPECT_EQ(permissions_at(object.function<const char*(int)>("name_of")(1)), "r--p");
}

TEST_P(CompiledObject, RefusesAMissingSymbolByName) {
  SymbolTable table = externals();
  table.erase("times_three");

  try {
    const LoadedObject object(bytes(), table);
    FAIL() << "loaded with a symbol missing";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("'times_three'"));
  }
}

TEST_P(CompiledObject, SurvivesEveryFlippedByteAndPrefix) {
  std::vector<std::byte> damaged = bytes();
  const SymbolTable table = externals();
  int refused = 0;
  const auto load = [&](std::span<const std::byte> object) {
    try {
      const LoadedObject loaded(object, table);
    } catch (const Error&) {
      ++refused;
    }
  };

  for (std::byte& byte : damaged) {
    byte ^= std::byte{0xFF};
    load(damaged);
    byte ^= std::byte{0xFF};
  }
  for (std::size_t size = 0; size < damaged.size(); size += 7) {
    load(std::vector<std::byte>(damaged.begin(),
                                damaged.begin() + static_cast<std::ptrdiff_t>(size)));
  }

  EXPECT_GT(refused, 100);
}

TEST_P(CompiledObject, RefusesARelocationAgainstNoSymbol) {
  std::vector<std::byte> changed = bytes();
  Elf64_Ehdr header;
  std::memcpy(&header, changed.data(), sizeof(header));
  std::vector<Elf64_Shdr> sections(header.e_shnum);
  std::memcpy(sections.data(), changed.data() + header.e_shoff,
              sections.size() * sizeof(Elf64_Shdr));
  const auto symbols = std::ranges::find(sections, Elf64_Word{SHT_SYMTAB}, &Elf64_Shdr::sh_type);
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_RELA) continue;
    Elf64_Rela first;
    std::memcpy(&first, changed.data() + section.sh_offset, sizeof(first));
    first.r_info = ELF64_R_INFO(symbols->sh_size / sizeof(Elf64_Sym), ELF64_R_TYPE(first.r_info));
    std::memcpy(changed.data() + section.sh_offset, &first, sizeof(first));
  }

  EXPECT_NO_THROW(static_cast<void>(ElfObjectView(bytes())));
  EXPECT_THROW(static_cast<void>(ElfObjectView(changed)), Error);
}

INSTANTIATE_TEST_SUITE_P(Flags, CompiledObject,
                         testing::Values("-O2 -fPIC", "-O0 -fPIC", "-O2 -fPIC -fno-plt",
                                         "-O2 -fPIC -ffunction-sections -fdata-sections -g",
                                         "-O2 -fPIC -fno-jump-tables -Wa,-mrelax-relocations=no"));

TEST(LoadedObject, FindsGlobalAndLocalSymbolsOfAWrittenObject) {
  const std::vector<std::byte> text = to_bytes({0x8D, 0x04, 0x37, 0xC3});
  const std::vector<std::byte> data = to_bytes("constants");
  const std::vector<std::byte> bytes = write_elf_object(
      {.sections = {{.name = ".text", .bytes = text, .executable = true},
                    {.name = ".rodata", .bytes = data}},
       .symbols = {{.name = "add", .section = ".text", .size = 4},
                   {.name = "add",
                    .section = ".rodata",
                    .kind = ElfSymbolKind::object,
                    .binding = ElfBinding::local},
                   {.name = "inner", .section = ".rodata", .binding = ElfBinding::local}},
       .source_name = {}});

  const LoadedObject object(bytes);

  EXPECT_EQ(permissions_at(object.symbol("add")), "r-xp");
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(object.symbol("add")) % 64, 0U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(object.symbol("inner")) % 64, 0U);
  EXPECT_EQ(permissions_at(object.symbol("inner")), "r--p");
  EXPECT_EQ(object.find_symbol("absent"), nullptr);
  EXPECT_THROW(static_cast<void>(object.symbol("absent")), InvalidArgument);
}

TEST(LoadedObject, MovingKeepsTheAddresses) {
  const std::vector<std::byte> text = to_bytes({0xC3});
  LoadedObject first(
      write_elf_object({.sections = {{.name = ".text", .bytes = text, .executable = true}},
                        .symbols = {{.name = "f", .section = ".text", .size = 1}},
                        .source_name = {}}));
  void* address = first.symbol("f");

  const LoadedObject second = std::move(first);

  EXPECT_EQ(second.symbol("f"), address);
  EXPECT_EQ(permissions_at(address), "r-xp");
}

TEST(LoadedObject, LoadsAnObjectWithNothingInIt) {
  const LoadedObject object(write_elf_object({}));

  EXPECT_EQ(object.mapped_bytes(), 0U);
}

TEST(LoadedObject, RefusesWritableState) {
  if (!has_program("cc")) GTEST_SKIP() << "no C compiler (cc) on the PATH";
  const auto bytes = compile_c("int counter; int next(void) { return ++counter; }", "-O2 -fPIC");

  EXPECT_THROW(static_cast<void>(LoadedObject(bytes)), NotSupported);
}

TEST(LoadedObject, RefusesAddressesThatDoNotFit) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "objects are x86-64";
#endif
  if (!has_program("cc")) GTEST_SKIP() << "no C compiler (cc) on the PATH";
  const auto bytes =
      compile_c("const char* text(void) { return \"text\"; }", "-O2 -fno-pic -fno-pie");

  try {
    const LoadedObject object(bytes);
    FAIL() << "loaded an absolute 32-bit address";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("does not fit 32 bits"));
  }
}

TEST(LoadedObject, RefusesThreadLocalAndIndirectFunctions) {
  if (!has_program("cc")) GTEST_SKIP() << "no C compiler (cc) on the PATH";
  const auto tls = compile_c("__thread int x; int f(void) { return ++x; }", "-O2 -fPIC");
  const auto indirect = compile_c(
      "static int g(void) { return 1; } static int (*r(void))(void) { return g; }\n"
      "int f(void) __attribute__((ifunc(\"r\")));",
      "-O2 -fPIC");

  EXPECT_THROW(static_cast<void>(LoadedObject(tls)), NotSupported);
  EXPECT_THROW(static_cast<void>(LoadedObject(indirect)), NotSupported);
}

}  // namespace
}  // namespace spjit
