#include "bench/gpu/changed_space.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace {

using namespace spjit;
using namespace spjit::bench;
using testing::ElementsAre;

/// Candidates "0" to "3", of which "2" is the favourite; one build serves all.
class FourTiles final : public TunableSpace {
 public:
  [[nodiscard]] std::string ranked_by() const override { return "prior"; }
  [[nodiscard]] std::vector<SearchCandidate> candidates() const override {
    return {{"0"}, {"1"}, {"2"}, {"3"}};
  }
  [[nodiscard]] TuningTraits traits() const override {
    TuningTraits traits;
    traits.favourite = 2;
    return traits;
  }
  [[nodiscard]] bool share_build(std::size_t /*left*/, std::size_t /*right*/,
                                 Fidelity /*fidelity*/) const override {
    return true;
  }
  [[nodiscard]] std::shared_ptr<const TunableBuild> build(std::span<const std::size_t> candidates,
                                                          Fidelity /*fidelity*/,
                                                          const Cancellation& /*cancel*/) override {
    built.assign(candidates.begin(), candidates.end());
    return std::make_shared<TunableBuild>();
  }
  [[nodiscard]] std::vector<TuningResult> time(std::span<const TuningJob> jobs,
                                               const TuningOptions& options) override {
    for (const TuningJob& job : jobs) timed.push_back(job.candidate);
    rounds = options.max_rounds;
    return std::vector<TuningResult>(jobs.size());
  }
  [[nodiscard]] std::string note(const TuningJob& job) const override {
    return "note of " + std::to_string(job.candidate);
  }

  std::vector<std::size_t> built;
  std::vector<std::size_t> timed;
  int rounds = 0;
};

TEST(ChangedSpace, HasCandidatesInAnotherOrder) {
  FourTiles all;
  ChangedSpace space(all, {.order = {3, 2}});

  const std::size_t both[] = {0, 1};
  const auto build = space.build(both, Fidelity::full, {});
  const std::vector<TuningJob> jobs = {{0, Fidelity::full, build}, {1, Fidelity::full, build}};
  EXPECT_EQ(space.time(jobs, {}).size(), 2U);

  ASSERT_EQ(space.candidates().size(), 2U);
  EXPECT_EQ(space.candidates()[0].tile, "3");
  EXPECT_EQ(space.traits().favourite, 1U);
  EXPECT_THAT(all.built, ElementsAre(3, 2));
  EXPECT_THAT(all.timed, ElementsAre(3, 2));
  EXPECT_EQ(space.note(jobs[0]), "note of 3");
  EXPECT_EQ(ChangedSpace(all, {.order = {0, 1}}).traits().favourite, std::nullopt);
  EXPECT_EQ(ChangedSpace(all, {}).candidates().size(), 4U);
}

TEST(ChangedSpace, BuildsAndTimesInAnotherWay) {
  FourTiles all;
  int builds = 0;
  ChangedSpace space(all, {.shares_builds = false,
                           .timing = rehearsed,
                           .built = [&](const TunableBuild&) { ++builds; }});

  const std::size_t one[] = {1};
  const auto build = space.build(one, Fidelity::full, {});
  static_cast<void>(space.time(std::vector<TuningJob>{{1, Fidelity::full, build}}, {}));

  EXPECT_FALSE(space.share_build(0, 1, Fidelity::stand_in));
  EXPECT_TRUE(space.share_build(1, 1, Fidelity::stand_in));
  EXPECT_TRUE(ChangedSpace(all, {}).share_build(0, 1, Fidelity::stand_in));
  EXPECT_EQ(builds, 1);
  EXPECT_EQ(all.rounds, 1);
}

}  // namespace
