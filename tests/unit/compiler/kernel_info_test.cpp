// What a kernel says of itself, and that a fresh one, one of the cache and one of files agree.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "plan/problem.hpp"
#include "plan/search_policy.hpp"
#include "spjit/compiler.hpp"
#include "spjit/error.hpp"
#include "tests/support/compile_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;
using nlohmann::json;

/// Everything that does not depend on the call that made or loaded the kernel.
json lasting(const KernelInfo& info) {
  return {{"family", info.family},
          {"target", info.target.name()},
          {"device", info.device},
          {"rows", info.rows},
          {"cols", info.cols},
          {"n", info.n},
          {"runtime_n", info.runtime_n},
          {"ldb", info.ldb},
          {"ldc", info.ldc},
          {"nnz", info.nnz},
          {"tile", info.tile},
          {"reason", info.reason},
          {"code_bytes", info.code_bytes},
          {"weight_bytes", info.weight_bytes},
          {"panel_columns", info.panel_columns},
          {"cuda", info.cuda.has_value()}};
}

/// A problem and options that make a kernel of each family that runs here.
struct FamilyCase {
  std::string family;
  Problem problem;
  CompileOptions options = hot_options();
};

std::vector<FamilyCase> family_cases() {
  const CsrMatrix matrix = random_matrix(60, 70, 0.8);
  CompileOptions csr;
  csr.policy.family = "csr";
  CompileOptions slow;
  slow.policy.family = "reference";
  Problem any_n = problem_of(matrix, 33);
  any_n.n = Extent::at_run_time(33);
  Problem wide = problem_of(matrix, 33);
  wide.b.leading_dimension = 40;
  wide.c.leading_dimension = 35;
  std::vector<FamilyCase> cases = {{"unrolled", problem_of(matrix, 33)},
                                   {"unrolled", wide},
                                   {"csr", problem_of(matrix, 33), csr},
                                   {"reference", any_n, slow}};
  if (compiles_and_runs(HostIsa::avx512)) {
    cases.push_back({"compact", any_n, {}});
    cases.push_back({"dense", problem_of(random_matrix(60, 70, 0.2), 33)});
    cases.push_back({"windows", problem_of(matrix, 1), options_of(HostIsa::avx512)});
  }
  return cases;
}

TEST(KernelInfo, OfAFreshKernelOfACachedOneAndOfFilesAgrees) {
  for (const FamilyCase& of : family_cases()) {
    SCOPED_TRACE(of.family);
    const TemporaryDirectory directory;
    CompileOptions options = of.options;
    options.resources.threads = 2;
    const Compiler compiler(options, cached_in(directory.path()));

    const Kernel fresh = compiler.compile(of.problem);
    const Kernel cached = compiler.compile(of.problem);
    const Kernel from_files = Kernel::from_artifact(fresh.artifact(), 2);
    const Kernel from_cached_files = Kernel::from_artifact(cached.artifact());

    EXPECT_EQ(fresh.info().family, of.family);
    EXPECT_EQ(lasting(cached.info()), lasting(fresh.info()));
    EXPECT_EQ(lasting(from_files.info()), lasting(fresh.info()));
    EXPECT_EQ(lasting(from_cached_files.info()), lasting(fresh.info()));
    EXPECT_EQ(cached.record(), fresh.record());
    EXPECT_EQ(from_files.record(), fresh.record());
    // What is of the call.
    EXPECT_FALSE(fresh.info().from_cache);
    EXPECT_TRUE(cached.info().from_cache);
    EXPECT_FALSE(from_files.info().from_cache);
    EXPECT_EQ(cached.info().key, fresh.info().key);
    EXPECT_EQ(from_files.info().key, "");
    EXPECT_EQ(cached.info().cache_directory, directory.path());
    EXPECT_EQ(cached.info().threads, 2);
    EXPECT_EQ(from_files.info().threads, 2);
    EXPECT_EQ(from_cached_files.info().threads, 1);
    for (const Kernel& kernel : {fresh, cached, from_files, from_cached_files}) {
      EXPECT_EQ(kernel.info().note, "");
      EXPECT_EQ(kernel.device(), -1);
      const std::int64_t ldb = kernel.info().ldb;
      const std::int64_t ldc = kernel.info().ldc;
      const std::vector<float> b = dense_values(70 * ldb);
      std::vector<float> c(index(60 * ldc), 0.0F);
      kernel.run(b.data(), c.data());  // as compiled for
      const std::int64_t n = kernel.n();
      const auto product =
          reference_product(*of.problem.a, kernel.info().target.isa(), b.data(), ldb, n);
      for (std::int64_t row = 0; row < 60; ++row) {
        EXPECT_TRUE(same_bits(std::span(c).subspan(index(row * ldc), index(n)),
                              std::span(product).subspan(index(row * n), index(n))));
      }
    }
  }
}

