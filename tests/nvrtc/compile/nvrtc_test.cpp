#include "runtime/cuda/nvrtc.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "compiler_libraries.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr CudaToolchainNeeds k_nvrtc = {.arch = 80, .nvrtc = true, .nvjitlink = false};

TEST(Nvrtc, TellsItsVersionAndItsArchs) {
  SPJIT_SKIP_WITHOUT_TOOLCHAIN(k_nvrtc);

  const Nvrtc nvrtc = *test::toolchain(k_nvrtc).nvrtc;

  EXPECT_GE(nvrtc.version(), (CudaVersion{11, 8}));
  EXPECT_THAT(nvrtc.archs(), Contains(80));
  EXPECT_TRUE(nvrtc.supports(90));
  EXPECT_FALSE(nvrtc.supports(20));
}

TEST(Nvrtc, CompilesForEveryArchOfTheProjectThatItKnows) {
  SPJIT_SKIP_WITHOUT_TOOLCHAIN(k_nvrtc);
  const Nvrtc nvrtc = *test::toolchain(k_nvrtc).nvrtc;

  for (const int arch : {70, 75, 80, 86, 89, 90, 100, 120}) {
    if (!nvrtc.supports(arch)) continue;
    const CompiledCode cubin = nvrtc.compile("saxpy", test::saxpy_source(), {.arch = arch});

    EXPECT_EQ(test::arch_of_cubin(cubin.code), arch);
    EXPECT_THAT(cubin.code, HasSubstr(".text.saxpy"));
  }
}

TEST(Nvrtc, GivesPtxWithoutContractingWhatTheSourceWritesApart) {
  SPJIT_SKIP_WITHOUT_TOOLCHAIN(k_nvrtc);
  const Nvrtc nvrtc = *test::toolchain(k_nvrtc).nvrtc;

  const CompiledCode ptx = nvrtc.compile(
      "apart", "extern \"C\" __global__ void apart(float* p) { *p = p[1] * p[2] + p[3]; }",
      {.arch = 80, .output = NvrtcOptions::Output::ptx});

  EXPECT_THAT(ptx.code, HasSubstr(".target sm_80"));
  EXPECT_THAT(ptx.code, HasSubstr("mul.rn.f32"));
  EXPECT_THAT(ptx.code, HasSubstr("add.rn.f32"));
  EXPECT_THAT(ptx.code, Not(HasSubstr("fma")));
}

TEST(Nvrtc, GivesTheSameCubinTwice) {
  SPJIT_SKIP_WITHOUT_TOOLCHAIN(k_nvrtc);
  const Nvrtc nvrtc = *test::toolchain(k_nvrtc).nvrtc;
  const NvrtcOptions options = {.arch = 80, .relocatable = true};

  EXPECT_EQ(nvrtc.compile("saxpy", test::saxpy_source(), options).code,
            nvrtc.compile("saxpy", test::saxpy_source(), options).code);
}

TEST(Nvrtc, PutsTheCompilersWordsIntoTheLogOfAnError) {
  SPJIT_SKIP_WITHOUT_TOOLCHAIN(k_nvrtc);
  const Nvrtc nvrtc = *test::toolchain(k_nvrtc).nvrtc;

  try {
    static_cast<void>(nvrtc.compile("broken", "__global__ void f() { nonsense; }", {.arch = 80}));
    FAIL() << "compiled";
  } catch (const CompileFailed& error) {
    EXPECT_THAT(error.what(), HasSubstr("'broken'"));
    EXPECT_THAT(error.log(), HasSubstr("identifier \"nonsense\" is undefined"));
  }
}

TEST(Nvrtc, RefusesAnArchItDoesNotHaveInOneLine) {
  SPJIT_SKIP_WITHOUT_TOOLCHAIN(k_nvrtc);
  const Nvrtc nvrtc = *test::toolchain(k_nvrtc).nvrtc;

  try {
    static_cast<void>(nvrtc.compile("saxpy", test::saxpy_source(), {.arch = 35000}));
    FAIL() << "compiled";
  } catch (const NotSupported& error) {
    EXPECT_THAT(error.what(), HasSubstr("does not compile for sm_35000"));
    EXPECT_THAT(error.what(), HasSubstr("sm_80"));
    EXPECT_THAT(error.what(), Not(HasSubstr("\n")));
  }
}

TEST(Nvrtc, GivesUpAtItsDeadlineAndCompilesAgainAfterwards) {
  SPJIT_SKIP_WITHOUT_TOOLCHAIN(k_nvrtc);
  const Nvrtc nvrtc = *test::toolchain(k_nvrtc).nvrtc;
  NvrtcOptions options = {.arch = 80};
  options.cancel.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(1);

  const int fmas = nvrtc.can_cancel() ? 20000 : 500;  // the latter compiles it to its end

  EXPECT_THROW(static_cast<void>(nvrtc.compile("big", test::unrolled_source(fmas), options)),
               CompileCancelled);
  EXPECT_FALSE(nvrtc.compile("saxpy", test::saxpy_source(), {.arch = 80}).code.empty());
}

TEST(Nvrtc, GivesUpInTheMiddleWhenToldTo) {
  SPJIT_SKIP_WITHOUT_TOOLCHAIN(k_nvrtc);
  const Nvrtc nvrtc = *test::toolchain(k_nvrtc).nvrtc;
  if (!nvrtc.can_cancel()) GTEST_SKIP() << "this NVRTC cannot be told to give up";
  std::stop_source stop;
  NvrtcOptions options = {.arch = 80};
  options.cancel.stop = stop.get_token();
  std::jthread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    stop.request_stop();
  });

  EXPECT_THROW(static_cast<void>(nvrtc.compile("big", test::unrolled_source(3000), options)),
               CompileCancelled);
}

TEST(Nvrtc, CompilesConcurrentlyFromFourThreads) {
  SPJIT_SKIP_WITHOUT_TOOLCHAIN(k_nvrtc);
  const Nvrtc nvrtc = *test::toolchain(k_nvrtc).nvrtc;
  const std::string expected =
      nvrtc.compile("unrolled", test::unrolled_source(50), {.arch = 80}).code;
  std::vector<std::string> cubins(4);

  {
    std::vector<std::jthread> threads;
    for (std::string& cubin : cubins) {
      threads.emplace_back([&] {
        for (int repeat = 0; repeat < 4; ++repeat) {
          cubin = nvrtc.compile("unrolled", test::unrolled_source(50), {.arch = 80}).code;
        }
      });
    }
  }

  EXPECT_THAT(cubins, ::testing::Each(expected));
}

}  // namespace
}  // namespace spjit
