#pragma once

/// @file
/// Helpers of tests on a GPU. The tests also run on the emulated driver of tests/emulated_driver,
/// which executes the cubins; times mean nothing there.

#include <gtest/gtest.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/cuda_family.hpp"
#include "runtime/cuda/cuda_libraries.hpp"
#include "runtime/cuda/local_gpus.hpp"
#include "spjit/compiler.hpp"
#include "spjit/kernel.hpp"
#include "tests/support/compile_testing.hpp"
#include "tests/support/spmm_testing.hpp"

namespace spjit::testing_support {

/// Skips the test where there is no GPU or nothing to compile with.
class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const LocalGpus local = find_local_gpus();
    if (local.gpus.empty()) GTEST_SKIP() << "no GPU: " << local.problem;
    gpu_ = local.gpus.front();
    gpus_ = static_cast<int>(local.gpus.size());
    try {
      static_cast<void>(load_cuda_toolchain(
          {.arch = static_cast<int>(gpu_.limits.arch), .nvrtc = true, .nvjitlink = true},
          found_cuda_libraries()));
    } catch (const NotSupported& error) {
      GTEST_SKIP() << "nothing to compile with: " << error.what();
    }
  }

  [[nodiscard]] CompileOptions options() const {
    CompileOptions result;
    result.target = Target::parse(gpu_.limits.name());
    return result;
  }

  /// Compiled without a cache.
  [[nodiscard]] static Kernel compile_kernel(const Problem& problem,
                                             const CompileOptions& compile_options) {
    return Compiler(compile_options, uncached()).compile(problem);
  }

  /// C, contiguous, from host memory to host memory.
  [[nodiscard]] static std::vector<float> product(const Kernel& kernel, const std::vector<float>& b,
                                                  int device = 0) {
    std::vector<float> c(index(kernel.info().rows * kernel.info().n), -7.0F);
    kernel.load(device).run(b.data(), c.data());
    return c;
  }

  LocalGpu gpu_;
  int gpus_ = 0;
};

}  // namespace spjit::testing_support