TEST(RunTimeN, IsComputedByCompact) {
  if (Target().isa() == HostIsa::generic) GTEST_SKIP() << "compact is for AVX-512 and AVX2";
  const TemporaryDirectory directory;
  const CsrMatrix matrix = random_matrix(60, 70, 0.8);
  Problem problem;
  problem.a = matrix;
  problem.n = Extent::at_run_time(33);
  const Compiler compiler({}, cached_in(directory.path()));

  const Kernel fresh = compiler.compile(problem);
  const Kernel cached = compiler.compile(problem);

  EXPECT_EQ(fresh.info().family, "compact");
  EXPECT_THAT(fresh.info().reason, testing::StartsWith("heuristic: A as data"));
  EXPECT_TRUE(fresh.info().runtime_n);
  EXPECT_EQ(fresh.info().n, 33);
  EXPECT_TRUE(cached.info().from_cache);
  EXPECT_EQ(cached.info().family, fresh.info().family);
  EXPECT_EQ(cached.info().reason, fresh.info().reason);
  EXPECT_NE(compiler.compile(problem_of(matrix, 33)).info().key, fresh.info().key);
  for (const Kernel& kernel : {fresh, cached}) {
    for (const std::int64_t n : {1, 7, 33, 100}) {
      const std::vector<float> b = dense_values(70 * (n + 2));
      std::vector<float> c(index(60 * n), -7.0F);
      kernel.run({.b = {b.data(), {.ld = n + 2}}, .c = c.data(), .n = n});
      EXPECT_TRUE(
          same_bits(c, reference_product(matrix, kernel.info().target.isa(), b.data(), n + 2, n)));
    }
  }
}

TEST(RunTimeN, HasItsProblemAndPolicyInTheRecord) {
  const CsrMatrix matrix = random_matrix(60, 70, 0.8);
  Problem problem;
  problem.a = matrix;
  problem.n = Extent::at_run_time(33);
  CompileOptions options = hot_options();
  options.policy.top_k = 3;

  const json record = json::parse(Compiler(options, uncached()).compile(problem).record());
  const Problem read = read_problem(record.at("problem"), matrix);

  EXPECT_EQ(read.n, problem.n);
  EXPECT_EQ(read.b, problem.b);
  EXPECT_EQ(read.c, problem.c);
  EXPECT_EQ(read.panel_columns, problem.panel_columns);
  EXPECT_EQ(read.operation, problem.operation);
  EXPECT_EQ(to_json(read), record.at("problem"));
  EXPECT_EQ(read_search_policy(record.at("policy")).top_k, 3);
  CsrMatrix other = matrix;
  other.values[0] *= 2;
  EXPECT_THROW(static_cast<void>(read_problem(record.at("problem"), other)), Error);
}

TEST(RunTimeN, ThatWasNotAskedForIsRefusedByTheKernel) {
  const Kernel kernel =
      Compiler(hot_options(), uncached()).compile(problem_of(random_matrix(6, 5, 0.5), 8));
  const std::vector<float> b(5 * 16);
  std::vector<float> c(6 * 16);

  EXPECT_THROW(kernel.run({.b = b.data(), .c = c.data(), .n = 16}), InvalidArgument);
  EXPECT_NO_THROW(kernel.run({.b = b.data(), .c = c.data(), .n = 8}));
}

TEST(Avx512SlicedKernel, HasARecordWithoutATile) {
  if (!compiles_and_runs(HostIsa::avx512)) GTEST_SKIP() << "this CPU has no AVX-512";
  const TemporaryDirectory directory;
  const CsrMatrix matrix = random_matrix(60, 70, 0.8);
  const Compiler compiler(options_of(HostIsa::avx512), cached_in(directory.path()));

  const Kernel fresh = compiler.compile(problem_of(matrix, 1));
  const Kernel cached = compiler.compile(problem_of(matrix, 1));

  for (const Kernel& kernel : {fresh, cached}) {
    const json record = json::parse(kernel.record());
    EXPECT_EQ(record.at("family"), "windows");
    EXPECT_EQ(record.at("tile"), nullptr);
    EXPECT_EQ(record.at("grouping"), nullptr);
    EXPECT_EQ(record.at("code_bytes"), 0);
    EXPECT_EQ(record.at("verdicts").size(), 3U);
    EXPECT_EQ(record.at("search").at("timed"), false);
    EXPECT_EQ(kernel.info().family, "windows");
    EXPECT_EQ(kernel.info().tile, "");
    EXPECT_THAT(kernel.info().reason, testing::StartsWith("heuristic: n is 1"));
    EXPECT_TRUE(is_kernel_of(kernel, matrix));
  }
  EXPECT_TRUE(cached.info().from_cache);
}

}  // namespace
