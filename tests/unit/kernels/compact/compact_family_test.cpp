// Kernels of the family `compact`, compiled because the policy names it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/host_cpu.hpp"
#include "spjit/compiler.hpp"
#include "spjit/error.hpp"
#include "tests/support/compile_testing.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;
using testing::HasSubstr;

CompileOptions named(const std::string& family, int threads = 1) {
  CompileOptions options;
  options.policy.family = family;
  options.resources.threads = threads;
  return options;
}

Kernel compile_with(const Problem& problem, const CompileOptions& options) {
  return Compiler(options, uncached()).compile(problem);
}

/// Of a run with gaps between the rows of B and C; gaps are -7.
std::vector<float> product(const Kernel& kernel, std::int64_t n) {
  const std::int64_t ld = n + 3;
  const std::vector<float> b = dense_values(kernel.cols() * ld);
  std::vector<float> c(static_cast<std::size_t>(kernel.rows() * ld), -7);
  kernel.run(b.data(), ld, c.data(), ld);
  return c;
}

class CompactFamilyTest : public testing::Test {
 protected:
  void SetUp() override {
    if (Target{}.isa() == HostIsa::generic) GTEST_SKIP() << "this CPU has no AVX2";
  }
};

TEST_F(CompactFamilyTest, HasTheBitsOfTheReferenceForEveryNAndThreads) {
  for (const std::int64_t n : {1, 5, 8, 16, 17, 40, 64, 65, 200}) {
    for (const int threads : {1, 3}) {
      const Problem problem = problem_of(random_matrix(131, 300, 0.8), n);
      const Kernel kernel = compile_with(problem, named("compact", threads));

      EXPECT_EQ(kernel.info().family, "compact");
      EXPECT_TRUE(
          same_bits(product(kernel, n), product(compile_with(problem, named("reference")), n)))
          << n << " " << threads;
    }
  }
}

TEST_F(CompactFamilyTest, OfAFewLongRowsThreadsShareTheColumns) {
  const Problem problem = problem_of(random_matrix(20, 3000, 0.5), 300);

  const Kernel kernel = compile_with(problem, named("compact", 3));

  EXPECT_TRUE(
      same_bits(product(kernel, 300), product(compile_with(problem, named("reference")), 300)));
}

TEST_F(CompactFamilyTest, TakesPanels) {
  Problem problem = problem_of(random_matrix(50, 300, 0.8), 70);
  problem.panel_columns = 32;
  const Kernel kernel = compile_with(problem, named("compact"));
  const std::vector<float> b = dense_values(300 * 70);
  std::vector<float> b_panels(static_cast<std::size_t>(kernel.panel_floats(300)));
  std::vector<float> c_panels(static_cast<std::size_t>(kernel.panel_floats(50)), -7);
  std::vector<float> c(50 * 70, -7);
  std::vector<float> expected(50 * 70, -7);

  kernel.to_panels(b.data(), 70, 300, b_panels.data());
  kernel.run_panels(b_panels.data(), c_panels.data());
  kernel.from_panels(c_panels.data(), 50, c.data(), 70);

  EXPECT_EQ(kernel.info().panel_columns, 32);
  compile_with(problem_of(random_matrix(50, 300, 0.8), 70), named("reference"))
      .run(b.data(), expected.data());
  EXPECT_TRUE(same_bits(c, expected));
}

TEST_F(CompactFamilyTest, TakesAnyNWhenItRuns) {
  Problem problem = problem_of(random_matrix(50, 300, 0.8), 70);
  problem.n = Extent::at_run_time(8);
  const Kernel kernel = compile_with(problem, named("compact"));
  const Kernel reference = compile_with(problem, named("reference"));
  for (const std::int64_t n : {1, 8, 100}) {
    const std::vector<float> b = dense_values(300 * n);
    std::vector<float> c(static_cast<std::size_t>(50 * n), -7);
    std::vector<float> expected = c;

    kernel.run({.b = b.data(), .ldb = n, .c = c.data(), .ldc = n, .n = n});
    reference.run({.b = b.data(), .ldb = n, .c = expected.data(), .ldc = n, .n = n});

    EXPECT_TRUE(same_bits(c, expected)) << n;
  }
}

TEST_F(CompactFamilyTest, IsFoundInTheCacheAndItsArtifactRuns) {
  const TemporaryDirectory directory;
  const Problem problem = problem_of(random_matrix(50, 300, 0.8), 70);
  const Compiler compiler(named("compact"), cached_in(directory.path()));

  const Kernel first = compiler.compile(problem);
  const Kernel second = compiler.compile(problem);

  EXPECT_TRUE(second.info().from_cache);
  EXPECT_TRUE(same_bits(product(second, 70), product(first, 70)));
  EXPECT_TRUE(
      same_bits(product(Kernel::from_artifact(first.artifact(), 2), 70), product(first, 70)));
}

TEST(NamedFamily, IsTheOnlyOneThatIsAsked) {
  const Problem problem = problem_of(random_matrix(50, 30, 0.8), 20);

  EXPECT_EQ(compile_with(problem, named("csr")).info().family, "csr");
  EXPECT_EQ(compile_with(problem, named("reference")).info().family, "reference");
}

TEST(NamedFamily, ThatRefusesIsOneError) {
  CompileOptions options = named("sliced");
  try {
    static_cast<void>(compile_with(problem_of(random_matrix(50, 30, 0.8), 20), options));
    FAIL() << "sliced took n = 20";
  } catch (const NotSupported& error) {
    EXPECT_THAT(error.what(), HasSubstr("sliced: it is for n of 1 to 4"));
    EXPECT_THAT(error.what(), HasSubstr("csr: the policy names sliced"));
  }
}

TEST(NamedFamily, ThatThereIsNotIsRefusedWithTheList) {
  try {
    const Compiler compiler(named("dense"), uncached());
    FAIL() << "there is a family dense";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("\"dense\" is unknown; expected one of compact, sliced"));
  }
}

}  // namespace
