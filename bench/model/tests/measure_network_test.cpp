#include "bench/model/measure_network.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/arithmetic.hpp"
#include "bench/model/tests/three_layers.hpp"
#include "spjit/error.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::bench;
using namespace spjit::testing_support;
using side_by_side::Peer;
using side_by_side::PeerInfo;
using side_by_side::Problem;
using side_by_side::Runnable;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

using Compute = std::function<void(const Problem&)>;

class MadeUpRunnable final : public Runnable {
 public:
  MadeUpRunnable(const Compute& compute, const Problem& problem)
      : compute_(compute), problem_(problem) {}
  void run() override { compute_(problem_); }
  [[nodiscard]] std::string detail() const override { return "made up"; }

 private:
  Compute compute_;
  Problem problem_;
};

class MadeUpPeer final : public Peer {
 public:
  MadeUpPeer(PeerInfo info, Compute compute)
      : Peer(std::move(info)), compute_(std::move(compute)) {}
  std::unique_ptr<Runnable> prepare(const Problem& problem) override {
    if (problem.threads > 2) throw NotSupported("no more than two threads");
    return std::make_unique<MadeUpRunnable>(compute_, problem);
  }

 private:
  Compute compute_;
};

void multiply(const Problem& problem) {
  const CsrMatrix& a = *problem.matrix;
  for (std::int64_t row = 0; row < a.rows; ++row) {
    for (std::int64_t j = 0; j < problem.n; ++j) {
      float sum = 0;
      for (auto i = a.row_ptrs[to_size(row)]; i < a.row_ptrs[to_size(row + 1)]; ++i) {
        sum += a.values[to_size(i)] * problem.b[a.col_idxs[to_size(i)] * problem.n + j];
      }
      problem.c[row * problem.n + j] = sum;
    }
  }
}

void leave_the_last_of_square_layers(const Problem& problem) {
  multiply(problem);
  const CsrMatrix& a = *problem.matrix;
  if (a.rows == a.cols) problem.c[a.rows * problem.n - 1] = std::numeric_limits<float>::quiet_NaN();
}

std::vector<std::unique_ptr<Peer>> peers_of(std::vector<std::pair<PeerInfo, Compute>> all) {
  std::vector<std::unique_ptr<Peer>> peers;
  for (auto& [info, compute] : all) {
    peers.push_back(std::make_unique<MadeUpPeer>(info, compute));
  }
  return peers;
}

SequenceOptions quick() {
  SequenceOptions options;
  options.budget_ms = 1;
  options.min_samples = 2;
  return options;
}

TEST(LayerOperands, ALayerReadsWhatTheLatestOfItsWidthWrote) {
  LayerOperands operands(three_layers(), 5, false);

  EXPECT_EQ(operands.problem(1, 1).b, operands.problem(0, 1).c);
  EXPECT_EQ(operands.problem(2, 1).b, operands.problem(1, 1).c);
  EXPECT_NE(operands.problem(2, 1).c, operands.problem(0, 1).b);
  EXPECT_EQ(operands.problem(0, 1).dense, nullptr);
}

TEST(LayerOperands, HasTheZerosOfEveryLayerIfTheyAreWanted) {
  LayerOperands operands(three_layers(), 5, true);
  EXPECT_EQ(std::vector<float>(operands.problem(1, 1).dense, operands.problem(1, 1).dense + 900),
            dense_of(three_layers()[1].matrix));
}

TEST(MeasureNetwork, TimesPassesOfEveryLibrary) {
  LayerOperands operands(three_layers(), 5, false);
  const auto peers = peers_of({{{"one", "1", "sparse"}, multiply},
                               {{"absent", "", "sparse", "not there"}, multiply},
                               {{"other", "1", "sparse"}, multiply}});

  const auto timings = measure_network(peers, operands, 1, true, quick());

  ASSERT_EQ(timings.size(), 2U);
  EXPECT_EQ(timings[1].library, "other");
  for (const NetworkTiming& timing : timings) {
    EXPECT_EQ(timing.failed, "");
    EXPECT_GE(timing.pass.samples, 2);
    EXPECT_GT(timing.hot.median_us, 0);
    EXPECT_THAT(timing.details, ElementsAre("made up", "made up", "made up"));
  }
}

TEST(MeasureNetwork, DoesNotTimeWhatIsWrong) {
  LayerOperands operands(three_layers(), 20, false);
  const auto peers = peers_of({{{"right", "1", "sparse"}, multiply},
                               {{"wrong", "1", "sparse"}, leave_the_last_of_square_layers}});

  const auto timings = measure_network(peers, operands, 1, false, quick());

  EXPECT_EQ(timings[0].failed, "");
  EXPECT_EQ(timings[0].hot.samples, 0);
  EXPECT_THAT(timings[1].failed, StartsWith("wrong: layer 1 (square): C[29][19]"));
  EXPECT_EQ(timings[1].pass.samples, 0);
}

TEST(MeasureNetwork, SaysWhyALibraryCannot) {
  LayerOperands operands(three_layers(), 5, false);
  const auto peers = peers_of({{{"one", "1", "sparse"}, multiply}});

  const auto timings = measure_network(peers, operands, 3, false, quick());

  EXPECT_THAT(timings[0].failed, HasSubstr("two threads"));
}

}  // namespace
