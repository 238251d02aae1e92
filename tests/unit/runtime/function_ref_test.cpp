#include "base/function_ref.hpp"

#include <gtest/gtest.h>

namespace spjit {
namespace {

int call_twice(FunctionRef<int(int)> function) { return function(1) + function(2); }

TEST(FunctionRef, CallsALambdaWithItsState) {
  int calls = 0;

  const int sum = call_twice([&](int x) {
    ++calls;
    return 10 * x;
  });

  EXPECT_EQ(sum, 30);
  EXPECT_EQ(calls, 2);
}

TEST(FunctionRef, ACopyRefersToTheSameCallable) {
  int count = 0;
  auto increment = [&count] { ++count; };
  const FunctionRef<void()> first(increment);
  const FunctionRef<void()> second = first;

  first();
  second();

  EXPECT_EQ(count, 2);
}

TEST(FunctionRef, TakesConstCallables) {
  const auto negate = [](int x) { return -x; };

  EXPECT_EQ(call_twice(negate), -3);
}

}  // namespace
}  // namespace spjit
