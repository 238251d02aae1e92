#include "runtime/cuda/cuda_module.hpp"

#include <gmock/gmock.h>

#include <optional>
#include <thread>
#include <vector>

#include "cuda_testing.hpp"
#include "runtime/cuda/cuda_stream.hpp"
#include "spjit/error.hpp"
#include "tests/support/allocation_counter.hpp"
#include "tests/support/cuda/cubin_writer.hpp"

namespace spjit {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

CudaFunction add_one_on(const CudaContext& context) {
  return test::load_text(context, test::test_ptx()).function("add_one");
}

TEST(CudaModule, ForAnotherArchitectureSaysWhichOneIsNeeded) {
  const CudaContext context(test::emulated_driver(), 0);
  const std::vector<std::byte> cubin = testing_support::write_cubin({});

  const std::string message =
      test::message_of<DeviceError>([&] { static_cast<void>(CudaModule(context, cubin)); });

  EXPECT_THAT(message, AllOf(HasSubstr("cannot load a module of"), HasSubstr("on device 0"),
                             HasSubstr("CUDA_ERROR_NO_BINARY_FOR_GPU (209)"),
                             HasSubstr("a cubin of sm_90 does not run on sm_75"),
                             HasSubstr("compile for sm_75")));
}

TEST(CudaModule, ThatIsNoPtxIsRefusedWithWhatTheDriverPrinted) {
  const CudaContext context(test::emulated_driver(), 0);

  const std::string message = test::message_of<DeviceError>([&] {
    static_cast<void>(test::load_text(context, ".version 7.8\n.target sm_75\nnonsense"));
  });

  EXPECT_THAT(message, AllOf(HasSubstr("CUDA_ERROR_INVALID_PTX (218)"),
                             HasSubstr("; the driver printed: line 3")));
}

TEST(CudaModule, FunctionThatIsNotThereIsNamed) {
  const CudaContext context(test::emulated_driver(), 0);
  const CudaModule module = test::load_text(context, test::test_ptx());

  const std::string message =
      test::message_of<DeviceError>([&] { static_cast<void>(module.function("add_two")); });

  EXPECT_THAT(message, StartsWith("cannot find kernel add_two on device 0 (\"emulated T4\"): "
                                  "CUDA_ERROR_NOT_FOUND (500)"));
}

TEST(CudaFunction, LaunchedOnEachDeviceGivesItsResult) {
  for (const int ordinal : {0, 1}) {
    const CudaContext context(test::emulated_driver(), ordinal);
    const CudaFunction add_one = add_one_on(context);
    const DeviceBuffer in = test::upload_words(context, {10, 20, 30});
    const DeviceBuffer out = test::upload_words(context, {0, 0, 0});
    test::AddOneArguments arguments(in, out, 3);
    const CudaStream stream(context);

    add_one.load();
    add_one.launch({.grid = {2}, .block = {2}}, stream.handle(), arguments.values());
    stream.synchronize();

    EXPECT_THAT(test::download_words(out), ElementsAre(11, 21, 31));
  }
}

TEST(CudaFunction, KeepsItsModuleLoaded) {
  const CudaContext context(test::emulated_driver(), 0);
  std::optional<CudaModule> module = test::load_text(context, test::test_ptx());
  const CudaFunction add_one = module->function("add_one");

  module.reset();

  EXPECT_GT(add_one.active_blocks_per_sm(32, 0), 0);
}

TEST(CudaFunction, TellsHowManyBlocksFit) {
  const CudaContext context(test::emulated_driver(), 0);
  const CudaFunction add_one = add_one_on(context);

  EXPECT_EQ(add_one.active_blocks_per_sm(512, 0), 2);
  EXPECT_THROW(static_cast<void>(add_one.active_blocks_per_sm(0, 0)), DeviceError);
}

TEST(CudaFunction, TakesMoreThan48KibOfSharedMemoryOnceAllowed) {
  const CudaContext context(test::emulated_driver(), 0);
  const CudaFunction add_one = add_one_on(context);
  const DeviceBuffer none(context, 0);
  test::AddOneArguments arguments(none, none, 0);
  const CudaLaunchShape shape{.dynamic_shared_bytes = 60 << 10};

  EXPECT_THROW(add_one.launch(shape, nullptr, arguments.values()), DeviceError);
  add_one.set_max_dynamic_shared(60 << 10);

  EXPECT_NO_THROW(add_one.launch(shape, nullptr, arguments.values()));
  EXPECT_THAT(test::message_of<DeviceError>([&] { add_one.set_max_dynamic_shared(1 << 20); }),
              StartsWith("cannot allow 1048576 bytes of dynamic shared memory for kernel add_one"));
}

TEST(CudaFunction, LaunchOfTooManyThreadsNamesTheKernelItsGridAndItsBlock) {
  const CudaContext context(test::emulated_driver(), 1);
  const CudaFunction add_one = add_one_on(context);
  const DeviceBuffer none(context, 0);
  test::AddOneArguments arguments(none, none, 0);

  const std::string message = test::message_of<DeviceError>([&] {
    add_one.launch({.grid = {3, 2}, .block = {1025}}, nullptr, arguments.values());
  });

  EXPECT_EQ(message,
            "cannot launch kernel add_one with a grid of 3 x 2 x 1 blocks of 1025 x 1 x 1 threads "
            "and 0 bytes of dynamic shared memory on device 1 (\"emulated T4\"): "
            "CUDA_ERROR_INVALID_VALUE (1), invalid argument");
}

TEST(CudaFunction, FaultOfAKernelIsThrownByWhatWaitsForIt) {
  const CudaContext context(test::emulated_driver(), 0);
  const CudaFunction fault = test::load_text(context, test::test_ptx()).function("fault");
  const CudaStream stream(context);

  fault.launch({}, stream.handle(), nullptr);

  EXPECT_THAT(test::message_of<DeviceError>([&] { stream.synchronize(); }),
              StartsWith("cannot finish the work of a stream on device 0 (\"emulated T4\"): "
                         "CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
}

TEST(CudaFunction, LaunchAllocatesNoMoreThanTheDriver) {
  const CudaContext context(test::emulated_driver(), 0);
  const CudaFunction add_one = add_one_on(context);
  const DeviceBuffer words = test::upload_words(context, {1});
  test::AddOneArguments arguments(words, words, 1);
  const CudaApi& api = context.driver().api();
  CudaFunctionHandle handle = nullptr;
  const CurrentCudaContext current(context);
  CudaModuleHandle module = nullptr;
  const std::string text(test::test_ptx());
  ASSERT_EQ(api.load_module(&module, text.c_str(), 0, nullptr, nullptr), 0);
  ASSERT_EQ(api.function(&handle, module, "add_one"), 0);

  const std::int64_t start = testing_support::allocations_so_far();
  ASSERT_EQ(api.launch(handle, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments.values(), nullptr), 0);
  const std::int64_t middle = testing_support::allocations_so_far();
  add_one.launch({}, nullptr, arguments.values());
  const std::int64_t end = testing_support::allocations_so_far();

  EXPECT_EQ(end - middle, middle - start);
  EXPECT_EQ(api.unload_module(module), 0);
}

TEST(CudaFunctionConcurrent, LaunchesFromSeveralThreadsOnBothDevicesAreAllDone) {
  const std::array contexts = {CudaContext(test::emulated_driver(), 0),
                               CudaContext(test::emulated_driver(), 1)};
  const std::array functions = {add_one_on(contexts[0]), add_one_on(contexts[1])};
  constexpr std::size_t k_threads = 4;
  constexpr unsigned k_launches = 20;
  std::vector<std::vector<std::uint32_t>> results(k_threads);

  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < k_threads; ++i) {
    threads.emplace_back([&, i] {
      const CudaContext& context = contexts[i % 2];
      const DeviceBuffer words = test::upload_words(context, {static_cast<std::uint32_t>(100 * i)});
      test::AddOneArguments arguments(words, words, 1);
      const CudaStream stream(context);
      for (unsigned launch = 0; launch < k_launches; ++launch) {
        functions[i % 2].launch({}, stream.handle(), arguments.values());
      }
      stream.synchronize();
      results[i] = test::download_words(words);
    });
  }
  threads.clear();

  EXPECT_THAT(results,
              ElementsAre(ElementsAre(20), ElementsAre(120), ElementsAre(220), ElementsAre(320)));
}

}  // namespace
}  // namespace spjit
