#include "sass/cubin_code.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "spjit/error.hpp"
#include "tests/support/cuda/cubin_writer.hpp"
#include "tests/support/cuda/sass_golden.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;
using sass::CubinCode;
using sass::RelocationKind;
using testing::HasSubstr;

constexpr std::uint64_t k_code_flags = SHF_ALLOC | SHF_EXECINSTR;

Content code_of(const std::vector<std::string>& encodings) {
  Content bytes;
  for (const std::string& text : encodings) append(bytes, parse_encoding(text));
  return bytes;
}

const std::string k_move = "000fc60000000f000000000000047802";  // MOV R4, 0x0
const std::string k_call = "000fea0003c000000000000000007943";  // CALL.ABS.NOINC 0x0
const std::string k_exit = "000fea0003800000000000000000794d";
const std::string k_nop = "000fc000000000000000000000007918";

template <class Entry>
Content entry_of(std::uint64_t offset, std::uint32_t type, std::uint32_t symbol) {
  Entry entry = {};
  entry.r_offset = offset;
  entry.r_info = ELF64_R_INFO(std::uint64_t{symbol}, type);
  Content bytes;
  append(bytes, entry);
  return bytes;
}

/// Kernel `spmm` calls `tile` and takes the address of `table` and its own; both are patched in.
TestCubin patched_cubin() {
  Elf64_Rela own = {};
  own.r_info = ELF64_R_INFO(std::uint64_t{1}, 57);
  own.r_addend = 0x20;
  Content patches = entry_of<Elf64_Rela>(16, 75, 2);
  append(patches, own);
  TestCubin cubin;
  cubin.symbols = {{"spmm", 0x10},
                   {"tile", 0, k_first_section + 1},
                   {"half", 0, k_first_section + 1, STT_FUNC, 16, 16},
                   {"table", 0, k_first_section + 5, STT_OBJECT, 4, 8}};
  cubin.sections = {
      {".text.spmm", SHT_PROGBITS, k_code_flags, code_of({k_move, k_call, k_exit}), 0, 0},
      {".text.tile", SHT_PROGBITS, k_code_flags, code_of({k_nop, k_exit}), 0, 0},
      {".nv.info", SHT_LOPROC, 0, join({record(0x2f, {1, 42}), record(0x2f, {2, 40})}), 0, 0},
      {".nv.info.spmm", SHT_LOPROC, 0,
       join({record(0x0a, {5, 20U << 16 | 0x210}), record(0x17, {0, 8U << 16 | 1, 8U << 18}),
             record(0x17, {0, 0, 4U << 18}), short_record(0x19, 16)}),
       0, 0},
      {".nv.constant2.spmm", SHT_PROGBITS, SHF_ALLOC, Content(16, 7), 0, 0},
      {".nv.global.init", SHT_PROGBITS, SHF_ALLOC, Content(12, 9), 0, 0},
      {".nv.constant4", SHT_PROGBITS, SHF_ALLOC, Content(8, 0), 0, 0},
      {".rela.text.spmm", SHT_RELA, 0, patches, 0, k_first_section},
      {".rel.nv.constant4", SHT_REL, 0, entry_of<Elf64_Rel>(0, 2, 4), 0, k_first_section + 6}};
  return cubin;
}

CubinCode read(const TestCubin& cubin) { return sass::read_cubin_code(write_cubin(cubin)); }

