// Kernels of the families `compact` and `dense`, compiled because the policy names them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/host_cpu.hpp"
#include "spjit/compiler.hpp"
#include "spjit/error.hpp"
#include "tests/support/compile_testing.hpp"
#include "tests/support/convolution_cases.hpp"
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

/// The name of a family that copies A when it is loaded.
class LoopingFamily : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (Target{}.isa() == HostIsa::generic) GTEST_SKIP() << "this CPU has no AVX2";
  }
  static std::string family() { return GetParam(); }
};

TEST_P(LoopingFamily, HasTheBitsOfTheReferenceForEveryNAndThreads) {
  for (const std::int64_t n : {1, 5, 8, 16, 17, 40, 64, 65, 200}) {
    for (const int threads : {1, 3}) {
      const Problem problem = problem_of(random_matrix(131, 300, 0.7), n);
      const Kernel kernel = compile_with(problem, named(family(), threads));

      EXPECT_EQ(kernel.info().family, family());
      EXPECT_TRUE(
          same_bits(product(kernel, n), product(compile_with(problem, named("reference")), n)))
          << n << " " << threads;
    }
  }
}

TEST_P(LoopingFamily, OfAFewLongRowsThreadsShareTheColumns) {
  const Problem problem = problem_of(random_matrix(20, 3000, 0.5), 300);

  const Kernel kernel = compile_with(problem, named(family(), 3));

  EXPECT_TRUE(
      same_bits(product(kernel, 300), product(compile_with(problem, named("reference")), 300)));
}

TEST_P(LoopingFamily, TakesPanels) {
  Problem problem = problem_of(random_matrix(50, 300, 0.7), 70);
  problem.panel_columns = 32;
  const Kernel kernel = compile_with(problem, named(family()));
  const std::vector<float> b = dense_values(300 * 70);
  std::vector<float> b_panels(static_cast<std::size_t>(kernel.panel_elements(300)));
  std::vector<float> c_panels(static_cast<std::size_t>(kernel.panel_elements(50)), -7);
  std::vector<float> c(50 * 70, -7);
  std::vector<float> expected(50 * 70, -7);

  kernel.to_panels(b.data(), 70, 300, b_panels.data());
  kernel.run_panels(b_panels.data(), c_panels.data());
  kernel.from_panels(c_panels.data(), 50, c.data(), 70);

  EXPECT_EQ(kernel.info().panel_columns, 32);
  compile_with(problem_of(random_matrix(50, 300, 0.7), 70), named("reference"))
      .run(b.data(), expected.data());
  EXPECT_TRUE(same_bits(c, expected));
}

TEST_P(LoopingFamily, TakesAnyNWhenItRuns) {
  Problem problem = problem_of(random_matrix(50, 300, 0.7), 70);
  problem.n = Extent::at_run_time(8);
  const Kernel kernel = compile_with(problem, named(family()));
  const Kernel reference = compile_with(problem, named("reference"));
  for (const std::int64_t n : {1, 8, 100}) {
    const std::vector<float> b = dense_values(300 * n);
    std::vector<float> c(static_cast<std::size_t>(50 * n), -7);
    std::vector<float> expected = c;

    kernel.run({.b = {b.data(), {.ld = n}}, .c = {c.data(), {.ld = n}}, .n = n});
    reference.run({.b = {b.data(), {.ld = n}}, .c = {expected.data(), {.ld = n}}, .n = n});

    EXPECT_TRUE(same_bits(c, expected)) << n;
  }
}

TEST_P(LoopingFamily, IsFoundInTheCacheAndItsArtifactRuns) {
  const TemporaryDirectory directory;
  const Problem problem = problem_of(random_matrix(50, 300, 0.7), 70);
  const Compiler compiler(named(family()), cached_in(directory.path()));

  const Kernel first = compiler.compile(problem);
  const Kernel second = compiler.compile(problem);

  EXPECT_TRUE(second.info().from_cache);
  EXPECT_TRUE(same_bits(product(second, 70), product(first, 70)));
  EXPECT_TRUE(
      same_bits(product(Kernel::from_artifact(first.artifact(), 2), 70), product(first, 70)));
}

INSTANTIATE_TEST_SUITE_P(Families, LoopingFamily, testing::Values("compact", "dense"),
                         [](const auto& of) { return std::string(of.param); });

