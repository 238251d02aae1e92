#include "runtime/cuda/cuda_memory.hpp"

#include <gmock/gmock.h>

#include <limits>
#include <optional>
#include <utility>

#include "cuda_testing.hpp"
#include "runtime/cuda/cuda_stream.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

CudaContextHandle current_context() {
  CudaContextHandle handle = nullptr;
  EXPECT_EQ(test::emulated_driver()->api().current_context(&handle), 0);
  return handle;
}

TEST(CudaContext, ScopesNestAndLeaveTheCallersContext) {
  const CudaContext first(test::emulated_driver(), 0);
  const CudaContext second(test::emulated_driver(), 1);
  ASSERT_EQ(current_context(), nullptr);

  {
    const CurrentCudaContext outer(first);
    EXPECT_EQ(current_context(), first.handle());
    {
      const CurrentCudaContext inner(second);
      EXPECT_EQ(current_context(), second.handle());
    }
    EXPECT_EQ(current_context(), first.handle());
  }

  EXPECT_EQ(current_context(), nullptr);
}

TEST(CudaContext, CallersContextSurvivesWorkOnAnotherDevice) {
  const CudaContext callers(test::emulated_driver(), 0);
  const CudaContext other(test::emulated_driver(), 1);
  const CurrentCudaContext current(callers);

  {
    const DeviceBuffer buffer = test::upload_words(other, {1, 2});
    const CudaStream stream(other);
    stream.synchronize();
    other.synchronize();
  }

  EXPECT_EQ(current_context(), callers.handle());
}

TEST(CudaContext, CopiesKeepItAlive) {
  std::optional<CudaContext> original(std::in_place, test::emulated_driver(), 0);
  const CudaContext copy = *original;

  original.reset();

  EXPECT_THAT(test::download_words(test::upload_words(copy, {5})), ElementsAre(5));
}

TEST(CudaContext, OfADeviceThatIsNotThereIsRefused) {
  EXPECT_THROW(CudaContext(test::emulated_driver(), 2), InvalidArgument);
}

TEST(DeviceBuffer, GivesBackWhatWasUploadedOnEachDevice) {
  for (const int ordinal : {0, 1}) {
    const CudaContext context(test::emulated_driver(), ordinal);

    const DeviceBuffer buffer = test::upload_words(context, {1, 2, 3});

    EXPECT_EQ(buffer.bytes(), 12);
    EXPECT_THAT(test::download_words(buffer), ElementsAre(1, 2, 3));
  }
}

TEST(DeviceBuffer, CopiesPartsAndFills) {
  const CudaContext context(test::emulated_driver(), 0);
  const CudaStream stream(context);
  DeviceBuffer buffer(context, 12);
  const std::vector<std::uint32_t> word = {7};
  std::vector<std::uint32_t> last(2);

  buffer.fill_on(stream.handle(), std::byte{1});
  stream.synchronize();
  buffer.upload(std::as_bytes(std::span(word)), 4);
  buffer.download(std::as_writable_bytes(std::span(last)), 4);

  EXPECT_THAT(last, ElementsAre(7, 0x01010101));
  EXPECT_THAT(test::download_words(buffer), ElementsAre(0x01010101, 7, 0x01010101));
}

TEST(DeviceBuffer, OfNoBytesIsFine) {
  const CudaContext context(test::emulated_driver(), 0);

  DeviceBuffer buffer(context, 0);
  buffer.upload({});
  buffer.fill_on(nullptr, std::byte{0});
  buffer.download({});

  EXPECT_EQ(buffer.address(), 0);
  EXPECT_EQ(buffer.bytes(), 0);
}

TEST(DeviceBuffer, RangeOutsideIsRefused) {
  const CudaContext context(test::emulated_driver(), 0);
  DeviceBuffer buffer(context, 8);
  const std::vector<std::byte> bytes(8);

  EXPECT_THAT(test::message_of<InvalidArgument>([&] { buffer.upload(bytes, 1); }),
              HasSubstr("8 bytes at offset 1 of a buffer of 8 bytes on device 0"));
  EXPECT_THROW(buffer.upload(bytes, std::numeric_limits<std::size_t>::max()), InvalidArgument);
}

TEST(DeviceBuffer, MoreThanTheDeviceHasIsADeviceErrorWithTheSizeAndTheDevice) {
  const CudaContext context(test::emulated_driver(), 1);

  const std::string message = test::message_of<DeviceError>(
      [&] { static_cast<void>(DeviceBuffer(context, std::size_t{1} << 40)); });

  EXPECT_EQ(message,
            "cannot allocate 1099511627776 bytes on device 1 (\"emulated T4\"): "
            "CUDA_ERROR_OUT_OF_MEMORY (2), out of memory");
}

TEST(DeviceBuffer, FailedCopyIsADeviceErrorWithTheSizeAndTheDevice) {
  const CudaContext context(test::emulated_driver(), 0);
  DeviceBuffer buffer(context, 8);
  ASSERT_EQ(
      [&] {
        const CurrentCudaContext current(context);
        return context.driver().api().free(buffer.address());
      }(),
      0);

  const std::string message =
      test::message_of<DeviceError>([&] { buffer.upload(std::vector<std::byte>(8)); });

  EXPECT_EQ(message,
            "cannot copy 8 bytes to device 0 (\"emulated T4\"): CUDA_ERROR_INVALID_VALUE (1), "
            "invalid argument");
}

TEST(DeviceBuffer, MovesItsBytes) {
  const CudaContext context(test::emulated_driver(), 0);
  DeviceBuffer first = test::upload_words(context, {1});
  DeviceBuffer second = test::upload_words(context, {2});

  second = std::move(first);
  const DeviceBuffer third = std::move(second);

  EXPECT_THAT(test::download_words(third), ElementsAre(1));
}

TEST(DeviceBuffer, IsSilentWhenItsContextWentBeforeIt) {
  const CudaContext context(test::emulated_driver(), 0);
  const CudaApi& api = context.driver().api();
  CudaContextHandle again = nullptr;

  {
    const DeviceBuffer lost = test::upload_words(context, {3});
    ASSERT_EQ(api.release_context(0), 0);
  }

  EXPECT_EQ(api.retain_context(&again, 0), 0);  // for `context` to release
}

TEST(DeviceOfMemory, IsTheOneThatHasItWhicheverAsks) {
  const CudaContext first(test::emulated_driver(), 0);
  const CudaContext second(test::emulated_driver(), 1);
  const DeviceBuffer here(first, 8);
  const DeviceBuffer there(second, 8);

  EXPECT_EQ(device_of_memory(first, here.address() + 4), 0);
  EXPECT_EQ(device_of_memory(first, there.address() + 4), 1);
  EXPECT_EQ(device_of_memory(second, here.address()), 0);
}

TEST(DeviceOfMemory, IsNoneForTheHostAndForWhatWasFreed) {
  const CudaContext context(test::emulated_driver(), 0);
  const int on_host = 0;
  const CudaAddress freed = DeviceBuffer(context, 8).address();

  EXPECT_EQ(device_of_memory(context, reinterpret_cast<CudaAddress>(&on_host)), std::nullopt);
  EXPECT_EQ(device_of_memory(context, freed), std::nullopt);
}

}  // namespace
}  // namespace spjit
