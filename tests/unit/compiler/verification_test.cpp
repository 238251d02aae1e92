#include "compiler/verification.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "compiler/cuda_tile.hpp"
#include "spjit/error.hpp"

namespace {

using namespace spjit;
using testing::HasSubstr;

using Layouts = std::vector<std::pair<std::int64_t, std::int64_t>>;

Layouts pairs_of(const std::vector<CheckLayout>& layouts) {
  Layouts pairs;
  for (const CheckLayout& layout : layouts) pairs.emplace_back(layout.ldb, layout.ldc);
  return pairs;
}

TEST(CheckLayouts, OfAHostKernelAreItsOwnAndOneWithWiderRows) {
  CompileOptions options;
  options.n = 8;
  EXPECT_EQ(pairs_of(check_layouts(options)), (Layouts{{8, 8}, {11, 11}}));

  options.ldb = 16;
  options.ldc = 9;
  EXPECT_EQ(pairs_of(check_layouts(options)), (Layouts{{16, 9}, {19, 12}}));
}

TEST(CheckLayouts, OfACudaKernelAreWhatItTakes) {
  CudaProgram program;
  program.n = 8;
  program.ldb = 8;
  program.ldc = 10;
  EXPECT_EQ(pairs_of(check_layouts(program)), (Layouts{{8, 10}}));

  program.runtime_sizes = true;
  EXPECT_EQ(pairs_of(check_layouts(program)), (Layouts{{8, 10}, {11, 13}}));

  program.ldc = k_cuda_max_leading_dimension - 2;
  EXPECT_EQ(check_layouts(program).size(), 1U);
}

TEST(Verdict, ThatIsNotPassedIsAnErrorWithWhatElseHappened) {
  EXPECT_NO_THROW(require_passed({}, "something"));
  try {
    require_passed({.verification = {}, .problem = "C[1][2] is 3", .note = ""}, "an entry went");
    ADD_FAILURE() << "nothing was thrown";
  } catch (const VerificationFailed& error) {
    EXPECT_THAT(error.what(), HasSubstr("C[1][2] is 3"));
    EXPECT_THAT(error.what(), HasSubstr("(an entry went)"));
    EXPECT_THAT(error.what(), HasSubstr("spjit devices"));
  }
}

TEST(Verification, OfNothingIsAModeAndAReasonInTheRecord) {
  Verification verification;
  EXPECT_EQ(to_json(verification), (nlohmann::json{{"mode", "none"}}));

  verification.reason = "no GPU";
  EXPECT_EQ(to_json(verification), (nlohmann::json{{"mode", "none"}, {"reason", "no GPU"}}));
  EXPECT_FALSE(verification.complete());
}

TEST(Verification, IsCompleteIfEveryRowAndColumnWasCompared) {
  Verification verification{.mode = VerifyMode::sampled,
                            .reason = "",
                            .device = "",
                            .rows = 4,
                            .rows_checked = 4,
                            .columns = 5,
                            .columns_checked = 5};
  EXPECT_TRUE(verification.complete());
  verification.rows_checked = 3;
  EXPECT_FALSE(verification.complete());
  verification.rows_checked = 4;
  verification.columns_checked = 4;
  EXPECT_FALSE(verification.complete());
}

}  // namespace
