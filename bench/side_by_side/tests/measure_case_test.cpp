#include "bench/side_by_side/measure_case.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/side_by_side/peers.hpp"
#include "spjit/error.hpp"

namespace {

using namespace spjit::side_by_side;
using namespace std::chrono_literals;
using testing::HasSubstr;

/// [[1, 2], [0, 3]]
spjit::CsrMatrix two_by_two() { return {2, 2, {0, 2, 3}, {0, 1, 1}, {1, 2, 3}}; }

/// How often a made-up library was called.
struct Calls {
  int runs = 0;
  int rests = 0;
  int forgets = 0;
  std::chrono::nanoseconds overhead{0};
};

/// A library made up of one function.
class MadeUpRunnable final : public Runnable {
 public:
  MadeUpRunnable(std::function<void()> compute, std::shared_ptr<Calls> calls)
      : compute_(std::move(compute)), calls_(std::move(calls)) {}

  void run() override {
    compute_();
    ++calls_->runs;
  }
  void rest() override { ++calls_->rests; }
  void forget() override { ++calls_->forgets; }
  [[nodiscard]] std::chrono::nanoseconds overhead() const override { return calls_->overhead; }
  [[nodiscard]] std::string detail() const override { return "made up"; }

 private:
  std::function<void()> compute_;
  std::shared_ptr<Calls> calls_;
};

class MadeUpPeer final : public Peer {
 public:
  using Compute = std::function<void(const Problem&)>;
  MadeUpPeer(PeerInfo info, Compute compute)
      : Peer(std::move(info)), compute_(std::move(compute)) {}

  std::unique_ptr<Runnable> prepare(const Problem& problem) override {
    if (problem.n > 100) throw spjit::NotSupported("no n over 100");
    return std::make_unique<MadeUpRunnable>([this, problem] { compute_(problem); }, calls_);
  }

  [[nodiscard]] const Calls& calls() const { return *calls_; }

 private:
  Compute compute_;
  std::shared_ptr<Calls> calls_ = std::make_shared<Calls>();
};

/// C = A * B for the matrix above.
void multiply(const Problem& problem) {
  for (std::int64_t j = 0; j < problem.n; ++j) {
    problem.c[j] = problem.b[j] + 2 * problem.b[problem.n + j];
    problem.c[problem.n + j] = 3 * problem.b[problem.n + j];
  }
}

void forget_last_element(const Problem& problem) {
  const float before = problem.c[2 * problem.n - 1];
  multiply(problem);
  problem.c[2 * problem.n - 1] = before;
}

MeasureOptions quick_options() {
  MeasureOptions options;
  options.isa = spjit::HostIsa::generic;
  options.budget_ms = 1;
  options.cold_runs = 2;
  return options;
}

class MeasureCase : public testing::Test {
 protected:
  MadeUpPeer& add(PeerInfo info, MadeUpPeer::Compute compute) {
    auto peer = std::make_unique<MadeUpPeer>(std::move(info), std::move(compute));
    MadeUpPeer& added = *peer;
    peers_.push_back(std::move(peer));
    return added;
  }

  CaseResult measure(std::int64_t n, int threads = 1) {
    Operands operands(two_by_two(), n);
    return measure_case(peers_, operands, threads, quick_options(), caches_);
  }

  std::vector<std::unique_ptr<Peer>> peers_;
  static spjit::HostCpu small_caches() {
    spjit::HostCpu cpu;
    cpu.l2_bytes = 4096;
    cpu.l3_bytes = 65536;
    return cpu;
  }

