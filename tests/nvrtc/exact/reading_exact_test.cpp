// The CUDA C++ of the families that read A, compiled to PTX by NVRTC and executed: C has the bits
// of the host's `reference` and of the direct PTX. And NVIDIA's compilers take both texts. Needs
// NVRTC, of the second nvJitLink, but no GPU.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/build/cuda_build.hpp"
#include "runtime/cuda/cubin_info.hpp"
#include "runtime/cuda/cuda_libraries.hpp"
#include "runtime/cuda/nvrtc.hpp"
#include "spjit/compiler.hpp"
#include "spjit/error.hpp"
#include "tests/support/activations.hpp"
#include "tests/support/cuda/cuda_convolutions.hpp"
#include "tests/support/cuda/reading_kernels.hpp"
#include "tests/support/long_tests.hpp"
#include "tests/support/scoped_variable.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

class ReadingExact : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    try {
      nvrtc_ = load_cuda_toolchain({.arch = 90, .nvrtc = true, .nvjitlink = false},
                                   found_cuda_libraries())
                   .nvrtc;
    } catch (const NotSupported& error) {
      GTEST_SKIP() << error.what();
    }
  }

  /// What NVRTC makes of the C++ text.
  [[nodiscard]] std::string ptx_of_cuda(const Problem& problem) const {
    NvrtcOptions options;
    options.arch = 90;
    options.output = NvrtcOptions::Output::ptx;
    std::string ptx =
        nvrtc_->compile("test", reading_texts(problem, GetParam()).cuda, options).code;
    ptx.erase(std::ranges::find(ptx, '\0'), ptx.end());  // NVRTC ends its text with a zero byte
    return ptx;
  }

  void expect_reference(const LayerCase& item, DataType type = DataType::f32) const {
    const Problem problem = problem_of(item, type);
    ASSERT_EQ(reading_refusal(problem, GetParam()).reason(), "");
    const Activation activation = item.spec.layer.epilogue.activation;
    SCOPED_TRACE(std::string(to_string(item.spec.layer.b_layout)) + " to " +
                 std::string(to_string(item.spec.layer.c_layout)) + " " +
                 std::string(to_string(activation)));
    const Kernel kernel =
        Kernel::from_artifact(reading_artifact(problem, GetParam(), ptx_of_cuda(problem))).load();
    const Kernel of_ptx = reading_kernel(problem, GetParam());
    for (const bool has_special_values : {false, true}) {
      const LayerOperands operands(item, has_special_values);
      const std::vector<float> expected = reference_layer(item, operands);
      for (const Shifts& shifts : {Shifts{}, Shifts{1, 2, 0}}) {
        const std::vector<float> c = launch_shifted(kernel, operands, shifts);
        EXPECT_TRUE(same_layer(c, expected, activation));
        EXPECT_TRUE(same_bits(c, launch_shifted(of_ptx, operands, shifts)));
      }
    }
  }

  ScopedVariable driver_{"SPJIT_CUDA_DRIVER", SPJIT_EMULATED_CUDA};
  std::optional<Nvrtc> nvrtc_;
};

