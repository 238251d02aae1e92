// The check of GPU kernels, on the emulated driver. Right kernels are cubins; a wrong one is
// changed PTX in the place of its cubin.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cache/cache_store.hpp"
#include "runtime/cuda/cuda_libraries.hpp"
#include "spjit/compiler.hpp"
#include "spjit/error.hpp"
#include "spjit/version.hpp"
#include "tests/support/compile_testing.hpp"
#include "tests/support/convolution_cases.hpp"
#include "tests/support/float64_check.hpp"
#include "tests/support/padded_3x3.hpp"
#include "tests/support/scoped_variable.hpp"
#include "tests/support/wrong_kernels.hpp"

namespace {

namespace fs = std::filesystem;
using namespace spjit;
using namespace spjit::testing_support;
using testing::HasSubstr;
using testing::StartsWith;

void take_ptx(BuiltCuda& compiled) { compiled.artifact.cubin = compiled.artifact.ptx; }

/// The place of the first `text` in the kernel's PTX, from `begin` on.
std::size_t find_in(const BuiltCuda& compiled, const std::string& text, std::size_t begin = 0) {
  const std::size_t place = compiled.artifact.ptx.find(text, begin);
  if (place == std::string::npos) throw std::logic_error("no " + text + " in the PTX");
  return place;
}

/// Another constant in the first FMA.
void compute_wrong(BuiltCuda& compiled) {
  const std::size_t constant = find_in(compiled, ",0f", find_in(compiled, "fma.rn.f32")) + 3;
  char& digit = compiled.artifact.ptx[constant];
  digit = digit == '4' ? '3' : '4';
  take_ptx(compiled);
}

/// The first load brings the values of the second.
void read_other_values(BuiltCuda& compiled) {
  constexpr std::string_view k_first = "[pvalues+0]";
  compiled.artifact.ptx.replace(find_in(compiled, std::string(k_first)), k_first.size(),
                                "[pvalues+16]");
  take_ptx(compiled);
}

/// A tap of the first of three channels of 6 x 7 pixels that no thread loads.
void lose_a_tap(BuiltCuda& compiled) {
  const std::string load = "@valid3 ld.global.nc.f32 t3,[pb+28];";
  compiled.artifact.ptx.erase(find_in(compiled, load), load.size());
  take_ptx(compiled);
}

/// One that reads the pixel to its right.
void read_another_pixel(BuiltCuda& compiled) {
  const std::string load = "ld.global.nc.f32 t3,[pb+28]";
  compiled.artifact.ptx.replace(find_in(compiled, load) + load.size() - 3, 2, "32");
  take_ptx(compiled);
}

void trap_at_an_fma(BuiltCuda& compiled) {
  compiled.artifact.ptx.insert(find_in(compiled, "fma.rn.f32"), "trap;\n");
  take_ptx(compiled);
}

class CudaVerification : public testing::Test {
 protected:
  void SetUp() override {
    try {
      static_cast<void>(load_cuda_toolchain({.arch = 90, .nvrtc = true, .nvjitlink = true},
                                            found_cuda_libraries()));
    } catch (const NotSupported& error) {
      GTEST_SKIP() << error.what();
    }
  }

  [[nodiscard]] fs::path cache() const { return directory_.path() / "cache"; }

  [[nodiscard]] Kernel compile(VerifyMode mode, bool runtime_sizes = false) const {
    CompileOptions options;
    options.target = Target::parse("sm_90");
    options.keep_source = true;  // spoiled kernels are spoiled texts
    options.verify = mode;
    Problem problem = problem_of(matrix_, 20);
    problem.c.leading_dimension = 23;
    problem.n.runtime = runtime_sizes;
    return Compiler(options, cached_in(cache())).compile(problem);
  }

  [[nodiscard]] std::string failure(VerifyMode mode) const {
    try {
      static_cast<void>(compile(mode));
    } catch (const VerificationFailed& error) {
      return error.what();
    }
    ADD_FAILURE() << "nothing was thrown";
    return {};
  }

  [[nodiscard]] std::size_t entries() const {
    return CacheStore(cache(), SPJIT_VERSION).list().size();
  }

