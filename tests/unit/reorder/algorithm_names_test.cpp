#include <gtest/gtest.h>

#include "spjit/error.hpp"
#include "spjit/reorder.hpp"

namespace spjit {
namespace {

TEST(AlgorithmNames, RoundTrip) {
  for (const auto algorithm : {ReorderAlgorithm::none, ReorderAlgorithm::balanced,
                               ReorderAlgorithm::similarity, ReorderAlgorithm::automatic}) {
    EXPECT_EQ(parse_reorder(to_string(algorithm)), algorithm);
  }
}

TEST(AlgorithmNames, AreSpelledAsDocumented) {
  EXPECT_EQ(to_string(ReorderAlgorithm::none), "none");
  EXPECT_EQ(to_string(ReorderAlgorithm::balanced), "balanced");
  EXPECT_EQ(to_string(ReorderAlgorithm::similarity), "similarity");
  EXPECT_EQ(to_string(ReorderAlgorithm::automatic), "auto");
}

TEST(AlgorithmNames, RefuseOthersAndSayWhatIsExpected) {
  for (const std::string_view name : {"", "Balanced", "none ", "greedy"}) {
    EXPECT_THROW(static_cast<void>(parse_reorder(name)), InvalidArgument) << name;
  }
  try {
    static_cast<void>(parse_reorder("greedy"));
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(
        error.what(),
        "unknown reorder algorithm 'greedy': expected none, balanced, similarity or auto; choose "
        "one of these");
  }
}

}  // namespace
}  // namespace spjit
