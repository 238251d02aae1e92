// The helpers by which tests take some of their cases, not those of the library.

#include "tests/support/long_tests.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/scoped_variable.hpp"

namespace {

using namespace spjit::testing_support;
using testing::ElementsAre;

const std::vector<int> k_cases = {10, 11, 12, 13, 14, 15, 16};

TEST(LongTests, AreThoseOfSpjitLong1Alone) {
  for (const char* value : {"", "0", "no", "11"}) {
    const ScopedVariable variable("SPJIT_LONG", value);
    EXPECT_FALSE(long_tests()) << value;
  }
  const ScopedVariable variable("SPJIT_LONG", "1");
  EXPECT_TRUE(long_tests());
}

TEST(InTurn, IsEveryCaseInLongTests) {
  const ScopedVariable variable("SPJIT_LONG", "1");

  EXPECT_EQ(in_turn(k_cases), k_cases);
  EXPECT_EQ(in_turn(3, k_cases), k_cases);
}

TEST(InTurn, GoesThroughAllCasesRunAfterRun) {
  const ScopedVariable no("SPJIT_LONG", "0");
  std::multiset<int> taken;
  for (int run = 0; run < 7; ++run) {
    const ScopedVariable turn("SPJIT_TURN", std::to_string(run));
    const std::vector<int> one = in_turn(k_cases);
    EXPECT_EQ(one.size(), 1U);
    taken.insert(one.begin(), one.end());
  }
  EXPECT_EQ(taken, std::multiset<int>(k_cases.begin(), k_cases.end()));

  taken.clear();
  for (int run = 0; run < 3; ++run) {
    const ScopedVariable turn("SPJIT_TURN", std::to_string(run));
    const std::vector<int> part = in_turn(3, k_cases);
    EXPECT_GE(part.size(), 2U);
    taken.insert(part.begin(), part.end());
  }
  EXPECT_EQ(taken, std::multiset<int>(k_cases.begin(), k_cases.end()));
}

TEST(InTurnIfEmulated, IsEveryCaseElsewhere) {
  const ScopedVariable no("SPJIT_LONG", "0");
  for (const char* value : {"", "0"}) {
    const ScopedVariable variable("SPJIT_EMULATED", value);
    EXPECT_EQ(in_turn_if_emulated(3, k_cases), k_cases) << value;
  }
  const ScopedVariable variable("SPJIT_EMULATED", "1");

  EXPECT_EQ(in_turn_if_emulated(3, k_cases), in_turn(3, k_cases));
  EXPECT_LT(in_turn_if_emulated(3, k_cases).size(), k_cases.size());
}

TEST(InTurn, IsAtAnotherPartInAnotherTest) {
  const ScopedVariable turn("SPJIT_TURN", "0");

  // FNV-1a of "a" and "b"; tests/support/long_tests.py has the same.
  EXPECT_EQ(turn_of(1000, "a"), 0xE40C292CU % 1000);
  EXPECT_EQ(turn_of(1000, "b"), 0xE70C2DE5U % 1000);
  EXPECT_EQ(turn_of(1000), turn_of(1000, "InTurn.IsAtAnotherPartInAnotherTest"));
}

TEST(InTurn, RefusesARunThatIsNoNumber) {
  for (const char* value : {"", "-1", "1x", "main"}) {
    const ScopedVariable turn("SPJIT_TURN", value);
    EXPECT_THROW(static_cast<void>(turn_of(3)), std::invalid_argument) << value;
  }
}

}  // namespace