// Copied columns of B are on the stack up to 1024 floats.
TEST(WindowsFamily, HasTheBitsOfTheReferenceForFewAndManyColumnsOfA) {
  if (Target{}.isa() == HostIsa::generic) GTEST_SKIP() << "this CPU has no AVX2";
  for (const std::int64_t n : {1, 2, 4}) {
    for (const std::int64_t cols : {1024 / n - 16, 1024 / n, 1024 / n + 1, 1024 / n + 16}) {
      const Problem problem = problem_of(random_matrix(70, cols, 0.9), n);
      const Kernel kernel = compile_with(problem, named("windows"));
      const std::vector<float> expected = product(compile_with(problem, named("reference")), n);
      std::vector<float> c(expected.size(), -7);
      const std::vector<float> b = dense_values(cols * (n + 3));
      Arguments arguments{.b = {b.data(), {.ld = n + 3}}, .c = {c.data(), {.ld = n + 3}}};
      arguments.workspace_bytes = kernel.workspace_bytes(arguments);
      std::vector<std::byte> workspace(static_cast<std::size_t>(arguments.workspace_bytes) + 1);
      arguments.workspace = workspace.data();

      kernel.run(arguments);

      EXPECT_EQ(arguments.workspace_bytes == 0, cols * n <= 1024) << cols << " " << n;
      EXPECT_TRUE(same_bits(c, expected)) << cols << " " << n;
      EXPECT_TRUE(same_bits(product(kernel, n), expected)) << cols << " " << n;
    }
  }
}

class DenseFamilyTest : public LoopingFamily {};

// With zeros beside them, what is not finite would spread over the rows.
TEST_P(DenseFamilyTest, HasTheBitsOfTheReferenceForABThatIsNotFinite) {
  const CsrMatrix matrix = random_matrix(100, 300, 0.5);
  for (const std::int64_t n : {1, 8, 40, 300}) {
    for (const int threads : {1, 3}) {
      const Problem problem = problem_of(matrix, n);
      const Kernel kernel = compile_with(problem, named("dense", threads));
      const Kernel reference = compile_with(problem, named("reference"));
      for (const float value :
           {std::numeric_limits<float>::infinity(), std::nanf(""), std::ldexp(1.0F, -149)}) {
        std::vector<float> b = dense_values(300 * n);
        b[static_cast<std::size_t>(299 * n)] = value;
        std::vector<float> c(static_cast<std::size_t>(100 * n), -7);
        std::vector<float> expected = c;

        kernel.run(b.data(), c.data());
        reference.run(b.data(), expected.data());

        EXPECT_TRUE(same_bits(c, expected)) << n << " " << threads << " " << value;
      }
    }
  }
}

TEST_P(DenseFamilyTest, RefusesWhatIsMostlyZeros) {
  try {
    static_cast<void>(compile_with(problem_of(random_matrix(100, 300, 0.9), 8), named("dense")));
    FAIL() << "it took 10 % of entries";
  } catch (const NotSupported& error) {
    EXPECT_THAT(error.what(), HasSubstr("% of A are entries; with its zeros it is too long"));
  }
}

INSTANTIATE_TEST_SUITE_P(Families, DenseFamilyTest, testing::Values("dense"));

TEST(DepthwiseConvolution, SaysThatALibraryMayBeFaster) {
  if (Target{}.isa() == HostIsa::generic) GTEST_SKIP() << "this CPU has no AVX2";
  Convolution of{.channels = 12, .height = 9, .width = 9, .kernel_height = 3, .kernel_width = 3};
  const auto reason_of = [&] {
    return Compiler({}, uncached()).compile(problem_of_convolution(of, 24)).info().reason;
  };
  of.groups = 12;
  const std::string depthwise = reason_of();
  of.groups = 1;
  const std::string other = reason_of();

  EXPECT_THAT(depthwise, HasSubstr("depthwise"));
  EXPECT_THAT(depthwise, HasSubstr("library"));
  EXPECT_THAT(other, testing::Not(HasSubstr("depthwise")));
}

TEST(NamedFamily, IsTheOnlyOneThatIsAsked) {
  const Problem problem = problem_of(random_matrix(50, 30, 0.7), 20);

  EXPECT_EQ(compile_with(problem, named("csr")).info().family, "csr");
  EXPECT_EQ(compile_with(problem, named("reference")).info().family, "reference");
}

TEST(NamedFamily, ThatRefusesIsOneError) {
  CompileOptions options = named("windows");
  try {
    static_cast<void>(compile_with(problem_of(random_matrix(50, 30, 0.7), 20), options));
    FAIL() << "windows took n = 20";
  } catch (const NotSupported& error) {
    EXPECT_THAT(error.what(), HasSubstr("windows: it is for n of 1 to 4"));
    EXPECT_THAT(error.what(), HasSubstr("csr: the policy names windows"));
  }
}

TEST(NamedFamily, ThatThereIsNotIsRefusedWithTheList) {
  try {
    const Compiler compiler(named("fast"), uncached());
    FAIL() << "there is a family fast";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("\"fast\" is unknown; expected one of dense, compact"));
  }
}

}  // namespace
