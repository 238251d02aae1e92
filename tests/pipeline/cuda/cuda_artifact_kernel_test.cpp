// Kernels of artifacts, loaded into the emulated driver and in none. Needs neither a GPU nor
// NVIDIA's libraries.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "runtime/cuda/cuda_stream.hpp"
#include "runtime/cuda/local_gpus.hpp"
#include "spjit/error.hpp"
#include "spjit/kernel.hpp"
#include "tests/support/cuda/cuda_artifacts.hpp"
#include "tests/support/cuda/cuda_cases.hpp"
#include "tests/support/scoped_variable.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;
using nlohmann::json;
using testing::HasSubstr;

/// What `work` throws as an `Expected`; empty if it does not.
template <class Expected, class Work>
std::string message_of(const Work& work) {
  try {
    work();
  } catch (const Expected& error) {
    return error.what();
  }
  return {};
}

class CudaArtifactKernel : public ::testing::Test {
 protected:
  static constexpr std::int64_t k_n = 20;

  /// B and C have gaps between their rows.
  [[nodiscard]] static CudaCase make_case(bool runtime_sizes) {
    CudaKernelSpec spec = cuda_spec(4, k_n);
    spec.ldb = k_n + 2;
    spec.ldc = k_n + 3;
    spec.tile.runtime_sizes = runtime_sizes;
    return make_cuda_case(random_matrix(30, 25, 0.7), spec, ReorderAlgorithm::similarity);
  }

  [[nodiscard]] static json record(const CudaCase& item) {
    return record_of(make_program(item.plan, item.spec, 90), item.spec.tile);
  }
  [[nodiscard]] static Kernel kernel_of(const CudaCase& item) {
    return Kernel::from_artifact(ptx_artifact(ptx_of(item), record(item).dump()));
  }

  ScopedVariable driver_{"SPJIT_CUDA_DRIVER", SPJIT_EMULATED_CUDA};
  CudaCase item_ = make_case(false);
};

TEST_F(CudaArtifactKernel, RunsWithTheSizesItWasCompiledFor) {
  const Kernel kernel = kernel_of(item_).load();
  std::vector<float> c(expected_c(item_).size(), k_untouched);

  kernel.run(item_.b.data(), c.data());

  EXPECT_TRUE(same_bits(c, expected_c(item_)));
  EXPECT_EQ(kernel.device(), 0);
  EXPECT_EQ(kernel.info().family, "unrolled");
  EXPECT_EQ(kernel.info().device, "H100");
  EXPECT_EQ(kernel.info().ldb, k_n + 2);
}

TEST_F(CudaArtifactKernel, TakesTheRecordAsTheCommandLineWrapsIt) {
  const json wrapped = {{"file", "a.mtx"}, {"record", record(item_)}};

  const Kernel kernel = Kernel::from_artifact(ptx_artifact(ptx_of(item_), wrapped.dump()));

  json read = json::parse(kernel.record());
  EXPECT_EQ(read.erase("files"), 1U);  // of what the record was written for
  EXPECT_EQ(read, record(item_));
  std::vector<float> c(expected_c(item_).size(), k_untouched);
  kernel.load().run(item_.b.data(), c.data());
  EXPECT_TRUE(same_bits(c, expected_c(item_)));
}

TEST_F(CudaArtifactKernel, OfRunTimeSizesTakesOthersAndFillsInWhatIsLeftOut) {
  const CudaCase any = make_case(true);
  const Kernel kernel = kernel_of(any).load();
  CudaCase wider = any;
  wider.spec.n = wider.spec.ldb = wider.spec.ldc = 70;
  wider.b = dense_values(25 * 70);
  std::vector<float> as_compiled(expected_c(any).size(), k_untouched);
  std::vector<float> c(expected_c(wider).size(), k_untouched);

  kernel.run(any.b.data(), as_compiled.data());
  kernel.run({.b = wider.b.data(), .c = c.data(), .n = 70});

  EXPECT_TRUE(kernel.info().runtime_n);
  EXPECT_TRUE(same_bits(as_compiled, expected_c(any)));
  EXPECT_TRUE(same_bits(c, expected_c(wider)));
}

TEST_F(CudaArtifactKernel, RefusesSizesItWasNotCompiledFor) {
  const Kernel kernel = kernel_of(item_).load();
  std::vector<float> c(30 * 100);
  const std::vector<float> b(25 * 100);
  const auto run = [&](const Arguments& sizes) {
    return message_of<InvalidArgument>([&] {
      kernel.run(
          {.b = {b.data(), {.ld = sizes.b.ld}}, .c = {c.data(), {.ld = sizes.c.ld}}, .n = sizes.n});
    });
  };

  EXPECT_THAT(run({.n = 21}), HasSubstr("n is 21; this kernel was compiled for n = 20"));
  EXPECT_THAT(run({.b = {nullptr, {.ld = 30}}}),
              HasSubstr("compiled for n = 20, ldb = 22, ldc = 23"));
  EXPECT_THAT(run({.c = {nullptr, {.ld = 30}}}),
              HasSubstr("compiled for n = 20, ldb = 22, ldc = 23"));
  EXPECT_THAT(run({.b = {nullptr, {.ld = 19}}}),
              HasSubstr("ldb is 19; expected at least 20, the elements of a row"));
  EXPECT_THAT(message_of<InvalidArgument>([&] { kernel.run(nullptr, c.data()); }),
              HasSubstr("b is null"));
  EXPECT_THAT(message_of<InvalidArgument>([&] { kernel.run_panels(b.data(), c.data()); }),
              HasSubstr("takes no panels"));
}