std::string refusal_of_code(const TestCubin& cubin) {
  try {
    static_cast<void>(read(cubin));
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(CubinCode, HasFunctionsWithTheirInstructions) {
  const CubinCode code = read(patched_cubin());

  EXPECT_EQ(code.arch(), 90);
  ASSERT_EQ(code.functions.size(), 2U);
  EXPECT_EQ(code.functions[0].name, "spmm");
  ASSERT_EQ(code.functions[0].instructions.size(), 3U);
  EXPECT_EQ(to_text(code.functions[0].instructions[2]), "EXIT");
  EXPECT_EQ(code.functions[0].instructions[2].offset, 32U);
  ASSERT_NE(code.find_function("tile"), nullptr);
  EXPECT_EQ(code.find_function("tile")->instructions.size(), 2U);
  EXPECT_EQ(code.find_function("half"), nullptr);
}

TEST(CubinCode, NamesPlacesByTheNearestLabel) {
  const CubinCode code = read(patched_cubin());

  EXPECT_EQ(code.functions[1].place(0), "tile+0x0");
  EXPECT_EQ(code.functions[1].place(16), "half+0x0");
  EXPECT_EQ(code.functions[1].place(24), "half+0x8");
}

TEST(CubinCode, HasWhatIsPatchedWhenItIsLoaded) {
  const CubinCode code = read(patched_cubin());

  const auto& patches = code.functions[0].relocations;
  ASSERT_EQ(patches.size(), 2U);
  EXPECT_EQ(patches[0].kind, RelocationKind::call55);
  EXPECT_EQ(patches[0].offset, 16U);
  EXPECT_EQ(patches[0].symbol, "tile");
  EXPECT_EQ(patches[0].section, code.functions[1].section);
  EXPECT_EQ(patches[0].value, 0);
  EXPECT_EQ(patches[1].kind, RelocationKind::high32);
  EXPECT_EQ(patches[1].value, 0x20);
  EXPECT_TRUE(code.functions[1].relocations.empty());
}

TEST(CubinCode, HasConstantsAndVariables) {
  const CubinCode code = read(patched_cubin());

  ASSERT_EQ(code.constants.size(), 2U);
  EXPECT_EQ(code.constants[0].bank, 2);
  EXPECT_EQ(code.constants[0].kernel, "spmm");
  EXPECT_EQ(code.constants[0].bytes.size(), 16U);
  EXPECT_EQ(code.constants[1].bank, 4);
  EXPECT_EQ(code.constants[1].kernel, "");
  ASSERT_EQ(code.constants[1].relocations.size(), 1U);
  EXPECT_EQ(code.constants[1].relocations[0].symbol, "table");
  EXPECT_EQ(code.constants[1].relocations[0].value, 4);
  ASSERT_EQ(code.globals.size(), 1U);
  EXPECT_EQ(code.globals[0].bytes.size(), 12U);
  ASSERT_EQ(code.variables.size(), 1U);
  EXPECT_EQ(code.variables[0].name, "table");
  EXPECT_EQ(code.variables[0].offset, 4U);
}

TEST(CubinCode, HasAKernelsParameters) {
  const CubinCode code = read(patched_cubin());
  const CubinKernel& kernel = code.info.kernels.at(0);

  EXPECT_EQ(kernel.parameter_base, 0x210);
  ASSERT_EQ(kernel.parameters.size(), 2U);
  EXPECT_EQ(kernel.parameters[0].size, 4);
  EXPECT_EQ(kernel.parameters[1].offset, 8);
  EXPECT_EQ(kernel.parameters[1].size, 8);
}

TEST(CubinCode, RefusesParametersOfWhichOneIsMissing) {
  TestCubin cubin = patched_cubin();
  cubin.sections[3].content = record(0x17, {0, 8U << 16 | 1, 8U << 18});

  EXPECT_THAT(refusal_of_code(cubin), HasSubstr("a parameter has the number 1, not 0"));
}

TEST(CubinCode, RefusesWhatItDoesNotKnow) {
  TestCubin instruction = patched_cubin();
  instruction.sections[1].content[0] = 0xff;
  EXPECT_THAT(refusal_of_code(instruction), HasSubstr(".text.tile+0x0: unknown instruction"));
  TestCubin newer = patched_cubin();
  newer.flags = 0x06007804;
  EXPECT_THAT(refusal_of_code(newer), HasSubstr("the machine code of sm_120 is not known"));
  TestCubin relocation = patched_cubin();
  relocation.sections[8].content = entry_of<Elf64_Rel>(0, 99, 4);
  EXPECT_THAT(refusal_of_code(relocation), HasSubstr(".nv.constant4+0x0: relocation 99"));
}

TEST(CubinCode, RefusesBrokenRelocations) {
  TestCubin symbol = patched_cubin();
  symbol.sections[8].content = entry_of<Elf64_Rel>(0, 2, 5);
  EXPECT_THAT(refusal_of_code(symbol), HasSubstr("symbol 5 of 5"));
  TestCubin offset = patched_cubin();
  offset.sections[8].content = entry_of<Elf64_Rel>(8, 2, 4);
  EXPECT_THAT(refusal_of_code(offset), HasSubstr("patches byte 8 of 8"));
  TestCubin end = patched_cubin();
  end.sections[8].content = entry_of<Elf64_Rel>(4, 2, 4);
  EXPECT_THAT(refusal_of_code(end), HasSubstr("reaches past its end"));
  TestCubin section = patched_cubin();
  section.sections[8].info = 99;
  EXPECT_THAT(refusal_of_code(section), HasSubstr("patches section 99 of 13"));
  TestCubin partial = patched_cubin();
  partial.sections[8].content.pop_back();
  EXPECT_THAT(refusal_of_code(partial), HasSubstr("15 bytes in entries of 16"));
}

}  // namespace
