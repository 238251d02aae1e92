#include "tests/support/emulated_tests.hpp"

#include <gtest/gtest.h>

#include <cerrno>  // program_invocation_short_name
#include <string>

/// In every test program: a skipped test that no emulator would run fails.

namespace {

class SkipsAreEmulated : public testing::EmptyTestEventListener {
 public:
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (result.skipped()) reason_ = result.message();
  }

  void OnTestEnd(const testing::TestInfo& test) override {
    const std::string problem = spjit::testing_support::not_emulated(
        std::string(test.test_suite_name()) + "." + test.name(), reason_,
        program_invocation_short_name, SPJIT_EMULATED_PROGRAMS);
    reason_.clear();
    if (!problem.empty()) ADD_FAILURE() << problem;
  }

 private:
  std::string reason_;  ///< why the current test skips
};

[[maybe_unused]] const bool k_listens = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new SkipsAreEmulated);
  return true;
}();

}  // namespace
