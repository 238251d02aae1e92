#include "plan/problem.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "base/hash.hpp"
#include "spjit/error.hpp"
#include "tests/support/compile_testing.hpp"

namespace {

using nlohmann::json;
using spjit::Activation;
using spjit::CsrMatrix;
using spjit::Extent;
using spjit::Layout;
using spjit::Problem;
using spjit::ProblemFeature;
using spjit::testing_support::problem_of;
using spjit::testing_support::small_matrix;

/// Every member is another than by default.
Problem whole_problem() {
  Problem problem;
  problem.a = small_matrix();
  problem.n = Extent::at_run_time(20);
  problem.b.leading_dimension = 24;
  problem.c.leading_dimension = 22;
  problem.panel_columns = 32;
  problem.c.layout = Layout::tokens_major;
  problem.epilogue = {.scale = true,
                      .bias = true,
                      .residual = true,
                      .activation = Activation::clamp,
                      .low = -0.5F,
                      .high = std::numeric_limits<float>::infinity()};
  return problem;
}

std::string key_of(const Problem& problem) {
  spjit::KeyBuilder key;
  add_to_key(problem, key);
  return key.hex();
}

void expect_equal(const Problem& left, const Problem& right) {
  EXPECT_EQ(left.operation, right.operation);
  EXPECT_EQ(left.n, right.n);
  EXPECT_EQ(left.b, right.b);
  EXPECT_EQ(left.c, right.c);
  EXPECT_EQ(left.panel_columns, right.panel_columns);
  EXPECT_EQ(left.epilogue, right.epilogue);
  EXPECT_EQ(key_of(left), key_of(right));
}

std::string read_refusal(const json& object, const CsrMatrix& matrix = small_matrix()) {
  try {
    static_cast<void>(spjit::read_problem(object, matrix));
  } catch (const spjit::Error& error) {
    return error.what();
  }
  return "";
}

std::string check_refusal(Problem problem) {
  try {
    static_cast<void>(spjit::checked_problem(std::move(problem)));
  } catch (const spjit::InvalidArgument& error) {
    return error.what();
  }
  return "";
}

TEST(ProblemJson, IsReadAsItWasWritten) {
  for (const Problem& problem : {whole_problem(), problem_of(small_matrix(), 7)}) {
    const std::string text = to_json(problem).dump();

    const Problem read = spjit::read_problem(json::parse(text), problem.a);

    expect_equal(read, problem);
    EXPECT_EQ(to_json(read).dump(), text);
  }
}

TEST(ProblemJson, HasTheseMembers) {
  const json object = to_json(whole_problem());

  EXPECT_EQ(object.at("operation"), "spmm");
  EXPECT_EQ(object.at("a").at("rows"), 5);
  EXPECT_EQ(object.at("a").at("cols"), 5);
  EXPECT_EQ(object.at("a").at("nnz"), 7);
  EXPECT_EQ(object.at("a").at("hash").get<std::string>().size(), 32U);
  EXPECT_EQ(object.at("n"), (json{{"value", 20}, {"runtime", true}}));
  EXPECT_EQ(object.at("b"), (json{{"leading_dimension", 24}, {"layout", "features"}}));
  EXPECT_EQ(object.at("c"), (json{{"leading_dimension", 22}, {"layout", "tokens"}}));
  EXPECT_EQ(object.at("epilogue"), (json{{"scale", true},
                                         {"bias", true},
                                         {"residual", true},
                                         {"activation", "clamp"},
                                         {"low", -0.5},
                                         {"high", nullptr},
                                         {"alpha", 0.0F},
                                         {"beta", 0.0F}}));
  EXPECT_EQ(object.at("panel_columns"), 32);
  EXPECT_TRUE(to_json(problem_of(small_matrix(), 7)).at("panel_columns").is_null());
  EXPECT_TRUE(object.at("convolution").is_null());
}

/// Paths of every member, objects and what they hold.
std::vector<json::json_pointer> members_of(const json& object) {
  std::vector<json::json_pointer> paths;
  for (const auto& [name, value] : object.items()) {
    const json::json_pointer path("/" + name);
    paths.push_back(path);
    if (!value.is_object()) continue;
    for (const auto& inner : value.items()) paths.push_back(path / inner.key());
  }
  return paths;
}

TEST(ProblemJson, EveryMemberMustBeThere) {
  const json good = to_json(whole_problem());
  const std::vector<json::json_pointer> paths = members_of(good);
  EXPECT_EQ(paths.size(), 27U);
  for (const json::json_pointer& path : paths) {
    json object = good;
    object[path.parent_pointer()].erase(path.back());

    const std::string refusal = read_refusal(object);

    EXPECT_NE(refusal.find("has no \"" + path.back() + "\""), std::string::npos)
        << path << ": " << refusal;
  }
}

TEST(ProblemJson, EveryMemberHasItsKind) {
  const json good = to_json(whole_problem());
  for (const json::json_pointer& path : members_of(good)) {
    const bool is_parameter = path.back() == "low" || path.back() == "high" ||
                              path.back() == "alpha" || path.back() == "beta";
    for (const json& wrong : {json("text"), json(1.5), json::array(), json(-1)}) {
      if (is_parameter && wrong.is_number()) continue;
      json object = good;
      object[path] = wrong;

      EXPECT_NE(read_refusal(object), "") << path << " = " << wrong;
      EXPECT_EQ(read_refusal(object).find('\n'), std::string::npos);
    }
  }
}

TEST(ProblemJson, UnknownMembersAreRefused) {
  const json good = to_json(whole_problem());
  for (const std::string parent : {"", "/a", "/n", "/b", "/c", "/epilogue"}) {
    json object = good;
    object[json::json_pointer(parent)]["stride"] = 2;

    EXPECT_NE(read_refusal(object).find("this spjit knows"), std::string::npos) << parent;
  }
}

TEST(ProblemJson, IsOfOneMatrix) {
  const json object = to_json(whole_problem());
  CsrMatrix value = small_matrix();
  value.values[3] = 4.5F;
  CsrMatrix pattern = small_matrix();
  pattern.col_idxs[1] = 4;
  CsrMatrix rows = small_matrix();
  rows.row_ptrs = {0, 1, 2, 3, 6, 7};
  CsrMatrix cols = small_matrix();
  cols.cols = 6;

  EXPECT_EQ(read_refusal(object), "");
  for (const CsrMatrix& other : {value, pattern, rows, cols}) {
    EXPECT_TRUE(read_refusal(object, other)
                    .starts_with("the problem is of another matrix than this one, ["));
  }
}

TEST(ProblemJson, SizesThatAreNoneAreRefused) {
  const json good = to_json(whole_problem());
  const auto with = [&](const char* path, const json& value) {
    json object = good;
    object[json::json_pointer(path)] = value;
    return read_refusal(object);
  };

  EXPECT_NE(with("/operation", "sddmm"), "");
  EXPECT_NE(with("/n/value", 0), "");
  EXPECT_NE(with("/n/value", std::int64_t{1} << 31), "");
  EXPECT_EQ(with("/b/leading_dimension", 0), "");
  EXPECT_NE(with("/b/leading_dimension", 19), "");
  EXPECT_NE(with("/c/leading_dimension", 4), "");
  EXPECT_NE(with("/c/leading_dimension", (std::int64_t{1} << 48) + 1), "");
  EXPECT_NE(with("/panel_columns", 0), "");
  EXPECT_NE(with("/b/layout", "panel"), "");
  EXPECT_NE(with("/epilogue/activation", "softmax"), "");
  EXPECT_NE(with("/epilogue/low", 1e39), "");
  EXPECT_NE(with("/epilogue/high", -0.75), "");
}

TEST(ProblemJson, BoundsMayBeInfinite) {
  constexpr float k_infinity = std::numeric_limits<float>::infinity();
  constexpr float k_largest = std::numeric_limits<float>::max();
  struct Bounds {
    float low;
    float high;
  };
  for (const Bounds& bounds : {Bounds{-k_infinity, k_infinity},
                               {-k_infinity, -k_largest},
                               {k_largest, k_infinity},
                               {-0.0F, 0.1F}}) {
    Problem problem = whole_problem();
    problem.epilogue.low = bounds.low;
    problem.epilogue.high = bounds.high;

    expect_equal(spjit::read_problem(json::parse(to_json(problem).dump()), problem.a), problem);
  }
}

TEST(ProblemJson, SaysThatABiasIsFirstOnlyWhereItIs) {
  Problem problem = problem_of(small_matrix(), 20);
  problem.epilogue = {.scale = true, .bias = true, .bias_first = true};
  const json object = to_json(problem);

  expect_equal(spjit::read_problem(object, problem.a), problem);
  EXPECT_EQ(object.at("epilogue").at("bias_first"), true);
  EXPECT_FALSE(to_json(whole_problem()).at("epilogue").contains("bias_first"));
  EXPECT_EQ(to_string(spjit::features_of(problem)),
            "an epilogue, a bias before the scale, a product");
}

TEST(ProblemJson, KeepsAlphaAndBeta) {
  Problem problem = whole_problem();
  problem.epilogue = {.activation = Activation::hard_sigmoid, .alpha = 1.0F / 6, .beta = -0.0F};
  const json object = json::parse(to_json(problem).dump());

  const Problem read = spjit::read_problem(object, problem.a);

  expect_equal(read, problem);
  EXPECT_EQ(to_json(read).dump(), to_json(problem).dump());  // -0, too
  for (const char* name : {"alpha", "beta"}) {
    json infinite = object;
    infinite["epilogue"][name] = nullptr;
    EXPECT_NE(read_refusal(infinite), "") << name;
    infinite["epilogue"][name] = 1e39;
    EXPECT_NE(read_refusal(infinite), "") << name;
  }
}

TEST(ProblemKey, DiffersForEachMember) {
  const std::vector<std::function<void(Problem&)>> changes = {
      [](Problem& p) { p.n.value = 21; },
      [](Problem& p) { p.n.runtime = false; },
      [](Problem& p) { p.b.leading_dimension = 25; },
      [](Problem& p) { p.c.leading_dimension = 23; },
      [](Problem& p) { p.panel_columns = 16; },
      [](Problem& p) { p.panel_columns.reset(); },
      [](Problem& p) { p.b.layout = Layout::tokens_major; },
      [](Problem& p) { p.b.layout = Layout::panel_major; },
      [](Problem& p) { p.c.layout = Layout::row_major; },
      [](Problem& p) { p.epilogue.scale = false; },
      [](Problem& p) { p.epilogue.bias = false; },
      [](Problem& p) { p.epilogue.residual = false; },
      [](Problem& p) { p.epilogue.activation = Activation::relu; },
      [](Problem& p) { p.epilogue.low = -0.25F; },
      [](Problem& p) { p.epilogue.high = 6; },
      [](Problem& p) { p.epilogue.alpha = 0.01F; },
      [](Problem& p) { p.epilogue.beta = -0.0F; },
      [](Problem& p) { p.epilogue.bias_first = true; },
      [](Problem& p) {
        CsrMatrix a = small_matrix();
        a.values[0] = -0.0F;
        p.a = a;
      },
      [](Problem& p) {
        CsrMatrix a = small_matrix();
        a.values[0] = 0.0F;
        p.a = a;
      },
      [](Problem& p) {
        CsrMatrix a = small_matrix();
        a.col_idxs[2] = 2;
        p.a = a;
      },
      [](Problem& p) {
        CsrMatrix a = small_matrix();
        a.row_ptrs = {0, 2, 3, 3, 6, 7};
        p.a = a;
      },
      [](Problem& p) {
        CsrMatrix a = small_matrix();
        a.cols = 6;
        p.a = a;
      },
      [](Problem& p) {
        CsrMatrix a = small_matrix();
        a.rows = 6;
        a.row_ptrs.push_back(7);
        p.a = a;
      }};
  std::set<std::string> keys = {key_of(whole_problem())};
  for (const auto& change : changes) {
    Problem problem = whole_problem();
    change(problem);
    keys.insert(key_of(problem));
  }

  EXPECT_EQ(keys.size(), changes.size() + 1);
}

TEST(ProblemKey, ADefaultIsItsValue) {
  Problem named = problem_of(small_matrix(), 20);
  named.b.leading_dimension = named.c.leading_dimension = 20;

  EXPECT_EQ(key_of(named), key_of(problem_of(small_matrix(), 20)));
}

TEST(CheckedProblem, RefusesSizesThatThereCannotBe) {
  constexpr std::int64_t k_most_n = (std::int64_t{1} << 31) - 1;
  const auto with = [](std::int64_t n, std::int64_t ldb, std::int64_t ldc) {
    Problem problem = problem_of(small_matrix(), n);
    problem.b.leading_dimension = ldb;
    problem.c.leading_dimension = ldc;
    return check_refusal(problem);
  };

  EXPECT_EQ(with(k_most_n, 0, 0), "");
  EXPECT_EQ(with(20, 20, std::int64_t{1} << 48), "");
  EXPECT_EQ(with(0, 0, 0), "n is 0; expected at least 1 column of B");
  EXPECT_EQ(with(-3, 0, 0), "n is -3; expected at least 1 column of B");
  EXPECT_EQ(with(k_most_n + 1, 0, 0), "n is 2147483648; expected at most 2147483647");
  EXPECT_EQ(with(20, 19, 0), "ldb is 19; expected 0 or at least n = 20");
  EXPECT_EQ(with(20, 0, -1), "ldc is -1; expected 0 or at least n = 20");
  EXPECT_EQ(with(20, 0, (std::int64_t{1} << 48) + 1),
            "ldc is 281474976710657; expected 0 to 281474976710656");
}

TEST(CheckedProblem, RefusesLayoutsThatThereCannotBe) {
  const auto with = [](Layout b, std::int64_t ldb, Layout c, std::int64_t ldc) {
    Problem problem = problem_of(small_matrix(), 20);
    problem.b = {ldb, b};
    problem.c = {ldc, c};
    return check_refusal(problem);
  };
  constexpr Layout k_rows = Layout::row_major;
  constexpr Layout k_tokens = Layout::tokens_major;

  EXPECT_EQ(with(k_tokens, 0, k_tokens, 0), "");
  EXPECT_EQ(with(k_tokens, 5, k_tokens, 5), "");
  EXPECT_EQ(with(k_tokens, 1, k_tokens, 5), "");  // tokens of B may overlap
  EXPECT_EQ(with(k_rows, 20, k_tokens, 4),
            "ldc is 4; expected 0 or at least the 5 features of a token");
  EXPECT_EQ(with(k_tokens, -1, k_rows, 20),
            "ldb is -1; expected 0 or at least the 5 features of a token");
  EXPECT_EQ(with(Layout::panel_major, 0, k_rows, 20),
            "B is of panels of a width that is not given; expected Problem::panel_columns");
  EXPECT_EQ(with(k_rows, 0, static_cast<Layout>(9), 0), "the layout of C is 9; expected 0 to 2");
}

TEST(CheckedProblem, PanelsHaveNoLeadingDimension) {
  Problem problem = problem_of(small_matrix(), 20);
  problem.panel_columns = 16;
  problem.b.layout = problem.c.layout = Layout::panel_major;

  EXPECT_EQ(check_refusal(problem), "");
  problem.b.leading_dimension = 24;
  EXPECT_EQ(check_refusal(problem), "ldb is 24; expected 0: rows of a panel lie together");
  problem.b.leading_dimension = 0;
  problem.c.leading_dimension = -1;
  EXPECT_EQ(check_refusal(problem), "ldc is -1; expected 0: rows of a panel lie together");
}

TEST(CheckedProblem, RefusesEpiloguesThatThereCannotBe) {
  const auto clamp = [](float low, float high) {
    Problem problem = problem_of(small_matrix(), 20);
    problem.epilogue = {.activation = Activation::clamp, .low = low, .high = high};
    return check_refusal(problem);
  };
  constexpr float k_infinity = std::numeric_limits<float>::infinity();
  Problem unknown = problem_of(small_matrix(), 20);
  unknown.epilogue.activation = static_cast<Activation>(11);

  EXPECT_EQ(clamp(0, 6), "");
  EXPECT_EQ(clamp(2, 2), "");
  EXPECT_EQ(clamp(-k_infinity, k_infinity), "");
  EXPECT_EQ(clamp(6, 0), "clamp is from 6 to 0; expected low <= high, both numbers");
  EXPECT_NE(clamp(std::numeric_limits<float>::quiet_NaN(), 1), "");
  EXPECT_NE(clamp(0, std::numeric_limits<float>::quiet_NaN()), "");
  EXPECT_NE(clamp(k_infinity, k_infinity), "");
  EXPECT_NE(clamp(-k_infinity, -k_infinity), "");
  EXPECT_EQ(check_refusal(unknown), "the activation is 11; expected 0 (none) to 10 (tanh)");
  for (const bool has_scale : {false, true}) {
    Problem first = problem_of(small_matrix(), 20);
    first.epilogue = {.scale = has_scale, .bias = !has_scale, .bias_first = true};
    EXPECT_EQ(check_refusal(first),
              "bias_first is set without scale and bias; expected both (it is the order of the "
              "two)");
  }
  const auto line = [](Activation activation, float alpha, float beta) {
    Problem problem = problem_of(small_matrix(), 20);
    problem.epilogue = {.activation = activation, .alpha = alpha, .beta = beta};
    return check_refusal(problem);
  };
  constexpr float k_nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(line(Activation::leaky_relu, -0.5F, k_nan), "");
  EXPECT_EQ(line(Activation::leaky_relu, k_nan, 0),
            "alpha of leaky-relu is nan; expected a finite number");
  EXPECT_EQ(line(Activation::hard_sigmoid, k_infinity, 0),
            "alpha of hard-sigmoid is inf; expected a finite number");
  EXPECT_EQ(line(Activation::hard_sigmoid, 0, -k_infinity),
            "beta of hard-sigmoid is -inf; expected a finite number");
}

TEST(CheckedProblem, ParametersAreThoseOfTheActivation) {
  const spjit::Epilogue given{.low = 1, .high = 2, .alpha = 3, .beta = 4};
  const auto kept = [&given](Activation activation) {
    Problem problem = problem_of(small_matrix(), 20);
    problem.epilogue = given;
    problem.epilogue.activation = activation;
    return spjit::checked_problem(problem).epilogue;
  };

  EXPECT_EQ(kept(Activation::relu), (spjit::Epilogue{.activation = Activation::relu}));
  EXPECT_EQ(kept(Activation::tanh), (spjit::Epilogue{.activation = Activation::tanh}));
  EXPECT_EQ(kept(Activation::clamp),
            (spjit::Epilogue{.activation = Activation::clamp, .low = 1, .high = 2}));
  EXPECT_EQ(kept(Activation::leaky_relu),
            (spjit::Epilogue{.activation = Activation::leaky_relu, .alpha = 3}));
  EXPECT_EQ(kept(Activation::hard_sigmoid),
            (spjit::Epilogue{.activation = Activation::hard_sigmoid, .alpha = 3, .beta = 4}));
}

TEST(CheckedProblem, RefusesWhatIsNoProblem) {
  Problem nothing;
  nothing.n = 20;
  Problem unknown = problem_of(small_matrix(), 20);
  unknown.operation = static_cast<spjit::Operation>(7);
  CsrMatrix broken = small_matrix();
  broken.col_idxs[0] = 5;

  EXPECT_EQ(check_refusal(nothing), "the problem has no matrix; set Problem::a");
  EXPECT_EQ(check_refusal(unknown), "the operation is 7; expected 0 (spmm) or 1 (conv2d)");
  EXPECT_THROW(static_cast<void>(spjit::checked_problem(problem_of(broken, 20))),
               spjit::InvalidMatrix);
}

TEST(CheckedProblem, SortsRowsAndCopiesOnlyThen) {
  CsrMatrix unsorted = small_matrix();
  std::swap(unsorted.col_idxs[0], unsorted.col_idxs[1]);
  std::swap(unsorted.values[0], unsorted.values[1]);
  const Problem sorted = problem_of(small_matrix(), 20);

  const Problem same = spjit::checked_problem(sorted);
  const Problem fixed = spjit::checked_problem(problem_of(unsorted, 20));

  EXPECT_EQ(&*same.a, &*sorted.a);
  EXPECT_EQ(fixed.a->col_idxs, small_matrix().col_idxs);
  EXPECT_EQ(fixed.a->values, small_matrix().values);
  EXPECT_EQ(key_of(fixed), key_of(sorted));
}

TEST(CheckedProblem, CanBeCancelled) {
  std::stop_source stop;
  stop.request_stop();
  const spjit::Cancellation cancel{.deadline = {}, .stop = stop.get_token()};
  const Problem problem = problem_of(small_matrix(), 20);
  const json object = to_json(problem);

  EXPECT_THROW(static_cast<void>(spjit::checked_problem(problem, cancel)), spjit::Cancelled);
  EXPECT_THROW(static_cast<void>(to_json(problem, cancel)), spjit::Cancelled);
  EXPECT_THROW(static_cast<void>(spjit::read_problem(object, problem.a, cancel)), spjit::Cancelled);
}

TEST(ProblemFeatures, AreTheOperationAndWhatGoesBeyondPlainOperands) {
  EXPECT_EQ(to_string(spjit::features_of(problem_of(small_matrix(), 20))), "a product");
  EXPECT_EQ(to_string(spjit::features_of(whole_problem())),
            "a run-time n, a fixed panel width, a layout other than row-major, an epilogue, "
            "a product");
}

TEST(ProblemFeatures, AreASet) {
  const spjit::ProblemFeatures both = {ProblemFeature::runtime_n, ProblemFeature::panels};
  const spjit::ProblemFeatures panels = {ProblemFeature::panels};

  EXPECT_TRUE(both.has(ProblemFeature::panels));
  EXPECT_FALSE(panels.has(ProblemFeature::runtime_n));
  EXPECT_EQ(to_string(both.without(panels)), "a run-time n");
  EXPECT_TRUE(panels.without(both).empty());
}

TEST(ProblemFeatures, OneWithoutANameIsItsNumber) {
  EXPECT_EQ(to_string(spjit::ProblemFeatures{static_cast<ProblemFeature>(1U << 9U)}), "feature 9");
  EXPECT_EQ(to_string(spjit::ProblemFeatures{}), "");
}

}  // namespace
