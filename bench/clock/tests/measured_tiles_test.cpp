// The clock's order against times that a GPU took.

#include "bench/clock/measured_tiles.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "spjit/error.hpp"
#include "tests/support/cuda/cuda_space_testing.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::bench;
using namespace spjit::testing_support;
using testing::HasSubstr;

/// Tiles of a matrix with these measured times.
CudaSampleGroup measured(const std::vector<double>& times) {
  CudaSampleGroup group;
  group.name = "a n512";
  group.recipe = {{"file", "a.mtx"}};
  group.limits = parse_cuda_target("sm_90:h100");
  group.work.n = 512;
  const std::vector<CudaCandidate> tiles =
      cuda_space(cuda_problem(random_matrix(256, 128, 0.9), 512), {}, group.limits).survivors();
  for (std::size_t i = 0; i < times.size(); ++i) {
    CudaSample sample;
    sample.candidate = tiles.at(i);
    sample.us = times[i];
    group.samples.push_back(sample);
  }
  return group;
}

/// Modelled times, one after the other.
ModelTile model_of(const std::vector<double>& times) {
  return [times, i = std::size_t{0}](const CudaCandidate&) mutable {
    ModelledTime time;
    time.us = times.at(i++);
    if (time.us == 0) throw NotSupported("refused");
    return time;
  };
}

TEST(MeasuredTiles, OrdersAreComparedAndTheFirstChoicesLossIsInMeasuredTime) {
  const MeasuredMatrix same = judge_measured(measured({5, 4, 10}), model_of({3, 2, 9}));
  const MeasuredMatrix other = judge_measured(measured({5, 4, 10}), model_of({3, 2, 1}));

  EXPECT_DOUBLE_EQ(same.clock.tau, 1);
  EXPECT_DOUBLE_EQ(same.clock.loss, 0);
  EXPECT_DOUBLE_EQ(other.clock.tau, -1.0 / 3);
  EXPECT_DOUBLE_EQ(other.clock.loss, 1.5);
  EXPECT_DOUBLE_EQ(other.clock.chosen, 10);
}

TEST(MeasuredTiles, SayThatTheyWereMeasuredAndOnWhat) {
  const MeasuredMatrix result = judge_measured(measured({5, 4}), model_of({3, 2}));

  EXPECT_THAT(to_string(result), HasSubstr("a.mtx n=512: 2 tiles, measured (H100 SXM), tau 1.00"));
  EXPECT_EQ(to_json(result).at("tiles").at(1).at("measured_us"), 4);
}

TEST(MeasuredTiles, WhatDidNotRunOrIsRefusedIsLeftOut) {
  const MeasuredMatrix result = judge_measured(measured({5, 0, 1, 4}), model_of({3, 0, 2}));

  ASSERT_EQ(result.tiles.size(), 3U);
  EXPECT_EQ(result.tiles[1].failed, "refused");
  EXPECT_EQ(to_json(result).at("tiles").at(1).at("failed"), "refused");
  EXPECT_DOUBLE_EQ(result.clock.tau, 1);
  EXPECT_DOUBLE_EQ(result.clock.loss, 0);
}

TEST(MeasuredTiles, TimesThatWereNotMeasuredAreRefused) {
  CudaSampleGroup group = measured({5, 4});
  group.times = TimeKind::modelled;

  EXPECT_THROW(static_cast<void>(judge_measured(group, model_of({3, 2}))), Error);
  EXPECT_THROW(static_cast<void>(judge_measured(measured({5, 0}), model_of({3, 2}))), Error);
  group = measured({5, 4});
  group.recipe = {{"rows", 3}};
  EXPECT_THROW(static_cast<void>(judge_measured(group, model_of({3, 2}))), Error);
}

TEST(MeasuredTiles, TheMeanIsOverMatrices) {
  std::vector<MeasuredMatrix> matrices(2);
  matrices[0].clock = {.tau = 1, .chosen = 3, .loss = 0.5};
  matrices[1].clock = {.tau = 0.5, .chosen = 2, .loss = 0};

  const Agreement mean = mean_agreement(matrices, &MeasuredMatrix::clock);

  EXPECT_DOUBLE_EQ(mean.tau, 0.75);
  EXPECT_DOUBLE_EQ(mean.loss, 0.25);
  EXPECT_THROW(static_cast<void>(mean_agreement({}, &MeasuredMatrix::clock)), InvalidArgument);
}

TEST(Agreement, OfNothingOrWithoutTimesIsRefused) {
  const std::vector<double> two = {1, 2};
  const std::vector<double> none = {0, 2};

  EXPECT_THROW(static_cast<void>(agreement(std::vector<double>{1}, std::vector<double>{1})),
               InvalidArgument);
  EXPECT_THROW(static_cast<void>(agreement(none, two)), InvalidArgument);
  EXPECT_THROW(static_cast<void>(agreement(two, std::vector<double>{1})), InvalidArgument);
}

}  // namespace
