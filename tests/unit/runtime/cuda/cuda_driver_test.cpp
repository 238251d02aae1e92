#include "runtime/cuda/cuda_driver.hpp"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>

#include "cuda_testing.hpp"
#include "runtime/cuda/local_gpus.hpp"
#include "spjit/error.hpp"
#include "tests/support/files/system_testing.hpp"

namespace spjit {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(CudaDriver, MissingLibraryIsNamedWithWhatToInstallInOneLine) {
  const std::string message =
      test::message_of<NotSupported>([] { static_cast<void>(CudaDriver::load("/no/libcuda.so")); });

  EXPECT_THAT(message, AllOf(HasSubstr("/no/libcuda.so"), HasSubstr("install the NVIDIA driver"),
                             HasSubstr("SPJIT_CUDA_DRIVER"), Not(HasSubstr("\n"))));
}

TEST(CudaDriver, LibraryThatIsNoDriverIsRefused) {
  const std::string message =
      test::message_of<NotSupported>([] { static_cast<void>(CudaDriver::load("libm.so.6")); });

  EXPECT_THAT(message, HasSubstr("has no function cuInit"));
}

TEST(CudaDriver, StubOfTheToolkitIsRefusedWithItsCode) {
  const std::filesystem::path stub = "/usr/local/cuda/lib64/stubs/libcuda.so";
  if (!std::filesystem::exists(stub)) GTEST_SKIP() << "there is no " << stub;

  // In a child: the loader would take it for the driver later.
  const int code = test::in_child([&] {
    const std::string problem =
        test::message_of<NotSupported>([&] { static_cast<void>(CudaDriver::load(stub)); });
    return problem.find("CUDA_ERROR_STUB_LIBRARY (34)") != std::string::npos ? 0 : 1;
  });

  EXPECT_EQ(code, 0);
}

TEST(CudaDriver, MachineWithoutDevicesIsRefusedWithTheDriversText) {
  // A copy is another library to the loader, so it is not initialized yet.
  const test::ScratchDirectory scratch;
  const std::filesystem::path copy = scratch.path() / "libcuda.so.1";
  std::filesystem::copy_file(SPJIT_EMULATED_CUDA, copy);

  const int code = test::in_child([&] {
    ::setenv("SPJIT_EMULATED_CUDA_DEVICES", "0", 1);
    const std::string message =
        test::message_of<NotSupported>([&] { static_cast<void>(CudaDriver::load(copy)); });
    const bool right =
        message.find("CUDA_ERROR_NO_DEVICE (100), no CUDA-capable device") != std::string::npos &&
        message.find('\n') == std::string::npos;
    return right ? 0 : 1;
  });

  EXPECT_EQ(code, 0);
}

TEST(CudaDriver, FailureSaysWhatWasDoneAndTheCodeItsNameAndItsText) {
  const auto driver = test::emulated_driver();

  try {
    driver->check(1, [] { return "fold the paper"; });
    FAIL() << "nothing was thrown";
  } catch (const DeviceError& error) {
    EXPECT_STREQ(error.what(),
                 "cannot fold the paper: CUDA_ERROR_INVALID_VALUE (1), invalid argument");
    EXPECT_EQ(error.code(), 1);
  }
  EXPECT_THAT(driver->describe(12345), HasSubstr("12345"));
  EXPECT_EQ(driver->version(), 13000);
}

TEST(CudaDevice, IsWhatTheDriverSays) {
  const auto driver = test::emulated_driver();

  const LocalGpu device = describe_cuda_device(*driver, 1);

  EXPECT_EQ(cuda_device_count(*driver), 2);
  EXPECT_EQ(device.label(), "device 1 (\"emulated T4\")");
  EXPECT_EQ(device.limits.arch, 75);
  EXPECT_EQ(device.limits.sms, 40);
  EXPECT_EQ(device.limits.l2_bytes, 4 << 20);
  EXPECT_EQ(device.memory_bytes, std::int64_t{80} << 30);
  EXPECT_EQ(device.limits.registers_per_block, 65536);
  EXPECT_EQ(device.limits.registers_per_sm, 65536);
  EXPECT_EQ(device.limits.warp_size, 32);
  EXPECT_EQ(device.limits.threads_per_block, 1024);
  EXPECT_EQ(device.limits.threads_per_sm, 1024);
  EXPECT_EQ(device.limits.blocks_per_sm, 16);
  EXPECT_EQ(device.limits.shared_per_block_bytes, 48 << 10);
  EXPECT_EQ(device.limits.shared_per_block_optin_bytes, 65536);
  EXPECT_EQ(device.limits.shared_per_sm_bytes, 65536);
  EXPECT_EQ(device.limits.reserved_shared_per_block_bytes, 0);
}

TEST(CudaDevice, OneThatIsNotThereSaysHowManyThereAre) {
  const auto driver = test::emulated_driver();

  for (const int ordinal : {-1, 2}) {
    const std::string message = test::message_of<InvalidArgument>(
        [&] { static_cast<void>(describe_cuda_device(*driver, ordinal)); });

    EXPECT_THAT(message, AllOf(HasSubstr("no CUDA device " + std::to_string(ordinal)),
                               HasSubstr("the driver has 2")));
  }
}

}  // namespace
}  // namespace spjit
