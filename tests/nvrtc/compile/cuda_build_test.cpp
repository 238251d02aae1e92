#include "kernels/cuda/build/cuda_build.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "compiler_libraries.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

using ::testing::HasSubstr;

std::string build(const std::vector<SourceUnit>& units, int arch = 80, int threads = 0) {
  return build_cubin(units, test::toolchain(), {.arch = arch, .threads = threads});
}

// A caller of `parts` functions, each in a unit of its own.
std::vector<SourceUnit> program_of(int parts) {
  std::string caller;
  std::string calls;
  std::vector<SourceUnit> units(1);
  for (int i = 0; i < parts; ++i) {
    const std::string name = "part_" + std::to_string(i);
    caller += "extern \"C\" __device__ float " + name + "(float);\n";
    calls += "  x = " + name + "(x);\n";
    units.push_back(test::cuda_unit(name, "extern \"C\" __device__ float " + name +
                                              "(float x) { return __fmaf_rn(x, " +
                                              std::to_string(i) + ".25f, x); }\n"));
  }
  units[0] = test::cuda_unit("caller", caller + "extern \"C\" __global__ void all(float* p) {\n" +
                                           "  float x = *p;\n" + calls + "  *p = x;\n}\n");
  return units;
}

TEST(CudaBuild, CompilesOneUnitWithoutLinking) {
  SPJIT_SKIP_WITHOUT_TOOLCHAIN(test::k_both);

  const std::string built = build({test::cuda_unit("saxpy", test::saxpy_source())});

  EXPECT_EQ(test::arch_of_cubin(built), 80);
}

TEST(CudaBuild, AssemblesPtxForDevicesNewerThanItsTarget) {
  SPJIT_SKIP_WITHOUT_TOOLCHAIN(test::k_both);
  const CudaToolchain toolchain = test::toolchain();

  for (const int arch : {75, 80, 90, 100, 120}) {
    if (!toolchain.nvjitlink->supports(arch)) continue;
    const std::string built = build({test::ptx_unit("caller", test::ptx_caller()),
                                     test::ptx_unit("twice", test::ptx_function())},
                                    arch);

    EXPECT_EQ(test::arch_of_cubin(built), arch);
    EXPECT_THAT(built, HasSubstr(".text.caller"));
  }
}

TEST(CudaBuild, LinksUnitsOfBothLanguages) {
  SPJIT_SKIP_WITHOUT_TOOLCHAIN(test::k_both);
  const std::string caller =
      "extern \"C\" __device__ float twice(float);\n"
      "extern \"C\" __global__ void mixed(float* p) { *p = twice(*p); }\n";

  const std::string built =
      build({test::cuda_unit("mixed", caller), test::ptx_unit("twice", test::ptx_function())});

  EXPECT_THAT(built, HasSubstr(".text.mixed"));
  EXPECT_THAT(built, HasSubstr("twice"));
}

TEST(CudaBuild, GivesTheSameCubinForAnyNumberOfThreads) {
  SPJIT_SKIP_WITHOUT_TOOLCHAIN(test::k_both);
  const std::vector<SourceUnit> units = program_of(6);

  const std::string alone = build(units, 80, 1);
  const std::string together = build(units, 80, 4);

  EXPECT_EQ(alone, together);
}

TEST(CudaBuild, NamesTheFirstUnitThatFailsAndKeepsItsLog) {
  SPJIT_SKIP_WITHOUT_TOOLCHAIN(test::k_both);
  std::vector<SourceUnit> units = program_of(5);
  units[2].text = "second is wrong";
  units[4].text = "fourth is wrong";

  for (const int threads : {1, 4}) {
    try {
      static_cast<void>(build(units, 80, threads));
      FAIL() << "built";
    } catch (const CompileFailed& error) {
      EXPECT_THAT(error.what(), HasSubstr("'part_1'"));
      EXPECT_THAT(error.log(), HasSubstr("second"));
    }
  }
}

TEST(CudaBuild, KeepsTheAssemblersLogOfWrongPtx) {
  SPJIT_SKIP_WITHOUT_TOOLCHAIN(test::k_both);
  const std::string wrong =
      test::ptx_header() + ".visible .entry f() { .reg .f32 %f<2>; frobnicate %f1; ret; }\n";

  try {
    static_cast<void>(build({test::ptx_unit("wrong", wrong)}));
    FAIL() << "built";
  } catch (const CompileFailed& error) {
    EXPECT_THAT(error.what(), HasSubstr("'wrong'"));
    EXPECT_THAT(error.log(), HasSubstr("frobnicate"));
  }
}

TEST(CudaBuild, SaysWhichFunctionIsMissing) {
  SPJIT_SKIP_WITHOUT_TOOLCHAIN(test::k_both);

  try {
    static_cast<void>(build({test::ptx_unit("caller", test::ptx_caller()),
                             test::cuda_unit("saxpy", test::saxpy_source())}));
    FAIL() << "linked";
  } catch (const CompileFailed& error) {
    // 12.4 writes it to the standard error output instead.
    const bool logs_it = test::toolchain().nvjitlink->version() >= CudaVersion{12, 9};
    EXPECT_THAT(error.log(), HasSubstr(logs_it ? "twice" : "ERROR"));
  }
}

TEST(CudaBuild, StopsAtItsDeadline) {
  SPJIT_SKIP_WITHOUT_TOOLCHAIN(test::k_both);
  const CudaToolchain toolchain = test::toolchain();
  CudaBuildOptions options{.arch = 80};
  options.cancel.deadline = std::chrono::steady_clock::now();

  const std::vector<SourceUnit> ptx = {test::ptx_unit("caller", test::ptx_caller()),
                                       test::ptx_unit("twice", test::ptx_function())};
  EXPECT_THROW(static_cast<void>(build_cubin(program_of(3), toolchain, options)), CompileCancelled);
  EXPECT_THROW(static_cast<void>(build_cubin(ptx, toolchain, options)), CompileCancelled);
}

TEST(CudaBuild, RefusesAnArchNobodyHas) {
  SPJIT_SKIP_WITHOUT_TOOLCHAIN(test::k_both);

  EXPECT_THROW(static_cast<void>(build({test::cuda_unit("saxpy", test::saxpy_source())}, 35000)),
               NotSupported);
  EXPECT_THROW(static_cast<void>(build({test::ptx_unit("twice", test::ptx_function())}, 35000)),
               NotSupported);
}

}  // namespace
}  // namespace spjit
