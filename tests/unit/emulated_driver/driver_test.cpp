#include <gmock/gmock.h>

#include <array>

#include "driver_testing.hpp"
#include "tests/support/cuda/cubin_writer.hpp"

namespace spjit::emulated {
namespace {

using testing::HasSubstr;

TEST_F(EmulatedDriver, LaunchWritesWhatTheHostReadsBack) {
  void* kernel = function(kernel_of("st.global.u32 [%rd0+4], 42;"));
  DevicePointer out = 0;
  std::array<std::uint32_t, 2> words{};
  ASSERT_EQ(call("cuMemAlloc_v2", &out, std::size_t{8}), 0);

  EXPECT_EQ(launch(kernel, out, 1), 0);

  EXPECT_EQ(call("cuMemcpyDtoH_v2", static_cast<void*>(words.data()), out, std::size_t{8}), 0);
  EXPECT_EQ(words[0], 0xffffffffU) << "what nothing wrote is a NaN";
  EXPECT_EQ(words[1], 42U);
  EXPECT_EQ(call("cuMemFree_v2", out), 0);
  EXPECT_EQ(call("cuMemFree_v2", out), static_cast<int>(Result::invalid_value));
}

TEST_F(EmulatedDriver, FaultIsSeenByLaterCallsUntilTheContextIsReleased) {
  void* kernel = function(kernel_of("st.global.u32 [%rd0], 42;"));

  EXPECT_EQ(launch(kernel, 0, 1), 0);

  EXPECT_EQ(call("cuStreamSynchronize", static_cast<void*>(nullptr)),
            static_cast<int>(Result::illegal_address));
  EXPECT_THAT(message(), HasSubstr("line 9: 'st.global.u32 [%rd0], 42'"));
  DevicePointer out = 0;
  EXPECT_EQ(call("cuMemAlloc_v2", &out, std::size_t{8}), static_cast<int>(Result::illegal_address));
}

TEST_F(EmulatedDriver, WhatIsNoCubinAndBadPtxAreRefusedWithALog) {
  void* module = nullptr;
  const std::string elf =
      "\x7f"
      "ELF................";
  const std::string ptx = kernel_of("frobnicate;");

  EXPECT_EQ(call("cuModuleLoadData", &module, elf.c_str()),
            static_cast<int>(Result::invalid_image));
  EXPECT_THAT(message(), HasSubstr("no cubin"));
  EXPECT_EQ(call("cuModuleLoadData", &module, ptx.c_str()), static_cast<int>(Result::invalid_ptx));
  EXPECT_THAT(message(), HasSubstr("frobnicate"));
}

TEST_F(EmulatedDriver, CubinOfAnotherArchitectureIsRefused) {
  void* module = nullptr;
  testing_support::TestCubin cubin;
  cubin.flags = 0x06004b04;  // sm_75; the device is sm_90
  const std::vector<std::byte> older = testing_support::write_cubin(cubin);
  cubin.flags = 0x06006404;  // sm_100
  const std::vector<std::byte> newer = testing_support::write_cubin(cubin);

  for (const std::vector<std::byte>* image : {&older, &newer}) {
    EXPECT_EQ(call("cuModuleLoadData", &module, static_cast<const void*>(image->data())),
              static_cast<int>(Result::no_binary_for_gpu));
    EXPECT_THAT(message(), HasSubstr("does not run on sm_90"));
  }
}

TEST_F(EmulatedDriver, LaunchBeyondTheDeviceIsRefused) {
  void* kernel = function(kernel_of(""));

  EXPECT_EQ(launch(kernel, 0, 1025), static_cast<int>(Result::invalid_value));
  EXPECT_EQ(launch(nullptr, 0, 1), static_cast<int>(Result::invalid_handle));
}

TEST_F(EmulatedDriver, ProcAddressesHaveTheirVersion) {
  void* entry = nullptr;
  int status = -1;

  EXPECT_EQ(call("cuGetProcAddress_v2", "cuMemAlloc", &entry, 12000, std::uint64_t{0}, &status), 0);

  EXPECT_NE(entry, nullptr);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(call("cuGetProcAddress_v2", "cuNothing", &entry, 12000, std::uint64_t{0}, &status),
            static_cast<int>(Result::not_found));
}

TEST_F(EmulatedDriver, AttributesAreThoseOfTheArchitecture) {
  int multiprocessors = 0;
  int major = 0;
  const char* name = nullptr;

  EXPECT_EQ(call("cuDeviceGetAttribute", &multiprocessors, 16, 0), 0);
  EXPECT_EQ(call("cuDeviceGetAttribute", &major, 75, 0), 0);
  EXPECT_EQ(call("cuGetErrorName", 700, &name), 0);

  EXPECT_EQ(multiprocessors, 132);
  EXPECT_EQ(major, 9);
  EXPECT_STREQ(name, "CUDA_ERROR_ILLEGAL_ADDRESS");
}

}  // namespace
}  // namespace spjit::emulated
