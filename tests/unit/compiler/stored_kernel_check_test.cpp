#include "compiler/stored_kernel_check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "artifact/families.hpp"
#include "artifact/kernel_files.hpp"
#include "plan/problem.hpp"
#include "spjit/compiler.hpp"
#include "spjit/error.hpp"
#include "tests/support/compile_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;
using testing::HasSubstr;

/// The kernel of an artifact, whose record may be another one.
std::shared_ptr<Kernel::Impl> stored(const Kernel& kernel, const nlohmann::json& record) {
  const KernelFamily& family = family_of(record);
  return load_kernel(family, std::make_shared<const BuiltFiles>(family, kernel.artifact().files),
                     record, HostDevice{}, {});
}

nlohmann::json record_without_files(const Kernel& kernel) {
  nlohmann::json record = nlohmann::json::parse(kernel.record());
  record.erase("files");
  return record;
}

std::shared_ptr<Kernel::Impl> stored(const Kernel& kernel) {
  return stored(kernel, record_without_files(kernel));
}

Kernel compiled(const Problem& problem, const std::string& family) {
  CompileOptions options = hot_options();
  options.policy.family = family;
  return Compiler(options, uncached()).compile(problem);
}

TEST(StoredKernelCheck, GivesAnyFamilysMatrixBack) {
  const CsrMatrix matrix = random_matrix(70, 300, 0.4);  // `dense` takes few zeros
  for (const char* family : {"unrolled", "csr", "compact", "dense", "reference"}) {
    for (const std::int64_t n : {1, 19, 300}) {
      SCOPED_TRACE(std::string(family) + ", n = " + std::to_string(n));
      const auto kernel = stored(compiled(problem_of(matrix, n), family));

      const StoredVerdict verdict = check_stored_kernel(*kernel, VerifyMode::full);

      EXPECT_EQ(read_back(*kernel), matrix);
      EXPECT_TRUE(verdict.passed()) << verdict.problem << verdict.not_checked;
      EXPECT_EQ(verdict.note, "");
      EXPECT_TRUE(verdict.verification.complete());
    }
  }
}

TEST(StoredKernelCheck, OfRunTimeValuesItsPatternComesBack) {
  const CsrMatrix matrix = random_matrix(40, 60, 0.8);
  Problem problem = problem_of(matrix, 24);
  problem.runtime_values = true;
  for (const char* family : {"unrolled", "csr", "compact"}) {
    const auto kernel = stored(compiled(problem, family));

    const CsrMatrix back = read_back(*kernel);

    EXPECT_EQ(back.col_idxs, matrix.col_idxs);
    EXPECT_EQ(back.values[7], read_back_value(7));
    EXPECT_TRUE(check_stored_kernel(*kernel, VerifyMode::sampled).passed());
  }
}

TEST(StoredKernelCheck, LayersAreCheckedWithAllThatTheyHave) {
  Problem problem = problem_of(random_matrix(40, 60, 0.8), 24);
  problem.n.runtime = true;
  problem.b.layout = problem.c.layout = Layout::tokens_major;
  problem.epilogue = {
      .scale = true, .bias = true, .residual = true, .activation = Activation::gelu_erf};
  for (const char* family : {"unrolled", "compact"}) {
    const auto kernel = stored(compiled(problem, family));

    EXPECT_EQ(read_back(*kernel), *problem.a);
    EXPECT_TRUE(check_stored_kernel(*kernel, VerifyMode::full).passed());
  }
}

TEST(StoredKernelCheck, AChangedWeightIsFound) {
  CsrMatrix matrix = random_matrix(40, 60, 0.8);
  for (const char* family : {"unrolled", "compact"}) {
    const Kernel right = compiled(problem_of(matrix, 24), family);
    CsrMatrix changed = matrix;
    changed.values[3] *= 1.001F;
    const Kernel wrong = compiled(problem_of(changed, 24), family);

    const auto kernel = stored(wrong, record_without_files(right));
    const StoredVerdict verdict = check_stored_kernel(*kernel, VerifyMode::sampled);

    EXPECT_FALSE(verdict.passed());
    EXPECT_THAT(verdict.problem, HasSubstr("other weights"));
  }
}

TEST(StoredKernelCheck, AWrongKernelOfRightWeightsIsFound) {
  const Problem problem = problem_of(random_matrix(40, 60, 0.8), 24);
  const Kernel kernel = compiled(problem, "compact");
  nlohmann::json record = record_without_files(kernel);
  record["problem"]["epilogue"]["bias"] = true;  // which it does not add

  const StoredVerdict verdict = check_stored_kernel(*stored(kernel, record), VerifyMode::sampled);

  EXPECT_THAT(verdict.problem, HasSubstr("wrong kernel"));
}

TEST(StoredKernelCheck, StoredZerosAreSaidNotToBeCompared) {
  CsrMatrix matrix = random_matrix(40, 60, 0.8);
  matrix.values[3] = 0;

  const auto kernel = stored(compiled(problem_of(matrix, 24), "compact"));
  const StoredVerdict verdict = check_stored_kernel(*kernel, VerifyMode::sampled);

  EXPECT_TRUE(verdict.passed());
  EXPECT_THAT(verdict.note,
              HasSubstr("weights not compared: 1 of " + std::to_string(matrix.nnz())));
}

TEST(StoredKernelCheck, WeightsThatAreNoNumbersAreNotChecked) {
  CsrMatrix matrix = random_matrix(40, 60, 0.8);
  matrix.values[3] = std::numeric_limits<float>::infinity();

  const auto kernel = stored(compiled(problem_of(matrix, 24), "compact"));
  const StoredVerdict verdict = check_stored_kernel(*kernel, VerifyMode::sampled);

  EXPECT_FALSE(verdict.passed());
  EXPECT_THAT(verdict.not_checked, HasSubstr("not all finite"));
}

}  // namespace
