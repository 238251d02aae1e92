// Many threads, deadlines and compile_async() with NVIDIA's compiler libraries.

#include <gtest/gtest.h>

#include <chrono>
#include <latch>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "runtime/cuda/cuda_libraries.hpp"
#include "spjit/compiler.hpp"
#include "spjit/error.hpp"
#include "tests/support/compile_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

class ConcurrentCudaCompiler : public ::testing::Test {
 protected:
  ConcurrentCudaCompiler() {
    options_.target = Target::parse("sm_90");
    options_.resources.parallel_compiles = 2;
  }

  void SetUp() override {
    try {
      static_cast<void>(load_cuda_toolchain({.arch = 90, .nvrtc = true, .nvjitlink = true},
                                            found_cuda_libraries()));
    } catch (const NotSupported& error) {
      GTEST_SKIP() << error.what();
    }
  }

  CompileOptions options_;
  Problem problem_ = problem_of(random_matrix(70, 50, 0.8), 40);
};

TEST_F(ConcurrentCudaCompiler, CompilesOneKernelOnce) {
  const Compiler compiler(options_, uncached());
  std::latch begun(1);
  std::latch other_waits(1);
  std::optional<Kernel> first;
  std::jthread leader([&] {
    first = compiler.compile(problem_, at_stage("emitting", [&] {
                               begun.count_down();
                               other_waits.wait();
                             }));
  });
  begun.wait();

  const Kernel second =
      compiler.compile(problem_, at_stage("waiting", [&] { other_waits.count_down(); }));
  leader.join();

  EXPECT_EQ(&first->info(), &second.info());
}

TEST_F(ConcurrentCudaCompiler, GivesTheSameKernelInTheBackground) {
  options_.keep_source = true;
  const Compiler compiler(options_, uncached());

  const Compilation compilation = compiler.compile_async(problem_);
  const Kernel here = compiler.compile(problem_);

  EXPECT_NE(here.ptx(), "");
  EXPECT_EQ(compilation.get().ptx(), here.ptx());
  EXPECT_EQ(compilation.get().info().key, here.info().key);
}

TEST_F(ConcurrentCudaCompiler, ADeadlineAmongManyUnitsEndsItAndLeavesNothing) {
  const TemporaryDirectory directory;
  options_.policy.values["unit_nonzeros"] = "100";
  options_.resources.compile_threads = 1;
  const Problem large = problem_of(random_matrix(600, 400, 0.7), 40);  // takes seconds
  const Compiler compiler(options_, cached_in(directory.path()));
  const auto compile_late = [&] {
    CompileControl late;
    late.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(700);
    return compiler.compile(large, late);
  };

  EXPECT_TRUE(throws<DeadlineExceeded>(compile_late));

  EXPECT_EQ(left_in(directory.path()), std::vector<std::string>());
}

TEST_F(ConcurrentCudaCompiler, TheLimitOfTheOptionsIsStillAFailureToCompile) {
  options_.resources.compile_limit_ms = 1e-3;

  EXPECT_TRUE(
      throws<CompileFailed>([&] { return Compiler(options_, uncached()).compile(problem_); }));
}

}  // namespace
