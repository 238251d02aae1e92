#include "bench/layer/way.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "spjit/error.hpp"

namespace {

using namespace spjit;
using namespace spjit::bench;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(ListComparisons, ComparesWaysOfTheSameTokens) {
  std::set<std::string> names;
  for (const Comparison& comparison : list_comparisons()) {
    names.insert(comparison.name);
    EXPECT_GE(comparison.ways.size(), 2U);
    EXPECT_FALSE(comparison.n.empty());
    for (const Way& way : comparison.ways) {
      for (const std::int64_t n : comparison.n) EXPECT_EQ(n % way.batch, 0) << comparison.name;
      if (comparison.name == "layout") continue;
      EXPECT_EQ(way.layout == Layout::tokens_major, comparison.name.ends_with("-tokens"));
    }
  }
  EXPECT_EQ(names.size(), 9U);
}

TEST(ListComparisons, KeepsThoseThatAreNamed) {
  const auto some = list_comparisons({"batch-tokens", "layout"});

  ASSERT_EQ(some.size(), 2U);
  EXPECT_EQ(some[0].name, "layout");
  EXPECT_THAT(some[1].n, ElementsAre(1024));
}

TEST(ListComparisons, SaysWhichThereAre) {
  EXPECT_THAT([] { static_cast<void>(list_comparisons({"layouts"})); },
              ThrowsMessage<InvalidArgument>(HasSubstr("'layouts'; expected layout, runtime-n,")));
}

}  // namespace
