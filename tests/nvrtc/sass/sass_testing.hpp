#pragma once

/// @file
/// Helpers of tests that execute cubins: three emulated devices, and a compiler for each.

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/cuda/cuda_libraries.hpp"
#include "runtime/cuda/nvrtc.hpp"
#include "spjit/error.hpp"
#include "tests/support/cuda/cubin_cases.hpp"
#include "tests/support/scoped_variable.hpp"

namespace spjit::testing_support {

/// The devices of this program, in their order.
inline constexpr int k_device_archs[] = {90, 80, 75};

/// A test on the device of an architecture. The driver reads its environment when it is first
/// loaded, and is kept: all tests of the program have the same devices.
class OnDevice : public ::testing::TestWithParam<int> {
 protected:
  static void SetUpTestSuite() {
    ::setenv("SPJIT_EMULATED_CUDA_ARCH", "90,80,75", 1);
    static const std::shared_ptr<const CudaDriver> kept = CudaDriver::load(SPJIT_EMULATED_CUDA);
  }

  void SetUp() override {
    try {
      toolchain_ = load_cuda_toolchain({.arch = arch(), .nvrtc = true, .nvjitlink = true},
                                       found_cuda_libraries());
    } catch (const NotSupported& error) {
      GTEST_SKIP() << error.what();
    }
  }

  [[nodiscard]] int arch() const { return GetParam(); }
  [[nodiscard]] EmulatedDevice device() const {
    const auto* found = std::ranges::find(k_device_archs, arch());
    return {arch(), static_cast<int>(found - std::begin(k_device_archs))};
  }
  [[nodiscard]] CudaContext context() const { return emulated_context(device().ordinal); }

  [[nodiscard]] std::string cubin_of(const ProgramCase& item, CudaSource source) const {
    return build_program(item, source, arch(), toolchain_);
  }
  [[nodiscard]] std::string cubin_of(const CudaCase& item,
                                     CudaSource source = CudaSource::ptx) const {
    return cubin_of({"", item.plan, item.spec}, source);
  }
  [[nodiscard]] std::string cubin_of(const NamedLayer& layer, CudaSource source) const {
    return cubin_of(program_of(layer), source);
  }
  /// Sums and products are rounded as they are written.
  [[nodiscard]] std::string cubin_of_text(const char* text) const {
    NvrtcOptions options;
    options.arch = arch();
    options.more = {"--fmad=false"};
    return toolchain_.nvrtc->compile("text", text, options).code;
  }

  CudaToolchain toolchain_;
};

[[nodiscard]] inline std::string device_name(const ::testing::TestParamInfo<int>& info) {
  return "sm_" + std::to_string(info.param);
}

}  // namespace spjit::testing_support
