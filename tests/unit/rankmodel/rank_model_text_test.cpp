#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "rankmodel/rank_model.hpp"
#include "spjit/error.hpp"

namespace {

using nlohmann::json;
using spjit::RankModel;
using spjit::read_rank_model;
using spjit::write_rank_model;
using testing::HasSubstr;

constexpr const char* k_stump = R"({"format": "spjit-rank-model-1",
 "name": "stump",
 "schema": "test",
 "schema_version": 3,
 "features": ["x","y"],
 "provenance": {"rounds":1},
 "trees": [
  {"feature":[0,-1,-1],"value":[0.5,-1,2],"left":[1,0,0],"default_left":[1,0,0]},
  {"feature":[-1],"value":[10],"left":[0],"default_left":[0]}]}
)";

RankModel negative_stump() {
  return {.name = "stump",
          .schema = "test",
          .schema_version = 3,
          .features = {"x", "y"},
          .trees = {{{{.value = 0.5F, .feature = 0, .left = 1, .default_left = true},
                      {.value = -1},
                      {.value = 2}}},
                    {{{.value = 10}}}},
          .provenance = {{"rounds", 1}}};
}

std::string refusal(const std::string& text) {
  try {
    static_cast<void>(read_rank_model(text));
  } catch (const spjit::Error& error) {
    return error.what();
  }
  return "taken";
}

// The example with one member replaced.
std::string refusal_with(const char* pointer, const json& value) {
  json object = json::parse(k_stump);
  object[json::json_pointer(pointer)] = value;
  return refusal(object.dump());
}

TEST(RankModelText, IsOneLineForEachTree) {
  EXPECT_EQ(write_rank_model(negative_stump()), k_stump);
}

TEST(RankModelText, ComesBackAsItWas) { EXPECT_EQ(read_rank_model(k_stump), negative_stump()); }

TEST(RankModelText, BringsEveryFloatBackExactly) {
  const std::array<float, 8> floats = {0.1F,
                                       -0.0F,
                                       1.0F / 3,
                                       7.038531e-26F,  // its shortest digits round wrong as double
                                       std::numeric_limits<float>::max(),
                                       std::numeric_limits<float>::lowest(),
                                       std::numeric_limits<float>::min(),
                                       std::numeric_limits<float>::denorm_min()};
  RankModel model = negative_stump();
  for (const float value : floats) model.trees.push_back({{{.value = value}}});

  const RankModel read = read_rank_model(write_rank_model(model));

  ASSERT_EQ(read.trees.size(), model.trees.size());
  for (std::size_t i = 0; i < floats.size(); ++i) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(read.trees[i + 2].nodes[0].value),
              std::bit_cast<std::uint32_t>(floats[i]))
        << floats[i];
  }
}

TEST(RankModelText, RefusesWhatIsNoModel) {
  EXPECT_THAT(refusal(""), HasSubstr("not a rank model: "));
  EXPECT_THAT(refusal("[1, 2]"), HasSubstr("its format is not 'spjit-rank-model-1'"));
  EXPECT_THAT(refusal_with("/format", "spjit-rank-model-2"), HasSubstr("its format is not"));
  EXPECT_THAT(refusal_with("/more", 1), HasSubstr("it is no object of 7 members"));
  EXPECT_THAT(refusal_with("/name", 7), HasSubstr("type must be string"));
  EXPECT_THAT(refusal_with("/schema_version", 1.5), HasSubstr("schema_version is 1.5; expected"));
  EXPECT_THAT(refusal_with("/schema_version", -1), HasSubstr("schema version -1 is negative"));
  EXPECT_THAT(refusal_with("/provenance", "mine"), HasSubstr("provenance is no JSON object"));
  EXPECT_THAT(refusal_with("/trees", {{"a", 1}}), HasSubstr("'trees' is no array"));
  EXPECT_THAT(refusal(std::string(k_stump).substr(0, 200)), HasSubstr("not a rank model: "));
}

TEST(RankModelText, RefusesATreeThatIsNone) {
  EXPECT_THAT(refusal_with("/trees/1", 5), HasSubstr("tree 1: it is no object of 4 members"));
  EXPECT_THAT(refusal_with("/trees/0/value", {1, 2}),
              HasSubstr("tree 0: arrays of 3, 2, 3 and 3 nodes; expected as many"));
  EXPECT_THAT(refusal_with("/trees/0/value/1", 1e300), HasSubstr("expected a number that a float"));
  EXPECT_THAT(refusal_with("/trees/0/value/1", "1"), HasSubstr("expected a number that a float"));
  EXPECT_THAT(refusal_with("/trees/0/left/0", 0.5), HasSubstr("left is 0.5; expected an integer"));
  EXPECT_THAT(refusal_with("/trees/0/left/0", std::numeric_limits<std::uint64_t>::max() - 7),
              HasSubstr("left is 18446744073709551608; expected an integer"));
  EXPECT_THAT(refusal_with("/trees/0/left/0", 2147483647), HasSubstr("must come after it"));
  EXPECT_THAT(refusal_with("/trees/0/left/0", -1), HasSubstr("must come after it"));
  EXPECT_THAT(refusal_with("/trees/0/feature/0", 2), HasSubstr("feature 2 is not among the 2"));
  EXPECT_THAT(refusal_with("/trees/0/default_left/0", 2),
              HasSubstr("default_left is 2; expected an integer from 0 to 1"));
  EXPECT_THAT(refusal_with("/trees/0/feature", json::object()),
              HasSubstr("is no array of at most"));
}

TEST(RankModelText, RefusesNumbersThatOverflow) {
  std::string text = k_stump;
  text.replace(text.find("0.5"), 3, "1e999");

  EXPECT_THAT(refusal(text), HasSubstr("not a rank model: "));
}

TEST(RankModelText, RefusesWhatIsNestedWithoutEnd) {
  const std::string deep(1'000'000, '[');
  std::string text = k_stump;
  text.replace(text.find("{\"rounds\":1}"), 12, "{\"a\":" + deep);

  EXPECT_THAT(refusal(text), HasSubstr("nested deeper than 32"));
}

TEST(RankModelText, RefusesWhatIsTooLong) {
  const std::string text(spjit::k_longest_rank_model_bytes + 1, ' ');

  EXPECT_THAT(refusal(text), HasSubstr("67108865 bytes; expected at most 67108864"));
}

TEST(RankModelText, RefusesToWriteWhatItWouldNotRead) {
  RankModel broken = negative_stump();
  broken.trees[0].nodes[0].left = 0;
  RankModel no_text = negative_stump();
  no_text.name = "\xff";

  EXPECT_THROW(static_cast<void>(write_rank_model(broken)), spjit::Error);
  EXPECT_THROW(static_cast<void>(write_rank_model(no_text)), spjit::Error);
}

}  // namespace
