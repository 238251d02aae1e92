// A verdict is yes, or says why not.

#include "base/refusal.hpp"

#include <gtest/gtest.h>

#include <string>
#include <type_traits>
#include <utility>

namespace {

using spjit::Refusal;

TEST(Refusal, IsTrueAndHasAReason) {
  const Refusal refusal("it is too large");

  EXPECT_TRUE(refusal);
  EXPECT_EQ(refusal.reason(), "it is too large");
}

TEST(Refusal, OfNothingIsFalseAndHasNoReason) {
  EXPECT_FALSE(Refusal::none());
  EXPECT_EQ(Refusal::none().reason(), "");
}

TEST(Refusal, RefusesWithoutAReasonToo) { EXPECT_TRUE(Refusal("")); }

TEST(Refusal, GivesItsReasonAway) {
  Refusal refusal("it is too large");

  const std::string reason = std::move(refusal).reason();

  EXPECT_EQ(reason, "it is too large");
}

TEST(Refusal, IsNeitherMadeOfATextNorReadAsANumberUnlessAskedTo) {
  EXPECT_FALSE((std::is_convertible_v<std::string, Refusal>));
  EXPECT_FALSE((std::is_convertible_v<const char*, Refusal>));
  EXPECT_FALSE((std::is_convertible_v<Refusal, bool>));
  EXPECT_FALSE(std::is_default_constructible_v<Refusal>);
}

}  // namespace
