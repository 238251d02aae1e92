// Whole kernels of one problem against each other, on this host.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <vector>

#include "artifact/families.hpp"
#include "base/memory_bytes.hpp"
#include "kernels/host/operands/timing_operands.hpp"
#include "spjit/error.hpp"
#include "tests/support/compile_testing.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

/// Keeps what it was given; takes `rounds` times as long as another.
class Runner final : public Executable {
 public:
  explicit Runner(int rounds) : rounds_(rounds) {}

  void run(const Arguments& arguments) const override {
    const std::lock_guard lock(mutex_);
    given_ = arguments;
    if (arguments.values != nullptr) values_of_ = arguments.values->stream()->kernel_id();
    last_of_b_ = arguments.b.as<float>()[4 * arguments.b.ld + arguments.n - 1];
    ++runs_;
    volatile double sum = 0;
    for (int i = 0; i < rounds_ * 20'000; ++i) sum = sum + 1.0;
  }

  [[nodiscard]] std::shared_ptr<const PreparedValues::Stream> prepare_values(
      std::span<const float> values) const override {
    EXPECT_FALSE(values.empty());
    return std::make_shared<const PreparedValues::Stream>(id());
  }

  [[nodiscard]] const Arguments& given() const { return given_; }
  /// The kernel that the values of the last run were for.
  [[nodiscard]] std::uint64_t values_of() const { return values_of_; }
  /// Of the last of B's five rows.
  [[nodiscard]] float last_of_b() const { return last_of_b_; }
  [[nodiscard]] int runs() const { return runs_; }

 private:
  int rounds_;
  mutable std::mutex mutex_;
  mutable Arguments given_;
  mutable float last_of_b_ = 0;
  mutable std::uint64_t values_of_ = 0;
  mutable int runs_ = 0;
};

constexpr std::int64_t k_fills_caches = std::numeric_limits<std::int64_t>::max();

class KernelRaceTest : public testing::Test {
 protected:
  [[nodiscard]] std::vector<TuningResult> race(const RaceOptions& options,
                                               const CompileContext& context = {}) const {
    const std::vector<RaceEntry> entries = {{"slow", slow_}, {"fast", fast_}};
    return backend_named("host").race(entries, checked_problem(problem_), options, context);
  }

  Problem problem_ = problem_of(random_matrix(7, 5, 0.5), 9);
  std::shared_ptr<Runner> slow_ = std::make_shared<Runner>(20);
  std::shared_ptr<Runner> fast_ = std::make_shared<Runner>(1);
};

TEST_F(KernelRaceTest, IsWonByTheFasterHotAndCold) {
  for (const bool hot : {true, false}) {
    const auto results = race({.between_bytes = hot ? 0 : k_fills_caches, .budget_ms = 20'000});

    ASSERT_EQ(results.size(), 2U);
    EXPECT_EQ(winner_of(results), 1);
    EXPECT_GE(results[1].timing.samples, 3);
    if (!hot) {
      EXPECT_EQ(results[1].timing.batch, 1);
    }
  }
}

TEST_F(KernelRaceTest, RunsOnTheProblemsOperands) {
  problem_.b.leading_dimension = 12;
  problem_.c.leading_dimension = 15;

  static_cast<void>(race({.between_bytes = 0, .budget_ms = 20'000}));

  const Arguments& given = fast_->given();
  EXPECT_EQ(given.b.ld, 12);
  EXPECT_EQ(given.c.ld, 15);
  EXPECT_EQ(given.n, 9);
  EXPECT_EQ(fast_->last_of_b(), static_cast<float>((4 * 9 + 8) % 17) * 0.125F - 1.0F);
}

TEST_F(KernelRaceTest, RunsTheLayerAsItIsCompiled) {
  problem_.b.layout = problem_.c.layout = Layout::tokens_major;
  problem_.b.leading_dimension = 3;  // of 5 features
  problem_.epilogue = {.scale = true, .bias = true, .residual = true};
  problem_.runtime_values = true;

  static_cast<void>(race({.between_bytes = k_fills_caches, .budget_ms = 20'000}));

  const Arguments& given = fast_->given();
  EXPECT_EQ(given.b.layout, Layout::tokens_major);
  EXPECT_EQ(given.c.layout, Layout::tokens_major);
  EXPECT_EQ(given.b.ld, 3);
  EXPECT_EQ(given.c.ld, 7);
  EXPECT_EQ(given.residual.ld, 7);
  EXPECT_NE(given.scale, nullptr);
  EXPECT_EQ(given.bias, given.scale + 7);
  EXPECT_NE(given.residual.data, nullptr);
  EXPECT_NE(given.residual.data, given.c.data);
  EXPECT_EQ(slow_->values_of(), slow_->id());
  EXPECT_EQ(fast_->values_of(), fast_->id());
}

TEST_F(KernelRaceTest, GivesALayerNoOperandsThatItDoesNotTake) {
  problem_.b.layout = Layout::panel_major;
  problem_.panel_columns = 4;

  static_cast<void>(race({.between_bytes = 0, .budget_ms = 20'000}));

  const Arguments& given = fast_->given();
  EXPECT_EQ(given.b.layout, Layout::panel_major);
  EXPECT_EQ(given.c.layout, Layout::row_major);
  EXPECT_EQ(given.scale, nullptr);
  EXPECT_EQ(given.bias, nullptr);
  EXPECT_EQ(given.residual.data, nullptr);
  EXPECT_EQ(given.values, nullptr);
}

TEST(TooLargeToTime, CountsOperandsAsTheyLieAndTheResidual) {
  Problem problem = problem_of(random_matrix(7, 5, 0.5), 9);
  problem.c.layout = Layout::tokens_major;
  // A third of the memory.
  problem.c.leading_dimension = memory_bytes() / 4 / 9 / 3;
  EXPECT_FALSE(too_large_to_time(problem));

  problem.epilogue.residual = true;
  EXPECT_THAT(too_large_to_time(problem).reason(),
              testing::StartsWith("B, C and the residual would take "));
}

TEST_F(KernelRaceTest, EndsAtItsBudgetAndTimesNothingWithoutOne) {
  for (const TuningResult& result : race({.between_bytes = 0, .budget_ms = 0})) {
    EXPECT_EQ(result.timing.samples, 0);
  }
}

TEST_F(KernelRaceTest, IsNotHeldWhereOperandsDoNotFitTheMemory) {
  problem_.c.leading_dimension = std::int64_t{1} << 40;

  EXPECT_TRUE(race({.between_bytes = 0, .budget_ms = 20'000}).empty());
  EXPECT_EQ(fast_->runs(), 0);
}

TEST_F(KernelRaceTest, CanBeStopped) {
  std::stop_source stop;
  stop.request_stop();
  CompileContext context;
  context.cancel.stop = stop.get_token();

  EXPECT_THROW(static_cast<void>(race({.between_bytes = 0, .budget_ms = 20'000}, context)),
               Cancelled);
}

}  // namespace