  spjit::CacheFlush caches_{small_caches(), nullptr};
};

TEST_F(MeasureCase, OnlyCheckingTimesNothingAndStillFindsWhatIsWrong) {
  const MadeUpPeer& right = add({"right", "1", "jit"}, multiply);
  Operands operands(two_by_two(), 4);
  MeasureOptions options = quick_options();
  options.check_only = true;

  const CaseResult checked = measure_case(peers_, operands, 1, options, caches_);
  add({"wrong", "1", "dense"}, forget_last_element);
  const CaseResult found = measure_case(peers_, operands, 1, options, caches_);

  EXPECT_TRUE(checked.all_right());
  EXPECT_FALSE(checked.any_timed());
  EXPECT_EQ(checked.timings[0].failed, k_not_timed);
  EXPECT_EQ(checked.timings[0].warm.samples, 0);
  EXPECT_EQ(right.calls().runs, 2);
  EXPECT_FALSE(found.all_right());
  EXPECT_FALSE(found.checked);
  EXPECT_THAT(found.timings[1].failed, HasSubstr("wrong: C[1][3]"));
}

TEST_F(MeasureCase, DescribesTheCase) {
  add({"right", "1", "sparse"}, multiply);

  const CaseResult result = measure(4, 2);

  EXPECT_EQ(result.rows, 2);
  EXPECT_EQ(result.cols, 2);
  EXPECT_EQ(result.nnz, 3);
  EXPECT_EQ(result.n, 4);
  EXPECT_EQ(result.threads, 2);
  EXPECT_DOUBLE_EQ(result.sparsity(), 0.25);
  // B and C of 8 floats each, 3 values and columns, 3 row offsets.
  EXPECT_DOUBLE_EQ(result.traffic_bytes(), 4 * 16 + 8 * 3 + 4 * 3);
  EXPECT_GT(result.peak_gflops, 0);
}

TEST_F(MeasureCase, ARightLibraryIsTimedWarmAndCold) {
  add({"right", "1", "sparse", "", "packing"}, multiply);

  const CaseResult result = measure(4);

  constexpr std::int64_t k_cold_runs = 2;
  EXPECT_EQ(caches_.bytes_read(), k_cold_runs * 2 * small_caches().l3_bytes);
  ASSERT_EQ(result.timings.size(), 1);
  const PeerTiming& timing = result.timings[0];
  EXPECT_TRUE(result.checked);
  EXPECT_EQ(timing.failed, "");
  EXPECT_GE(timing.warm.samples, 7);
  EXPECT_TRUE(timing.cold_us.has_value());
  EXPECT_EQ(timing.prepare_kind, "packing");
  EXPECT_EQ(timing.detail, "made up");
}

TEST_F(MeasureCase, AWrongLibraryFailsAndIsNotTimed) {
  add({"right", "1", "sparse"}, multiply);
  const MadeUpPeer& wrong = add({"wrong", "1", "sparse"}, forget_last_element);

  const CaseResult result = measure(4);

  EXPECT_FALSE(result.checked);
  EXPECT_EQ(wrong.calls().runs, 1);
  EXPECT_EQ(result.timings[0].failed, "");
  EXPECT_THAT(result.timings[1].failed, HasSubstr("C[1][3] is nan"));
  EXPECT_EQ(result.timings[1].warm.samples, 0);
  EXPECT_FALSE(result.timings[1].cold_us.has_value());
}

TEST_F(MeasureCase, WhatALibraryCannotComputeIsNoWrongResult) {
  add({"small", "1", "sparse"}, multiply);

  const CaseResult result = measure(101);

  EXPECT_TRUE(result.checked);
  EXPECT_EQ(result.timings[0].failed, "no n over 100");
}

TEST_F(MeasureCase, MissingLibrariesAreNotAsked) {
  add({"right", "1", "sparse"}, multiply);
  const MadeUpPeer& missing = add({"gone", "", "sparse", "not installed"}, multiply);

  const CaseResult result = measure(4);

  EXPECT_EQ(result.timings.size(), 1);
  EXPECT_EQ(missing.calls().runs, 0);
}

TEST_F(MeasureCase, LibrariesRestAfterSamplesOnSeveralThreads) {
  const MadeUpPeer& one = add({"right", "1", "sparse"}, multiply);
  (void)measure(4, 1);
  const int rests_on_one = one.calls().rests;

  (void)measure(4, 2);

  EXPECT_EQ(rests_on_one, 0);
  // After the check, the warm-up, seven samples at least, and the cold runs.
  EXPECT_GE(one.calls().rests - rests_on_one, 1 + 1 + 7 + 2);
  EXPECT_EQ(one.calls().forgets, 4);
}

TEST(WithoutOverhead, LeavesOutWhatRunsSayIsNotTheirs) {
  const auto calls = std::make_shared<Calls>();
  const MadeUpRunnable runnable([] {}, calls);
  const auto clock = without_overhead([] { return 10s; }, {&runnable});

  calls->overhead = 3s;

  EXPECT_EQ(clock(), 7s);
}

TEST(CaseResult, CountsUsefulOperations) {
  CaseResult result;
  result.nnz = 1000;
  result.n = 50;
  PeerTiming timing;
  timing.warm.median_us = 10;

  EXPECT_DOUBLE_EQ(result.gflops(timing), 10);  // 100 000 operations in 10 us
}

TEST_F(MeasureCase, ALibraryThatBindsTheCallingThreadEndsIt) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  if (CPU_COUNT(&before) < 2) GTEST_SKIP() << "one CPU: there is nothing to bind to";
  add({"binding", "1", "dense"}, [](const Problem& problem) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(sched_getcpu()), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    multiply(problem);
  });

  std::string problem;
  try {
    static_cast<void>(measure(3, 2));
  } catch (const spjit::Error& error) {
    problem = error.what();
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);

  EXPECT_THAT(problem, HasSubstr("binding bound the calling thread to 1 of"));
}

}  // namespace
