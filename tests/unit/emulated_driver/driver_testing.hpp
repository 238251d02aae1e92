#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "emulated_driver/cuda_abi.hpp"
#include "interpreter_testing.hpp"

namespace spjit::emulated {

/// The library as a program sees it: by its path and its C names.
class EmulatedDriver : public testing::Test {
 protected:
  void SetUp() override {
    library_ = dlopen(SPJIT_EMULATED_CUDA, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << dlerror();
    ASSERT_EQ(call("cuInit", 0U), 0);
    ASSERT_EQ(call("cuDevicePrimaryCtxRetain", &context_, 0), 0);
    ASSERT_EQ(call("cuCtxSetCurrent", context_), 0);
  }

  void TearDown() override { EXPECT_EQ(call("cuDevicePrimaryCtxRelease_v2", 0), 0); }

  template <typename... Arguments>
  int call(const char* name, Arguments... arguments) const {
    using Entry = int (*)(Arguments...);
    auto* entry = reinterpret_cast<Entry>(dlsym(library_, name));
    return entry == nullptr ? -1 : entry(arguments...);
  }

  [[nodiscard]] std::string message() const {
    using Entry = const char* (*)();
    return reinterpret_cast<Entry>(dlsym(library_, "spjit_emulated_message"))();
  }

  [[nodiscard]] void* function(const std::string& text) const {
    void* module = nullptr;
    void* kernel = nullptr;
    EXPECT_EQ(call("cuModuleLoadData", &module, text.c_str()), 0) << message();
    EXPECT_EQ(call("cuModuleGetFunction", &kernel, module, "k"), 0);
    return kernel;
  }

  int launch(void* kernel, DevicePointer out, unsigned threads, void* stream = nullptr) const {
    std::array<void*, 1> parameters = {&out};
    return call("cuLaunchKernel", kernel, 1U, 1U, 1U, threads, 1U, 1U, 0U, stream,
                parameters.data(), static_cast<void**>(nullptr));
  }

 private:
  void* library_ = nullptr;
  void* context_ = nullptr;
};

}  // namespace spjit::emulated
