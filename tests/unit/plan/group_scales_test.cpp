#include "plan/group_scales.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "plan/problem.hpp"
#include "spjit/error.hpp"

namespace {

using namespace spjit;

Problem scaled_problem() {
  Problem problem;
  problem.a = CsrMatrix{2, 40, {0, 2, 3}, {0, 39, 5}, {3, -4, 1}};
  problem.n = 1;
  problem.numerics.a = DataType::i4;
  problem.group_scales =
      std::make_shared<const GroupScales>(GroupScales{32, {0.5F, 0.25F, 2.0F, 1.0F}});
  return problem;
}

Problem with_group_scales(std::int64_t columns, std::vector<float> scales) {
  Problem problem = scaled_problem();
  problem.group_scales =
      std::make_shared<const GroupScales>(GroupScales{columns, std::move(scales)});
  return problem;
}

std::string scales_refusal(const Problem& problem) {
  try {
    static_cast<void>(checked_problem(problem));
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

std::string key_with_scales(const Problem& problem) {
  KeyBuilder key;
  add_to_key(checked_problem(problem), key);
  return key.hex();
}

TEST(GroupScales, AreTakenWhereTheyFit) {
  EXPECT_EQ(scales_refusal(scaled_problem()), "");
  EXPECT_EQ(scales_refusal(with_group_scales(128, {1, 2})), "");
  EXPECT_EQ(scales_refusal(with_group_scales(32, {1, -2, 0, 4})), "");  // as ONNX Runtime has them
  EXPECT_TRUE(features_of(scaled_problem()).has(ProblemFeature::group_scales));
}

TEST(GroupScales, AreRefusedInOneLine) {
  constexpr float k_nan = std::numeric_limits<float>::quiet_NaN();
  constexpr float k_infinity = std::numeric_limits<float>::infinity();

  EXPECT_EQ(scales_refusal(with_group_scales(48, {1, 2, 3, 4})),
            "groups of A have 48 columns; expected 32, 64 or 128");
  EXPECT_EQ(scales_refusal(with_group_scales(0, {})),
            "groups of A have 0 columns; expected 32, 64 or 128");
  EXPECT_EQ(scales_refusal(with_group_scales(32, {1, 2, 3})),
            "there are 3 scales of groups; expected 2 rows x 2 groups");
  EXPECT_EQ(scales_refusal(with_group_scales(32, {k_nan, 2, 3, 4})),
            "the scale of row 0 and group 0 is nan; expected a finite number");
  EXPECT_EQ(scales_refusal(with_group_scales(32, {1, 2, k_infinity, 4})),
            "the scale of row 1 and group 0 is inf; expected a finite number");
}

TEST(GroupScales, AreRefusedBesideWhatHasNone) {
  Problem floats = scaled_problem();
  floats.numerics.a = DataType::f32;
  Problem exact = scaled_problem();
  exact.numerics.accumulate = Accumulate::integer();
  exact.numerics.b = DataType::i32;
  Problem values = scaled_problem();
  values.runtime_values = true;

  EXPECT_EQ(scales_refusal(floats),
            "A with scales of groups is of f32, ordered; expected i8 or i4, ordered, or integer "
            "with B of bytes");
  EXPECT_EQ(scales_refusal(exact),
            "A with scales of groups is of i4, integer; expected i8 or i4, ordered, or integer "
            "with B of bytes");
  exact.numerics.b = DataType::u8;
  EXPECT_EQ(scales_refusal(exact), "");
  EXPECT_EQ(scales_refusal(values),
            "A with scales of groups is of values at run time; expected a product with A's values");
}

TEST(GroupScales, AreInKeysAndInJson) {
  const Problem problem = checked_problem(scaled_problem());
  const Problem others = with_group_scales(32, {0.5F, 0.25F, 2.0F, 1.5F});
  Problem none = scaled_problem();
  none.group_scales = nullptr;

  EXPECT_NE(key_with_scales(problem), key_with_scales(others));
  EXPECT_NE(key_with_scales(problem), key_with_scales(none));
  EXPECT_FALSE(is_same_problem(problem, others));
  EXPECT_FALSE(is_same_problem(problem, none));
  const nlohmann::json json = to_json(problem);
  const Problem read = read_problem(json, problem.a, {}, problem.group_scales);
  EXPECT_TRUE(is_same_problem(read, problem));
  EXPECT_THROW(static_cast<void>(read_problem(json, problem.a)), Error);
  EXPECT_THROW(static_cast<void>(read_problem(json, problem.a, {}, others.group_scales)), Error);
  EXPECT_FALSE(to_json(none).contains("group_scales"));
}

}  // namespace
