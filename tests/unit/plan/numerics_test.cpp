// Types and promises of a problem: names, checks, key and JSON.

#include "plan/numerics.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "base/hash.hpp"
#include "plan/problem.hpp"
#include "spjit/error.hpp"
#include "tests/support/compile_testing.hpp"

namespace spjit {
namespace {

using testing::HasSubstr;
using testing_support::problem_of;
using testing_support::small_matrix;

constexpr auto k_other_promise = static_cast<Promise>(4);
constexpr Numerics k_quantized{DataType::i8, DataType::f32, DataType::bf16, Accumulate::integer(),
                               Quantization::tensor};

/// What `work` throws as InvalidArgument; empty: nothing.
std::string refusal_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

std::string refusal_of(const Numerics& numerics) {
  return refusal_of([&] { validate(numerics); });
}

Problem typed_problem(const Numerics& numerics, CsrMatrix matrix = small_matrix()) {
  Problem problem = problem_of(std::move(matrix), 7);
  problem.numerics = numerics;
  return problem;
}

std::string checked_refusal(const Problem& problem) {
  return refusal_of([&] { static_cast<void>(checked_problem(problem)); });
}

std::string numerics_key(const Problem& problem) {
  KeyBuilder key;
  add_to_key(problem, key);
  return key.hex();
}

TEST(Numerics, ByDefaultAreFloatsInOrder) {
  const Numerics numerics;

  EXPECT_TRUE(numerics.is_default());
  EXPECT_EQ(to_string(numerics), "f32,f32,f32 ordered");
  EXPECT_EQ(refusal_of(numerics), "");
}

TEST(Accumulates, AreNamedBothWays) {
  for (const Accumulate& each :
       {Accumulate::ordered(), Accumulate::tensor(), Accumulate::integer(),
        Accumulate::bounded(1e-3), Accumulate::bounded(0.1), Accumulate::bounded(0x1p-1074),
        Accumulate::bounded(std::nextafter(1.0, 0.0))}) {
    EXPECT_EQ(parse_accumulate(to_string(each)), each) << to_string(each);
  }
  EXPECT_EQ(to_string(Accumulate::bounded(1e-3)), "bounded:0.001");
  EXPECT_EQ(parse_accumulate("bounded:1e-3"), Accumulate::bounded(0.001));
  EXPECT_EQ(to_string(k_other_promise), "?");
}

TEST(Accumulates, AreNotReadOfAnythingElse) {
  for (const char* text : {"", "Ordered", "ordered ", "bounded", "bounded:", "bounded:x",
                           "bounded:0", "bounded:1", "bounded:-1e-3", "bounded:nan", "bounded:inf",
                           "bounded:1e-3x", "bounded: 1e-3", "bounded:1e-400", "tf32"}) {
    EXPECT_EQ(refusal_of([&] { static_cast<void>(parse_accumulate(text)); }),
              "accumulate is \"" + std::string(text) +
                  "\"; expected ordered, tensor, integer or bounded:EPS with EPS above 0 and below "
                  "1, as bounded:1e-3");
  }
}

TEST(Numerics, AreReadOfThreeTypes) {
  const Numerics numerics = parse_types("i8,f16,bf16");

  EXPECT_EQ(numerics.a, DataType::i8);
  EXPECT_EQ(numerics.b, DataType::f16);
  EXPECT_EQ(numerics.c, DataType::bf16);
  EXPECT_EQ(numerics.accumulate, Accumulate::ordered());
  for (const char* text : {"", "f32", "f32,f32", "f32,f32,f32,f32", "f32,f32,f32,"}) {
    EXPECT_EQ(
        refusal_of([&] { static_cast<void>(parse_types(text)); }),
        "types are \"" + std::string(text) + "\"; expected three, of A, B and C, as bf16,bf16,f32");
  }
  EXPECT_THAT(refusal_of([] { static_cast<void>(parse_types("f32,,f32")); }),
              HasSubstr("data type \"\" is unknown"));
}

TEST(Numerics, HaveAnEpsWhereTheyAreBounded) {
  for (const double eps : {0.0, 1.0, -1e-3, std::numeric_limits<double>::infinity(),
                           std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THAT(refusal_of(Numerics{.accumulate = Accumulate::bounded(eps)}),
                HasSubstr("expected a number above 0 and below 1"))
        << eps;
  }
  EXPECT_EQ(refusal_of(Numerics{.accumulate = {Promise::ordered, 1e-3}}),
            "eps is 0.001, and the promise is ordered; expected 0");
  EXPECT_EQ(refusal_of(Numerics{.accumulate = {k_other_promise}}),
            "the promise is 4; expected 0 to 3");
  EXPECT_EQ(refusal_of(Numerics{.a = static_cast<DataType>(7)}),
            "the data type is 7; expected 0 to 6");
}

TEST(Numerics, OfAPromiseHaveItsTypes) {
  using enum DataType;
  const auto said = [](DataType a, DataType b, const Accumulate& accumulate) {
    return refusal_of(Numerics{a, b, f32, accumulate});
  };

  for (const DataType a : {f32, bf16, f16, i8, u8, i4}) {
    for (const DataType b : {f32, bf16, f16}) EXPECT_EQ(said(a, b, Accumulate::ordered()), "");
  }
  EXPECT_EQ(said(i8, i8, Accumulate::ordered()),
            "ordered is of A i8 and B i8; expected A of another type than i32, and B of f32, bf16 "
            "or f16");
  EXPECT_NE(said(i32, f32, Accumulate::ordered()), "");
  EXPECT_EQ(said(bf16, bf16, Accumulate::tensor()), "");
  EXPECT_NE(said(bf16, f16, Accumulate::tensor()), "");
  EXPECT_NE(said(f32, f32, Accumulate::tensor()), "");
  EXPECT_EQ(said(i4, u8, Accumulate::integer()), "");
  EXPECT_EQ(said(f32, i8, Accumulate::integer()),
            "integer is of A f32 and B i8; expected A and B of integers");
  EXPECT_NE(said(i8, bf16, Accumulate::integer()), "");
  EXPECT_EQ(said(i32, i32, Accumulate::bounded(1e-3)), "");
  EXPECT_EQ(refusal_of(Numerics{.b = i4}),
            "the type of B is i4, two elements in a byte; expected one of whole bytes (A alone may "
            "be i4)");
  EXPECT_THAT(refusal_of(Numerics{.c = i4}), HasSubstr("the type of C is i4"));
}

TEST(Quantizations, AreNamedBothWays) {
  for (const Quantization each :
       {Quantization::none, Quantization::given, Quantization::tensor, Quantization::token}) {
    EXPECT_EQ(parse_quantization(to_string(each)), each);
  }
  EXPECT_EQ(to_string(static_cast<Quantization>(4)), "?");
  EXPECT_EQ(refusal_of([] { static_cast<void>(parse_quantization("row")); }),
            "the quantization is \"row\"; expected none, given, tensor or token");
  EXPECT_EQ(to_string(k_quantized), "i8,f32,bf16 integer quantize:tensor");
}

TEST(Quantizations, HaveTheirTypesAndExactSums) {
  using enum DataType;
  const auto said = [](DataType b, const Accumulate& accumulate, Quantization how) {
    return refusal_of(Numerics{i8, b, f32, accumulate, how});
  };
  const Accumulate integer = Accumulate::integer();

  for (const DataType b : {i8, u8}) EXPECT_EQ(said(b, integer, Quantization::given), "");
  for (const Quantization how : {Quantization::tensor, Quantization::token}) {
    EXPECT_EQ(said(f32, integer, how), "");
    EXPECT_NE(said(f32, {}, how), "");
    EXPECT_NE(said(bf16, integer, how), "");
  }
  EXPECT_EQ(said(u8, integer, Quantization::token),
            "the quantization token is of integer and B u8; expected integer, and B of f32");
  EXPECT_EQ(said(i32, integer, Quantization::given),
            "the quantization given is of integer and B i32; expected integer, and B of i8 or u8");
  EXPECT_EQ(said(u8, Accumulate::bounded(0.5), Quantization::given),
            "the quantization given is of bounded:0.5 and B u8; expected integer, and B of i8 or "
            "u8");
  EXPECT_EQ(said(f32, integer, static_cast<Quantization>(4)),
            "the quantization is 4; expected 0 to 3");
  EXPECT_EQ(refusal_of(Numerics{f32, f32, f32, integer, Quantization::tensor}),
            "integer is of A f32 and B f32; expected A and B of integers");
}

TEST(Quantizations, CountTheZeroPointInSums) {
  using enum DataType;
  constexpr float k_large = 8421504;  // times 255 the largest of int32
  const auto said = [](float value, DataType b, Quantization how) {
    const CsrMatrix one{1, 1, {0, 1}, {0}, {value}};
    return checked_refusal(typed_problem({i32, b, f32, Accumulate::integer(), how}, one));
  };

  for (const auto& [b, how] : {std::pair{i8, Quantization::given},
                               {u8, Quantization::given},
                               {f32, Quantization::tensor}}) {
    EXPECT_EQ(said(k_large, b, how), "");
    EXPECT_THAT(said(k_large + 1, b, how), HasSubstr("may reach 8421505 * 255, beyond int32"));
  }
  EXPECT_EQ(said(16'777'215, i8, Quantization::none), "");
  EXPECT_EQ(said(16'777'216, f32, Quantization::token), "");
  EXPECT_THAT(said(16'909'322, f32, Quantization::token), HasSubstr(" * 127, beyond int32"));
}

TEST(Quantizations, AreNotOfTokensOfAConvolution) {
  Problem problem = typed_problem(k_quantized, {2, 3, {0, 1, 2}, {0, 2}, {1, 2}});
  problem.operation = Operation::conv2d;
  problem.n = {};
  problem.convolution = Convolution{.channels = 3, .height = 4, .width = 5};
  problem.numerics.quantization = Quantization::token;

  EXPECT_EQ(checked_refusal(problem),
            "a convolution has no tokens to quantise one by one; expected the quantization given "
            "or tensor");
  problem.numerics.quantization = Quantization::tensor;
  EXPECT_EQ(checked_refusal(problem), "");
}

TEST(CheckedValues, NameTheFirstThatTheTypeDoesNotHave) {
  CsrMatrix matrix = small_matrix();
  matrix.values[4] = 0.1F;
  const auto said = [&](DataType a) { return checked_refusal(typed_problem({.a = a}, matrix)); };

  EXPECT_EQ(said(DataType::f32), "");
  EXPECT_EQ(said(DataType::bf16),
            "A[3][1] is 0.1, which bf16 does not have; round A's values to the type first");
  EXPECT_THAT(said(DataType::f16), HasSubstr("A[3][1] is 0.1, which f16 does not have"));
  EXPECT_THAT(said(DataType::i8), HasSubstr("which i8 does not have"));
  matrix.values[4] = 8;
  EXPECT_EQ(said(DataType::i8), "");
  EXPECT_THAT(said(DataType::i4), HasSubstr("A[3][1] is 8, which i4 does not have"));
  matrix.values[0] = -1;
  EXPECT_THAT(said(DataType::u8), HasSubstr("A[0][0] is -1, which u8 does not have"));
}

TEST(CheckedValues, AlsoThoseOfARunThatServeForChecks) {
  CsrMatrix matrix = small_matrix();
  matrix.values[0] = 0.1F;
  Problem problem = typed_problem({.a = DataType::bf16}, matrix);
  problem.runtime_values = true;

  EXPECT_THAT(checked_refusal(problem), HasSubstr("A[0][0] is 0.1"));
}

TEST(CheckedValues, OfIntegersHaveNoNegativeZero) {
  CsrMatrix matrix = small_matrix();
  matrix.values[2] = -0.0F;

  const Problem integers = checked_problem(typed_problem({.a = DataType::i8}, matrix));
  const Problem floats = checked_problem(typed_problem({.a = DataType::bf16}, matrix));

  EXPECT_FALSE(std::signbit(integers.a->values[2]));
  EXPECT_TRUE(std::signbit(floats.a->values[2]));
}

TEST(CheckedValues, AreCopiedOnlyWhereTheyChange) {
  const auto shared = std::make_shared<const CsrMatrix>(small_matrix());
  Problem problem = typed_problem({.a = DataType::i8});
  problem.a = shared;

  EXPECT_EQ(&*checked_problem(problem).a, shared.get());
}

TEST(CheckedValues, SumsOfIntegersStayWithinInt32) {
  constexpr Numerics k_integer{DataType::i32, DataType::i8, DataType::i32, Accumulate::integer()};
  const auto matrix_of = [](float value) { return CsrMatrix{1, 2, {0, 2}, {0, 1}, {value, 1}}; };
  // (2^24 - 2 + 1) * 128 = 2^31 - 128.
  const Problem just = typed_problem(k_integer, matrix_of(16777214));
  const Problem over = typed_problem(k_integer, matrix_of(16777215));

  EXPECT_EQ(checked_refusal(just), "");
  EXPECT_EQ(checked_refusal(over),
            "a sum of row 0 of A may reach 16777216 * 128, beyond int32; expected at most "
            "2147483647 (integer adds up exactly: take bounded:EPS, or split the row)");
  EXPECT_EQ(checked_refusal(typed_problem(
                {DataType::i32, DataType::i8, DataType::i32, Accumulate::bounded(1e-3)},
                matrix_of(16777215))),
            "");
}

TEST(CheckedValues, SumsOfValuesAtRunTimeCountAsTheLargest) {
  Numerics numerics{DataType::i8, DataType::u8, DataType::i32, Accumulate::integer()};
  CsrMatrix matrix{1, 65'794, {0, 65'794}, {}, {}};
  for (std::int32_t column = 0; column < 65'794; ++column) matrix.col_idxs.push_back(column);
  matrix.values.assign(65'794, 1);
  Problem problem = typed_problem(numerics, matrix);

  EXPECT_EQ(checked_refusal(problem), "");
  problem.runtime_values = true;
  EXPECT_THAT(checked_refusal(problem), HasSubstr("a sum of row 0 of A may reach 8421632 * 255"));
}

TEST(CheckedValues, AreGivenUpWhenTold) {
  std::stop_source source;
  source.request_stop();
  const Cancellation stopped{.deadline = {}, .stop = source.get_token()};

  EXPECT_THROW(static_cast<void>(checked_values(typed_problem({.a = DataType::i8}), stopped)),
               Cancelled);
}

// Computed apart from the library, of the fields that keys had before there were numerics.
TEST(ProblemKey, OfDefaultNumericsIsAsItWasWithoutThem) {
  EXPECT_EQ(numerics_key(typed_problem({})),
            "bc49e66e29270d0ffe43dc211c0ab3d215bf8880bba042addea639f5caf8b18d");
}

TEST(ProblemKey, DiffersForEachOfTheNumerics) {
  std::set<std::string> keys;
  const std::vector<Numerics> all = {{},
                                     {.a = DataType::bf16},
                                     {.b = DataType::bf16},
                                     {.c = DataType::bf16},
                                     {.c = DataType::f16},
                                     {.accumulate = Accumulate::tensor()},
                                     {.accumulate = Accumulate::integer()},
                                     {.accumulate = Accumulate::bounded(1e-3)},
                                     {.accumulate = Accumulate::bounded(1e-4)},
                                     {.quantization = Quantization::given},
                                     {.quantization = Quantization::tensor},
                                     {.quantization = Quantization::token}};
  for (const Numerics& numerics : all) keys.insert(numerics_key(typed_problem(numerics)));

  EXPECT_EQ(keys.size(), all.size());
}

TEST(ProblemJson, HasNumericsOnlyWhereTheyAreNotTheDefault) {
  const Numerics numerics{DataType::i8, DataType::bf16, DataType::f16, Accumulate::bounded(1e-3)};
  const Problem problem = typed_problem(numerics);
  const nlohmann::json object = to_json(problem);

  EXPECT_FALSE(to_json(typed_problem({})).contains("numerics"));
  EXPECT_EQ(
      object.at("numerics"),
      (nlohmann::json{{"a", "i8"}, {"b", "bf16"}, {"c", "f16"}, {"accumulate", "bounded:0.001"}}));
  EXPECT_EQ(read_problem(object, problem.a).numerics, numerics);
  EXPECT_TRUE(read_problem(to_json(typed_problem({})), problem.a).numerics.is_default());
  const Problem quantized = typed_problem(k_quantized);
  EXPECT_EQ(to_json(quantized).at("numerics").at("quantize"), "tensor");
  EXPECT_EQ(read_problem(to_json(quantized), problem.a).numerics, k_quantized);
}

TEST(ProblemJson, RefusesNumericsThatAreNone) {
  const Problem problem = typed_problem({.a = DataType::bf16});
  const auto said = [&](const char* member, const nlohmann::json& value) -> std::string {
    nlohmann::json object = to_json(problem);
    object["numerics"][member] = value;
    try {
      static_cast<void>(read_problem(object, problem.a));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };

  EXPECT_EQ(said("a", "f16"), "");
  EXPECT_NE(said("a", "fp8"), "");
  EXPECT_NE(said("b", "i8"), "");
  EXPECT_NE(said("c", 3), "");
  EXPECT_NE(said("accumulate", "exact"), "");
  EXPECT_NE(said("quantize", "row"), "");
  EXPECT_NE(said("quantize", "token"), "");
  EXPECT_THAT(said("d", "f32"), HasSubstr("\"numerics\" of a problem"));
  nlohmann::json object = to_json(problem);
  object["numerics"].erase("accumulate");
  EXPECT_THROW(static_cast<void>(read_problem(object, problem.a)), Error);
}

TEST(SameProblem, HasTheSameNumerics) {
  const Problem made = typed_problem({.a = DataType::bf16});

  EXPECT_TRUE(is_same_problem(made, made));
  EXPECT_FALSE(is_same_problem(made, typed_problem({})));
}

TEST(ProblemFeatures, HaveABitOfOtherNumerics) {
  EXPECT_FALSE(features_of(typed_problem({})).has(ProblemFeature::numerics));
  EXPECT_TRUE(features_of(typed_problem({.c = DataType::f16})).has(ProblemFeature::numerics));
  EXPECT_EQ(to_string(ProblemFeatures{ProblemFeature::numerics}),
            "other types or sums than fp32 in order");
}

}  // namespace
}  // namespace spjit