TEST_P(ReadingExact, HasTheLayersOfTheReference) {
  unsigned bits = 0;
  for (const Activation activation : k_activations) {
    expect_reference(mixed_layer(bits, activation));
    ++bits;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, ReadingExact,
                         ::testing::Values("csr", "dense", "narrow", "packed"),
                         [](const auto& of) { return of.param; });

/// Of the one family that takes A of 16 bits.
class ReadingExactHalves : public ReadingExact {};

TEST_P(ReadingExactHalves, HaveTheBitsOfTheReference) {
  for (const DataType type : {DataType::bf16, DataType::f16}) {
    for (const unsigned bits : {0U, 1U, 2U, 3U}) {
      expect_reference(in_type(mixed_layer(bits, Activation::relu), type), type);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, ReadingExactHalves, ::testing::Values("packed"),
                         [](const auto& of) { return of.param; });

/// Of the one family that has them.
class ReadingExactConvolutions : public ReadingExact {};

TEST_P(ReadingExactConvolutions, HaveTheBitsOfTheReference) {
  unsigned bits = 0;
  for (const Convolution& of : geometries()) {
    Problem problem = problem_of_convolution(of, 16);
    problem.b.layout = bits % 2 == 0 ? Layout::tokens_major : Layout::row_major;
    problem.c.layout = bits % 3 == 0 ? Layout::tokens_major : Layout::row_major;
    const LayerCase item = convolution_case(problem, 5);
    ++bits;
    if (item.spec.layer.convolution && bits % 4 == 1) expect_reference(item);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, ReadingExactConvolutions, ::testing::Values("csr"),
                         [](const auto& of) { return of.param; });

/// Needs both compilers.
class Cubins : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      static_cast<void>(load_cuda_toolchain({.arch = 90, .nvrtc = true, .nvjitlink = true},
                                            found_cuda_libraries()));
    } catch (const NotSupported& error) {
      GTEST_SKIP() << error.what();
    }
  }

  /// Bytes. Sums of a thread in memory would be 64 and more. ptxas can move this much at a tight
  /// limit of registers: of one text it did so once, and not in hundreds of other compilations.
  static constexpr std::int64_t k_two_registers = 8;

  static void expect_lean(const Kernel& kernel) {
    const CubinInfo cubin = read_cubin_info(kernel.image());
    for (const CubinKernel& each : cubin.kernels) {
      EXPECT_LE(each.stack_bytes, k_two_registers) << each.name;
    }
    EXPECT_LE(kernel.info().cuda->spilled_bytes, k_two_registers);
    EXPECT_GT(kernel.info().weight_bytes, 0);
  }
};

class ReadingCubins : public Cubins, public ::testing::WithParamInterface<std::string> {};

TEST_P(ReadingCubins, AreMadeOfBothTexts) {
  unsigned bits = 0;
  for (const CudaSource source : {CudaSource::ptx, CudaSource::cuda}) {
    for (const Activation activation : k_activations) {
      for (const char* target : in_turn<const char*>({"sm_75", "sm_90"})) {
        SCOPED_TRACE(fmt::format("{} {} {}", to_string(activation), target, to_string(source)));
        LayerCase item = in_layouts(layer_case(random_matrix(40, 40, 0.5), cuda_spec(4, 12)),
                                    k_all_layouts.at(bits % 4));
        item.spec.layer.epilogue = epilogue_of(7, activation);
        CompileOptions options = gpu_options(target, GetParam());
        options.policy.values["source"] = to_string(source);
        CacheOptions uncached;
        uncached.enabled = false;
        ++bits;

        const Kernel kernel = Compiler(options, uncached).compile(problem_of(item));

        EXPECT_EQ(kernel.info().family, GetParam());
        expect_lean(kernel);
      }
    }
  }
}

class SharedCubins : public Cubins {
 protected:
  [[nodiscard]] Kernel compile(const Problem& problem, const std::string& target,
                               CudaSource source = CudaSource::ptx) const {
    CompileOptions options = gpu_options(target, "csr");
    options.policy.values["source"] = to_string(source);
    return Compiler(options, {.enabled = true, .directory = directory_.path()}).compile(problem);
  }
  /// Whether the code was compiled for this kernel.
  static bool is_new(const Kernel& kernel) {
    return nlohmann::json::parse(kernel.record()).at("compile_ms").at("build").get<double>() > 0;
  }

  Problem problem_ = problem_of(layer_case(random_matrix(40, 40, 0.5), cuda_spec(4, 64)));
  TemporaryDirectory directory_;
};

TEST_F(SharedCubins, AreThoseOfOtherMatricesAndSizes) {
  const Kernel first = compile(problem_, "sm_90");
  Problem other = problem_of(layer_case(random_matrix(70, 30, 0.9), cuda_spec(4, 128)));
  other.n = 60;  // of the same tile

  const Kernel second = compile(other, "sm_90");

  EXPECT_TRUE(is_new(first));
  EXPECT_FALSE(is_new(second));
  EXPECT_TRUE(std::ranges::equal(first.image(), second.image()));
}

TEST_F(SharedCubins, AreNotThoseOfOtherCode) {
  const Kernel first = compile(problem_, "sm_90");
  Problem layer = problem_;
  layer.epilogue.activation = Activation::relu;

  const Kernel of_layer = compile(layer, "sm_90");
  const Kernel of_cuda = compile(problem_, "sm_90", CudaSource::cuda);
  const Kernel of_turing = compile(problem_, "sm_75");

  EXPECT_TRUE(is_new(of_layer));
  EXPECT_FALSE(std::ranges::equal(first.image(), of_layer.image()));
  EXPECT_TRUE(is_new(of_cuda));
  EXPECT_TRUE(is_new(of_turing));
  EXPECT_EQ(read_cubin_info(of_turing.image()).arch, 75);
  EXPECT_EQ(read_cubin_info(compile(problem_, "sm_75", CudaSource::cuda).image()).arch, 75)
      << "no C++ names its architecture";
}

INSTANTIATE_TEST_SUITE_P(Families, ReadingCubins,
                         ::testing::Values("csr", "dense", "narrow", "packed"),
                         [](const auto& of) { return of.param; });

}  // namespace
