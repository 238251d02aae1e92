#include "runtime/cuda/cubin_info.hpp"

#include <elf.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/file_bytes.hpp"
#include "spjit/error.hpp"
#include "tests/support/cuda/cubin_writer.hpp"
#include "tests/support/host/elf_testing.hpp"

namespace {

using spjit::CubinInfo;
using spjit::CubinKernel;
using testing::HasSubstr;

using namespace spjit::testing_support;

constexpr std::uint64_t k_code = SHF_ALLOC | SHF_EXECINSTR;

/// Kernel `spmm` calls the device function `tile`, which has a stack frame of 24 bytes.
TestCubin small_cubin() {
  TestCubin cubin;
  cubin.symbols = {{"spmm", 0x10}, {"tile", 0}};
  cubin.sections = {
      {".text.spmm", SHT_PROGBITS, k_code, Content(256, 0x90), 0},
      {".text.tile", SHT_PROGBITS, k_code, Content(128, 0x90), 0},
      {".nv.info", SHT_LOPROC, 0,
       join({record(0x2f, {1, 42}), record(0x11, {1, 8}), record(0x12, {1, 32}),
             record(0x2f, {2, 40}), record(0x11, {2, 24})}),
       0},
      {".nv.info.spmm", SHT_LOPROC, 0,
       join({record(0x05, {128, 2, 1}), short_record(0x19, 20), short_record(0x1b, 255)}), 0},
      {".nv.shared.spmm", SHT_NOBITS, SHF_ALLOC | SHF_WRITE, {}, 1024 + 512},
      {".nv.constant0.spmm", SHT_PROGBITS, SHF_ALLOC, Content(548, 0), 0},
      {".nv.constant2.spmm", SHT_PROGBITS, SHF_ALLOC, Content(16, 0), 0}};
  return cubin;
}

std::string error_of(const TestCubin& cubin) {
  try {
    (void)spjit::read_cubin_info(write_cubin(cubin));
  } catch (const spjit::Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(CubinInfo, HasTheResourcesOfAKernel) {
  const CubinInfo info = spjit::read_cubin_info(write_cubin(small_cubin()));

  EXPECT_EQ(info.arch, 90);
  EXPECT_FALSE(info.relocatable);
  EXPECT_EQ(info.code_bytes, 256 + 128);
  ASSERT_EQ(info.kernels.size(), 1U);
  const CubinKernel& kernel = info.kernels[0];
  EXPECT_EQ(kernel.name, "spmm");
  EXPECT_EQ(kernel.registers, 42);
  EXPECT_EQ(kernel.static_shared_bytes, 512);
  EXPECT_EQ(kernel.frame_bytes, 8);
  EXPECT_EQ(kernel.stack_bytes, 32);
  EXPECT_EQ(kernel.max_threads, 256);
  EXPECT_EQ(kernel.parameter_bytes, 20);
  EXPECT_EQ(kernel.constant_bytes, 548 + 16);
  EXPECT_EQ(kernel.code_bytes, 256);
}

TEST(CubinInfo, TellsDeviceFunctionsFromKernels) {
  const CubinInfo info = spjit::read_cubin_info(write_cubin(small_cubin()));

  ASSERT_EQ(info.functions.size(), 1U);
  EXPECT_EQ(info.functions[0].name, "tile");
  EXPECT_EQ(info.functions[0].registers, 40);
  EXPECT_EQ(info.functions[0].frame_bytes, 24);
  EXPECT_EQ(info.find_kernel("spmm"), info.kernels.data());
  EXPECT_EQ(info.find_kernel("tile"), nullptr);
}

TEST(CubinInfo, KnowsBothLayoutsOfTheArchitecture) {
  TestCubin cubin = small_cubin();
  cubin.flags = 0x06007802;
  EXPECT_EQ(spjit::read_cubin_info(write_cubin(cubin)).arch, 120);

  cubin.os_abi = 0x33;
  cubin.abi_version = 7;
  cubin.flags = 0x004b054b;
  EXPECT_EQ(spjit::read_cubin_info(write_cubin(cubin)).arch, 75);
}

TEST(CubinInfo, SharedMemoryLeavesTheReserveOut) {
  TestCubin cubin = small_cubin();
  cubin.flags = 0x06005004;  // sm_80 keeps the reserve out of the section
  EXPECT_EQ(spjit::read_cubin_info(write_cubin(cubin)).kernels.at(0).static_shared_bytes, 1536);

  cubin = small_cubin();
  cubin.type = ET_REL;
  cubin.sections[4].type = SHT_LOPROC + 0xa;  // as relocatable objects have it
  EXPECT_EQ(spjit::read_cubin_info(write_cubin(cubin)).kernels.at(0).static_shared_bytes, 1536);
  EXPECT_TRUE(spjit::read_cubin_info(write_cubin(cubin)).relocatable);
}

TEST(CubinInfo, WithoutACallChainTheStackIsTheFrame) {
  TestCubin cubin = small_cubin();
  cubin.sections[2].content = join({record(0x2f, {1, 42}), record(0x11, {1, 8})});

  const CubinInfo info = spjit::read_cubin_info(write_cubin(cubin));

  EXPECT_EQ(info.kernels.at(0).stack_bytes, 8);
  EXPECT_TRUE(info.functions.empty());
}

std::vector<std::byte> seed_cubin(const std::string& name) {
  return spjit::read_file(std::string(SPJIT_SOURCE_DIR) + "/tests/fuzz/seeds/cubin/" + name);
}

TEST(CubinInfo, ReadsWhatNvccWrites) {
  // Of tests/fuzz/seed_kernel.cu.
  for (const auto& cubin : {"sm_75.cubin", "sm_90.cubin", "sm_90_relocatable.cubin"}) {
    SCOPED_TRACE(cubin);

    const CubinInfo info = spjit::read_cubin_info(seed_cubin(cubin));

    ASSERT_EQ(info.kernels.size(), 1U);
    EXPECT_EQ(info.kernels[0].name, "scale");
    EXPECT_EQ(info.kernels[0].max_threads, 128);
    EXPECT_EQ(info.kernels[0].static_shared_bytes, 512);
    EXPECT_EQ(info.kernels[0].parameter_bytes, 20);
  }
}

TEST(CubinInfo, RefusesTwoKernelsOfOneName) {
  TestCubin cubin = small_cubin();
  cubin.symbols = {{"spmm", 0x10}, {"spmm", 0x10}};

  EXPECT_THAT(error_of(cubin), HasSubstr("two kernels are called spmm"));
}

TEST(CubinInfo, RefusesSectionsThatOverlap) {
  const std::vector<std::byte> cubin =
      spjit::testing_support::with_overlapping_sections(write_cubin(small_cubin()), 4);

  EXPECT_THROW(
      {
        try {
          (void)spjit::read_cubin_info(cubin);
        } catch (const spjit::Error& error) {
          EXPECT_THAT(error.what(), HasSubstr("its sections are longer than the file"));
          throw;
        }
      },
      spjit::Error);
}

TEST(CubinInfo, RefusesNamesThatShareTheirBytesBeyondTheFile) {
  TestCubin cubin = small_cubin();
  cubin.symbols.assign(300, {std::string(200, 'f'), 0});
  std::vector<std::byte> bytes = write_cubin(cubin);
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  Elf64_Shdr table;
  std::memcpy(&table, bytes.data() + header.e_shoff + 3 * sizeof(table), sizeof(table));
  // All symbols get the first name.
  for (std::size_t i = 1; i <= cubin.symbols.size(); ++i) {
    const std::uint32_t first_name = 1;
    std::memcpy(bytes.data() + table.sh_offset + i * sizeof(Elf64_Sym), &first_name, 4);
  }
  const auto names_fit = [&bytes] {
    try {
      (void)spjit::read_cubin_info(bytes);
    } catch (const spjit::Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("its names are longer than the file"));
      return false;
    }
    return true;
  };

  EXPECT_TRUE(names_fit());  // 300 names of 200 bytes: as many as the table still has
  Elf64_Shdr strings;
  std::memcpy(&strings, bytes.data() + header.e_shoff + 2 * sizeof(strings), sizeof(strings));
  for (std::uint64_t at = 1; at + 2 < strings.sh_size; ++at) {
    bytes[strings.sh_offset + at] = std::byte{'f'};  // one name of 60 KB, 300 times
  }
  EXPECT_FALSE(names_fit());
}

TEST(CubinInfo, NamesWhatIsWrong) {
  TestCubin cubin = small_cubin();
  cubin.os_abi = 0;
  EXPECT_THAT(error_of(cubin), HasSubstr("OS ABI 0x0 version 8"));

  cubin = small_cubin();
  cubin.flags = 0;
  EXPECT_THAT(error_of(cubin), HasSubstr("name no architecture"));

  cubin = small_cubin();
  cubin.type = ET_DYN;
  EXPECT_THAT(error_of(cubin), HasSubstr("type 3"));

  cubin = small_cubin();
  cubin.sections[0].name = ".text.other";
  EXPECT_THAT(error_of(cubin), HasSubstr("kernel spmm has no code"));

  cubin = small_cubin();
  cubin.sections[3].name = ".nv.info.other";
  EXPECT_THAT(error_of(cubin), HasSubstr("kernel spmm has no .nv.info"));

  cubin = small_cubin();
  cubin.sections[2].content = record(0x11, {1, 8});
  EXPECT_THAT(error_of(cubin), HasSubstr("no register count for spmm"));

  cubin = small_cubin();
  cubin.sections[2].content = record(0x2f, {3, 42});
  EXPECT_THAT(error_of(cubin), HasSubstr(".nv.info names symbol 3 of 3"));

  cubin = small_cubin();
  cubin.sections[2].content = record(0x2f, {1});
  EXPECT_THAT(error_of(cubin), HasSubstr("attribute 0x2f at byte 4 with 4 bytes reaches past"));

  cubin = small_cubin();
  cubin.sections[3].content = {9, 1, 0, 0};
  EXPECT_THAT(error_of(cubin), HasSubstr("record of form 9"));

  cubin = small_cubin();
  cubin.sections[3].content = record(0x05, {4096, 1, 1});
  EXPECT_THAT(error_of(cubin), HasSubstr("4096 threads in one dimension"));

  cubin = small_cubin();
  cubin.sections[4].memory_bytes = std::uint64_t{1} << 63;
  EXPECT_THAT(error_of(cubin), HasSubstr("bytes of shared memory for spmm"));
}

TEST(CubinInfo, OtherFilesAreNoCubins) {
  EXPECT_THROW((void)spjit::read_cubin_info({}), spjit::Error);
  const std::vector<std::byte> text(4096, std::byte{'x'});
  EXPECT_THROW((void)spjit::read_cubin_info(text), spjit::Error);
}

TEST(CubinInfo, EveryTruncationIsAnError) {
  const std::vector<std::byte> cubin = write_cubin(small_cubin());

  for (std::size_t size = 0; size < cubin.size(); ++size) {
    // A copy of exactly that size, so that a sanitizer sees a read past its end.
    const std::vector<std::byte> part(cubin.begin(),
                                      cubin.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_THROW((void)spjit::read_cubin_info(part), spjit::Error) << size;
  }
}

TEST(CubinInfo, NoChangedByteCrashesTheReader) {
  const std::vector<std::byte> cubin = write_cubin(small_cubin());
  std::int64_t refused = 0;

  for (std::size_t i = 0; i < cubin.size(); ++i) {
    for (const int mask : {1, 2, 4, 8, 16, 32, 64, 128, 255}) {
      std::vector<std::byte> changed = cubin;
      changed[i] ^= static_cast<std::byte>(mask);
      try {
        (void)spjit::read_cubin_info(changed);
      } catch (const spjit::Error&) {
        ++refused;
      }
    }
  }

  EXPECT_GT(refused, 0);
}

}  // namespace
