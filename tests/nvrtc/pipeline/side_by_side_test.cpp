// One cache and one pipeline for the host and a GPU, at the same time.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/cache/cache_store.hpp"
#include "runtime/cuda/cuda_libraries.hpp"
#include "spjit/compiler.hpp"
#include "spjit/error.hpp"
#include "spjit/version.hpp"
#include "tests/support/compile_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

class SideBySide : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      static_cast<void>(load_cuda_toolchain({.arch = 90, .nvrtc = true, .nvjitlink = true},
                                            found_cuda_libraries()));
    } catch (const NotSupported& error) {
      GTEST_SKIP() << error.what();
    }
  }

  [[nodiscard]] static CompileOptions gpu_options() {
    CompileOptions options = hot_options();
    options.target = Target::parse("sm_90:h200");
    return options;
  }

  TemporaryDirectory directory_;
  CsrMatrix matrix_ = random_matrix(60, 70, 0.8);
};

TEST_F(SideBySide, AHostAndAGpuKernelOfOneProblemAreCompiledAtOnceIntoOneCache) {
  const Problem problem = problem_of(matrix_, 33);
  const Compiler host(hot_options(), cached_in(directory_.path()));
  const Compiler gpu(gpu_options(), cached_in(directory_.path()));

  const Compilation on_gpu = gpu.compile_async(problem);
  const Compilation on_host = host.compile_async(problem);
  const std::vector<Kernel> both = {on_host.get(), on_gpu.get()};
  const std::vector<Kernel> again = {host.compile_async(problem).get(),
                                     gpu.compile_async(problem).get()};

  EXPECT_EQ(both[0].info().family, "unrolled");
  EXPECT_EQ(both[1].info().family, "unrolled");
  EXPECT_NE(both[0].info().key, both[1].info().key);
  EXPECT_EQ(CacheStore(directory_.path(), SPJIT_VERSION).list().size(), 2U);
  for (std::size_t i = 0; i < both.size(); ++i) {
    const KernelInfo& fresh = both[i].info();
    const KernelInfo& cached = again[i].info();
    EXPECT_TRUE(cached.from_cache) << cached.note;
    EXPECT_EQ(cached.family, fresh.family);
    EXPECT_EQ(cached.target, fresh.target);
    EXPECT_EQ(cached.key, fresh.key);
    EXPECT_EQ(cached.tile, fresh.tile);
    EXPECT_EQ(cached.reason, fresh.reason);
    EXPECT_EQ(cached.device, fresh.device);
    EXPECT_EQ(cached.code_bytes, fresh.code_bytes);
    EXPECT_EQ(again[i].record(), both[i].record());
    EXPECT_EQ(nlohmann::json::parse(both[i].record()).at("verdicts").back().at("family"),
              fresh.family);
  }
  EXPECT_TRUE(is_kernel_of(both[0], matrix_));
  EXPECT_TRUE(is_kernel_of(again[0], matrix_));
  const std::vector<float> b(70 * 33);
  std::vector<float> c(60 * 33);
  EXPECT_THROW(both[1].run(b.data(), c.data()), InvalidArgument);  // it is in no GPU
}

TEST_F(SideBySide, AGpuKernelOfFilesAgreesWithTheCompiledOne) {
  CompileOptions options = gpu_options();
  options.keep_source = true;
  const Kernel fresh = Compiler(options, uncached()).compile(problem_of(matrix_, 33));

  const Kernel loaded = Kernel::from_artifact(fresh.artifact());

  EXPECT_EQ(loaded.info().family, "unrolled");
  EXPECT_EQ(loaded.info().device, fresh.info().device);
  EXPECT_EQ(loaded.info().tile, fresh.info().tile);
  EXPECT_EQ(loaded.info().reason, fresh.info().reason);
  EXPECT_EQ(loaded.info().note, fresh.info().note);
  EXPECT_EQ(loaded.info().nnz, fresh.info().nnz);
  EXPECT_EQ(loaded.info().ldb, fresh.info().ldb);
  EXPECT_EQ(loaded.info().cuda->arch, 90);
  EXPECT_EQ(loaded.info().cuda->registers, fresh.info().cuda->registers);
  EXPECT_EQ(loaded.info().cuda->toolchain, fresh.info().cuda->toolchain);
  EXPECT_NE(fresh.cuda_source(), "");
  EXPECT_EQ(loaded.cuda_source(), fresh.cuda_source());
  EXPECT_EQ(loaded.record(), fresh.record());
}

}  // namespace