  ScopedVariable driver_{"SPJIT_CUDA_DRIVER", SPJIT_EMULATED_CUDA};
  TemporaryDirectory directory_;
  CsrMatrix matrix_ = random_matrix(30, 25, 0.7);
};

TEST_F(CudaVerification, ARightKernelHasItsCertificateInTheRecord) {
  for (const bool runtime_sizes : {false, true}) {
    const Kernel fresh = compile(VerifyMode::full, runtime_sizes);
    const Kernel cached = compile(VerifyMode::sampled, runtime_sizes);

    const auto certificate = nlohmann::json::parse(fresh.record()).at("verification");
    EXPECT_TRUE(fresh.info().verification.complete());
    EXPECT_THAT(fresh.info().verification.device, StartsWith("emulated"));
    EXPECT_EQ(certificate.at("mode"), "full");
    EXPECT_EQ(certificate.at("device"), fresh.info().verification.device);
    EXPECT_EQ(certificate.at("rows_checked"), 30);
    EXPECT_TRUE(cached.info().from_cache);
    EXPECT_EQ(cached.info().verification.mode, VerifyMode::sampled);
    EXPECT_EQ(cached.record(), fresh.record());
  }
}

TEST_F(CudaVerification, AKernelOfValuesAtRunTimeIsCheckedWithThem) {
  CompileOptions options;
  options.target = Target::parse("sm_90");
  options.keep_source = true;
  options.verify = VerifyMode::full;
  Problem problem = problem_of(matrix_, 20);
  problem.runtime_values = true;
  const auto compiled = [&] { return Compiler(options, cached_in(cache())).compile(problem); };
  {
    const SpoiledCudaKernels spoiled(read_other_values);
    EXPECT_THROW(static_cast<void>(compiled()), VerificationFailed);
    EXPECT_EQ(entries(), 0U);
  }

  const Kernel fresh = compiled();
  CsrMatrix checkpoint = matrix_;
  for (float& value : checkpoint.values) value = 3 - value;
  problem.a = checkpoint;
  const Kernel cached = compiled();

  EXPECT_TRUE(fresh.info().verification.complete());
  EXPECT_TRUE(cached.info().from_cache);
  EXPECT_TRUE(cached.info().verification.complete());
  const Kernel loaded = cached.load();
  const PreparedValues values = loaded.prepare_values(checkpoint.values);
  const std::vector<float> b = dense_values(25 * 20);
  std::vector<float> c(30 * 20);
  loaded.run({.b = b.data(), .c = c.data(), .values = &values});
  EXPECT_LE(compare_with_float64(checkpoint, {b.data(), 20, c.data(), 20, 20}).max_bound_ratio, 1);
}

TEST_F(CudaVerification, AConvolutionIsCheckedWithImages) {
  CompileOptions options;
  options.target = Target::parse("sm_90");
  options.keep_source = true;
  options.verify = VerifyMode::full;
  const Problem problem = problem_of_convolution(padded_3x3(3, 6, 7), 30);
  const auto compiled = [&] { return Compiler(options, cached_in(cache())).compile(problem); };
  for (const auto spoil : {lose_a_tap, read_another_pixel}) {
    const SpoiledCudaKernels spoiled(spoil);
    EXPECT_THROW(static_cast<void>(compiled()), VerificationFailed);
    EXPECT_EQ(entries(), 0U);
  }

  const Kernel fresh = compiled();
  const Kernel cached = compiled();

  EXPECT_EQ(fresh.info().family, "unrolled");
  EXPECT_TRUE(fresh.info().verification.complete());
  EXPECT_TRUE(cached.info().from_cache);
  EXPECT_EQ(cached.info().convolution, fresh.info().convolution);
  EXPECT_TRUE(cached.info().convolution.has_value());
}

TEST_F(CudaVerification, AWrongKernelIsAnErrorAndIsNotPublished) {
  const SpoiledCudaKernels spoiled(compute_wrong);

  EXPECT_THAT(failure(VerifyMode::sampled), HasSubstr("wrong result: C["));
  EXPECT_EQ(left_in(cache()), std::vector<std::string>());
}

TEST_F(CudaVerification, AWrongKernelInTheCacheIsWithdrawnAndCompiledAnew) {
  {
    const SpoiledCudaKernels spoiled(compute_wrong);
    static_cast<void>(compile(VerifyMode::none));
    ASSERT_EQ(entries(), 1U);
  }

  const Kernel checked = compile(VerifyMode::sampled);
  const Kernel cached = compile(VerifyMode::sampled);

  EXPECT_FALSE(checked.info().from_cache);
  EXPECT_THAT(checked.info().note, HasSubstr("its kernel failed the check: wrong result: C["));
  EXPECT_TRUE(cached.info().from_cache);
  EXPECT_EQ(cached.info().note, "");
}

TEST_F(CudaVerification, AKernelThatFaultsIsWrong) {
  const SpoiledCudaKernels spoiled(trap_at_an_fma);

  EXPECT_THAT(failure(VerifyMode::sampled), HasSubstr("the kernel faults: "));
  EXPECT_EQ(left_in(cache()), std::vector<std::string>());
}

/// What the driver says of a kernel that traps, of a context that lives on.
Kernel broken_context(const Kernel& trapping) {
  Kernel loaded = trapping.load(0);
  const std::vector<float> b(25 * 20);
  std::vector<float> c(30 * 23);
  EXPECT_THROW(loaded.run(b.data(), c.data()), DeviceError);
  return loaded;
}

TEST_F(CudaVerification, AFaultOfTheCallersBeforeTheCheckWithdrawsNothing) {
  std::optional<Kernel> trapping;
  {
    const SpoiledCudaKernels spoiled(trap_at_an_fma);
    trapping = compile(VerifyMode::none);
    fs::remove_all(cache());
  }
  static_cast<void>(compile(VerifyMode::sampled));
  const Kernel broken = broken_context(*trapping);

  try {
    static_cast<void>(compile(VerifyMode::sampled));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const DeviceError& error) {
    EXPECT_THAT(error.what(), StartsWith("the kernel cannot be checked in this process: "));
  }
  EXPECT_EQ(entries(), 1U);
}

TEST_F(CudaVerification, AfterAFaultInAnEntryNoOtherKernelIsJudgedWhileTheContextLives) {
  {
    const SpoiledCudaKernels spoiled(trap_at_an_fma);
    static_cast<void>(compile(VerifyMode::none));
  }
  CompileOptions others;
  others.target = Target::parse("sm_90");
  const Kernel other = Compiler(others, uncached()).compile(problem_of(matrix_, 20));
  std::optional<Kernel> context = other.load(0);

  EXPECT_THROW(static_cast<void>(compile(VerifyMode::sampled)), DeviceError);
  EXPECT_EQ(entries(), 0U);  // the one that faults; the new one was not judged
  context.reset();
  EXPECT_EQ(compile(VerifyMode::sampled).info().verification.mode, VerifyMode::sampled);
}

TEST_F(CudaVerification, WhatADeviceCannotLoadIsAnErrorAndIsNotPublished) {
  const SpoiledCudaKernels spoiled([](BuiltCuda& built) { built.artifact.cubin = "no code"; });

  EXPECT_THROW(static_cast<void>(compile(VerifyMode::sampled)), DeviceError);
  EXPECT_EQ(left_in(cache()), std::vector<std::string>());
}

TEST_F(CudaVerification, WithoutAGpuItIsNotCheckedAndTheRecordSaysWhy) {
  const ScopedVariable nowhere("SPJIT_CUDA_DRIVER", "/nowhere/libcuda.so.1");

  const Kernel kernel = compile(VerifyMode::sampled);

  EXPECT_EQ(kernel.info().verification.mode, VerifyMode::none);
  EXPECT_THAT(kernel.info().verification.reason, HasSubstr("/nowhere/libcuda.so.1"));
  EXPECT_EQ(kernel.info().note, "");
  const auto certificate = nlohmann::json::parse(kernel.record()).at("verification");
  EXPECT_EQ(certificate.at("mode"), "none");
  EXPECT_EQ(certificate.at("reason"), kernel.info().verification.reason);
}

}  // namespace