TEST_F(CudaArtifactKernel, IsLaunchedInAStream) {
  const Kernel kernel = kernel_of(item_).load();
  const CudaContext context(local_cuda_driver(), 0);
  const CudaStream stream(context);
  DeviceBuffer b(context, item_.b.size() * sizeof(float));
  std::vector<float> c(expected_c(item_).size(), k_untouched);
  DeviceBuffer device_c(context, c.size() * sizeof(float));
  b.upload(std::as_bytes(std::span(item_.b)));
  device_c.upload(std::as_bytes(std::span(c)));

  kernel.launch({.b = static_cast<const float*>(b.pointer()),
                 .c = static_cast<float*>(device_c.pointer()),
                 .stream = stream.handle()});
  stream.synchronize();
  device_c.download(std::as_writable_bytes(std::span(c)));

  EXPECT_TRUE(same_bits(c, expected_c(item_)));
}

TEST_F(CudaArtifactKernel, InNoGpuSaysHowToLoadIt) {
  const Kernel kernel = kernel_of(item_);
  std::vector<float> c(30 * 23);
  const auto says = [](const auto& work) {
    EXPECT_THAT(message_of<InvalidArgument>(work), HasSubstr("is in no GPU; load it first"));
  };

  says([&] { kernel.run(item_.b.data(), c.data()); });
  says([&] { kernel.run_panels(item_.b.data(), c.data()); });
  says([&] { kernel.launch(item_.b.data(), c.data()); });
  says([&] { static_cast<void>(kernel.driver_active_blocks()); });
  EXPECT_EQ(kernel.device(), -1);
  EXPECT_THAT(message_of<NotSupported>([&] { static_cast<void>(kernel.object("name")); }),
              HasSubstr("no object that can be linked"));
  EXPECT_THAT(message_of<InvalidArgument>([&] { static_cast<void>(kernel.panel_elements(3)); }),
              HasSubstr("takes no panels"));
}

TEST_F(CudaArtifactKernel, LoadingLeavesTheOneItWasLoadedFromInNoGpu) {
  const Kernel kernel = kernel_of(item_);
  const Kernel loaded = kernel.load();

  EXPECT_EQ(kernel.device(), -1);
  EXPECT_EQ(loaded.device(), 0);
  EXPECT_EQ(loaded.load().device(), 0);
  EXPECT_EQ(loaded.record(), kernel.record());
  EXPECT_EQ(loaded.image().data(), kernel.image().data());
}

TEST_F(CudaArtifactKernel, IsNotLoadedIntoAGpuThatThereIsNot) {
  const Kernel kernel = kernel_of(item_);
  EXPECT_THAT(message_of<InvalidArgument>([&] { static_cast<void>(kernel.load(7)); }),
              HasSubstr("7"));

  const ScopedVariable nowhere("SPJIT_CUDA_DRIVER", "/nowhere/libcuda.so.1");
  const std::string error = message_of<NotSupported>([&] { static_cast<void>(kernel.load()); });
  EXPECT_THAT(error, HasSubstr("/nowhere/libcuda.so.1"));
  EXPECT_EQ(error.find('\n'), std::string::npos);
}

TEST_F(CudaArtifactKernel, OfDamagedFilesOrRecordsIsRefused) {
  const auto refuses = [&](const std::string& ptx, const json& record) {
    return message_of<Error>(
        [&] { static_cast<void>(Kernel::from_artifact(ptx_artifact(ptx, record.dump()))); });
  };
  const json whole = record(item_);
  json without = whole;
  without.erase("program");
  json other_family = whole;
  other_family["family"] = "no such family";
  json no_tile = whole;
  no_tile.erase("tile");

  EXPECT_EQ(refuses(ptx_of(item_), whole), "");
  EXPECT_THAT(refuses("", whole), HasSubstr("the image of a CUDA kernel is empty"));
  EXPECT_THAT(refuses("\x7f"
                      "ELF and no more",
                      whole),
              testing::Not(testing::IsEmpty()));
  EXPECT_THAT(refuses(ptx_of(item_), without), HasSubstr("\"program\""));
  EXPECT_THAT(refuses(ptx_of(item_), no_tile), HasSubstr("tile"));
  EXPECT_THAT(refuses(ptx_of(item_), other_family), HasSubstr("no such family"));
  EXPECT_THAT(refuses(ptx_of(item_), json::object()), HasSubstr("\"family\""));
  EXPECT_THAT(message_of<Error>(
                  [] { static_cast<void>(Kernel::from_artifact(ptx_artifact("", "no JSON"))); }),
              HasSubstr("no JSON"));
}

}  // namespace
