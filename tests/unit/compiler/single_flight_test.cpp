#include "base/single_flight.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <latch>
#include <memory>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "spjit/error.hpp"
#include "tests/support/compile_testing.hpp"

namespace {

using spjit::Cancellation;
using spjit::testing_support::throws;

using Flights = spjit::SingleFlight<int>;
using Result = std::shared_ptr<int>;

constexpr auto k_no_wait = [] {};

Result make_seven() { return std::make_shared<int>(7); }

/// What the second of two threads gets that ask for the same, and asks while the first one is at
/// it. The first one is done in by `first_make`, which is called when the second one waits.
class TwoThreads {
 public:
  std::exception_ptr first_error;
  std::exception_ptr second_error;
  Result first;
  Result second;
  int made_by_second = 0;

  void run(const std::function<Result()>& first_make) {
    std::latch begun(1);
    std::latch waits(1);
    std::jthread leader([&] {
      run_one(first, first_error, [&] {
        begun.count_down();
        waits.wait();
        return first_make();
      });
    });
    begun.wait();
    std::atomic<bool> told = false;
    const auto on_wait = [&] {
      if (!told.exchange(true)) waits.count_down();
    };
    try {
      second = flights_.run(
          "key", {},
          [&] {
            ++made_by_second;
            return make_seven();
          },
          on_wait);
    } catch (...) {
      second_error = std::current_exception();
    }
  }

 private:
  void run_one(Result& result, std::exception_ptr& error, const std::function<Result()>& make) {
    try {
      result = flights_.run("key", {}, make, k_no_wait);
    } catch (...) {
      error = std::current_exception();
    }
  }

  Flights flights_;
};

template <class Expected>
bool is_a(const std::exception_ptr& error) {
  return error && throws<Expected>([&]() -> int { std::rethrow_exception(error); });
}

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& thrown) {
    return thrown.what();
  }
}

TEST(ConcurrentSingleFlight, WhoAsksMeanwhileGetsTheSameResult) {
  TwoThreads two;

  two.run(make_seven);

  ASSERT_NE(two.first, nullptr);
  EXPECT_EQ(two.first, two.second);
  EXPECT_EQ(two.made_by_second, 0);
}

TEST(ConcurrentSingleFlight, NothingIsKept) {
  Flights flights;

  const Result one = flights.run("key", {}, make_seven, k_no_wait);
  const Result two = flights.run("key", {}, make_seven, k_no_wait);

  EXPECT_NE(one, two);
}

TEST(ConcurrentSingleFlight, OtherKeysGoOnMeanwhile) {
  Flights flights;
  Result inner;

  const Result outer = flights.run(
      "one", {},
      [&] {
        inner = flights.run("two", {}, make_seven, k_no_wait);
        return make_seven();
      },
      k_no_wait);

  EXPECT_NE(inner, nullptr);
  EXPECT_NE(inner, outer);
}

TEST(ConcurrentSingleFlight, AFailureThatIsEverybodysIsThrownByAll) {
  TwoThreads two;

  two.run([]() -> Result { throw spjit::CompileFailed("no registers", "the log"); });

  ASSERT_TRUE(is_a<spjit::CompileFailed>(two.first_error));
  ASSERT_TRUE(is_a<spjit::CompileFailed>(two.second_error));
  EXPECT_EQ(message_of(two.second_error), "no registers");
  EXPECT_EQ(two.made_by_second, 0);
}

TEST(ConcurrentSingleFlight, WhereTheReasonIsItsOwnAnotherOneTakesOver) {
  const std::vector<std::function<Result()>> reasons = {
      []() -> Result { throw spjit::Cancelled("stopped"); },
      []() -> Result { throw spjit::DeadlineExceeded("late"); },
      []() -> Result { throw std::runtime_error("a callback's"); },
      []() -> Result { throw 5; },
  };
  for (const auto& reason : reasons) {
    TwoThreads two;

    two.run(reason);

    EXPECT_TRUE(two.first_error);
    EXPECT_FALSE(two.second_error);
    EXPECT_EQ(two.made_by_second, 1);
    ASSERT_NE(two.second, nullptr);
    EXPECT_EQ(*two.second, 7);
  }
}

TEST(ConcurrentSingleFlight, RepeatsErrorsWithTypeTextLogAndCode) {
  const auto repeated = [](const auto& error) {
    const std::function<void()> again = spjit::repeat_error(std::make_exception_ptr(error));
    try {
      if (again) again();
    } catch (...) {
      return std::current_exception();
    }
    return std::exception_ptr();
  };

  EXPECT_TRUE(is_a<spjit::VerificationFailed>(repeated(spjit::VerificationFailed("C[0][0]"))));
  EXPECT_TRUE(is_a<spjit::NotSupported>(repeated(spjit::NotSupported("no LLVM"))));
  EXPECT_TRUE(is_a<spjit::InvalidArgument>(repeated(spjit::InvalidArgument("no rows"))));
  EXPECT_EQ(message_of(repeated(spjit::NotSupported("no LLVM"))), "no LLVM");
  try {
    std::rethrow_exception(repeated(spjit::CompileFailed("text", "log")));
  } catch (const spjit::CompileFailed& error) {
    EXPECT_EQ(error.log(), "log");
  }
  try {
    std::rethrow_exception(repeated(spjit::DeviceError("text", 700)));
  } catch (const spjit::DeviceError& error) {
    EXPECT_EQ(error.code(), 700);
  }
  EXPECT_FALSE(repeated(spjit::Cancelled("stopped")));
  EXPECT_FALSE(repeated(spjit::CacheError("disk")));
}

TEST(ConcurrentSingleFlight, AStopEndsTheWaiting) {
  Flights flights;
  std::latch begun(1);
  std::latch release(1);
  std::jthread leader([&] {
    static_cast<void>(flights.run(
        "key", {},
        [&] {
          begun.count_down();
          release.wait();
          return make_seven();
        },
        k_no_wait));
  });
  begun.wait();
  std::stop_source stop;
  Cancellation cancel;
  cancel.stop = stop.get_token();

  EXPECT_TRUE(throws<spjit::Cancelled>(
      [&] { return flights.run("key", cancel, make_seven, [&] { stop.request_stop(); }); }));

  release.count_down();
}

}  // namespace
