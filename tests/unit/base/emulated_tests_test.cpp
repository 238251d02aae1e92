#include "tests/support/emulated_tests.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

using spjit::testing_support::not_emulated;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* k_programs = "unit_compiler unit_kernels";

TEST(EmulatedTests, MayLackAvx512) {
  EXPECT_THAT(
      not_emulated("All/Kernel.Adds/avx512_at_end", "no avx512 here", "unit_kernels", k_programs),
      IsEmpty());
  EXPECT_THAT(
      not_emulated("Avx512Runs.Twice", "this CPU has no AVX-512", "unit_compiler", k_programs),
      IsEmpty());
}

TEST(EmulatedTests, MayLackAnythingElseInAnyProgram) {
  EXPECT_THAT(not_emulated("Kernel.Adds", "no avx2 here", "unit_base", k_programs), IsEmpty());
  EXPECT_THAT(not_emulated("Kernel.Adds", "", "unit_base", k_programs), IsEmpty());
}

TEST(EmulatedTests, HaveAvx512InTheirNames) {
  EXPECT_THAT(not_emulated("Sliced.Runs", "no AVX-512 here", "unit_kernels", k_programs),
              HasSubstr("avx512 in its name"));
}

TEST(EmulatedTests, AreInProgramsThatTheEmulatorRuns) {
  for (const char* program : {"unit_base", "unit", "kernels", "unit_compiler unit"}) {
    EXPECT_THAT(not_emulated("Avx512Runs.Twice", "no avx512 here", program, k_programs),
                HasSubstr("must name"))
        << program;
  }
}

}  // namespace
