#include "artifact/tuned_families.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/cuda/unrolled/cuda_features.hpp"
#include "kernels/cuda/unrolled/cuda_prior.hpp"
#include "kernels/cuda/unrolled/cuda_samples.hpp"
#include "kernels/host/unrolled/host_features.hpp"
#include "kernels/host/unrolled/host_samples.hpp"
#include "spjit/error.hpp"
#include "tests/support/cuda/cuda_space_testing.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using namespace spjit;
using testing::ElementsAre;

/// A matrix of 8 rows whose tiles have m1 = 1, 2, ... and these times.
HostSampleGroup host_group(const std::vector<double>& times_us) {
  HostSampleGroup group;
  group.name = "a matrix";
  group.limits.name = "a CPU";
  group.limits.isa = HostIsa::avx2;
  group.limits.lanes = 16;
  group.limits.registers = 32;
  group.work = {.rows = 8, .cols = 32, .nnz = 64, .n = 64, .threads = 2};
  for (const double us : times_us) {
    HostSample sample;
    sample.candidate.tile.m1 = static_cast<std::int64_t>(group.samples.size()) + 1;
    sample.candidate.tile.nv = 1;
    sample.candidate.panels = 4;
    sample.candidate.grouping = {.tiles = 2, .nnc_sum = 32};
    sample.us = us;
    group.samples.push_back(sample);
  }
  return group;
}

/// All tiles of a matrix in 1, 2, ... microseconds, the last of which did not run.
CudaSampleGroup cuda_group() {
  CudaSampleGroup group;
  group.limits = testing_support::cuda_limits();
  const Problem problem =
      testing_support::cuda_problem(testing_support::random_matrix(130, 90, 0.8), 200);
  for (const CudaCandidate& candidate : testing_support::cuda_space(problem).survivors()) {
    group.work = candidate.work;
    group.samples.push_back({candidate, static_cast<double>(group.samples.size() + 1)});
  }
  group.samples.back().us = 0;
  return group;
}

std::string reading_error(const std::vector<SampleLine>& lines) {
  try {
    static_cast<void>(read_tiles(lines));
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

TEST(TunedFamilies, TilesOfTheHostHaveFeaturesAndTheRulesChoice) {
  HostSampleGroup group = host_group({1, 0});
  group.samples[1].candidate.tile = host_tile_by_rules(contiguous(group.work), group.limits);

  const std::vector<SampledTiles> read = read_tiles(std::vector{to_line(group)});

  ASSERT_EQ(read.size(), 1U);
  EXPECT_EQ(read[0].name, "a matrix");
  EXPECT_EQ(read[0].device, "a CPU avx2 t2");
  EXPECT_THAT(read[0].times_us, ElementsAre(1, INFINITY));
  EXPECT_THAT(read[0].rules, ElementsAre(0, 1));
  EXPECT_EQ(read[0].tiles[1], to_string(group.samples[1].candidate.tile));
  EXPECT_EQ(read[0].features.size(), 2 * host_feature_schema().features.size());
  EXPECT_LT(read[0].prior[0], 0);
  EXPECT_EQ(&tuned_family("host").schema(), &host_feature_schema());
}

TEST(TunedFamilies, TilesOfAGpuHaveFeaturesAndNoRules) {
  const CudaSampleGroup group = cuda_group();
  std::vector<CudaCandidate> candidates;
  for (const CudaSample& sample : group.samples) candidates.push_back(sample.candidate);

  const std::vector<SampledTiles> read = read_tiles(std::vector{to_line(group)});

  ASSERT_EQ(read.size(), 1U);
  EXPECT_EQ(read[0].device, group.limits.name());
  EXPECT_EQ(read[0].tiles.size(), candidates.size());
  EXPECT_EQ(read[0].features, cuda_feature_rows(candidates, group.limits));
  EXPECT_EQ(read[0].prior[1], -estimate_cuda_cycles(candidates[1], group.limits));
  EXPECT_TRUE(read[0].rules.empty());
  EXPECT_EQ(&tuned_family("cuda").schema(), &cuda_feature_schema());
}

TEST(TunedFamilies, AreTimedAtOnceOrCompiledFirst) {
  const testing_support::TemporaryDirectory directory;
  for (const TunedFamily* family : tuned_families()) {
    const auto folder = family->open(directory.path() / std::string(family->name()));

    EXPECT_EQ(folder == nullptr, family->timer() != nullptr) << family->name();
  }
}

TEST(TunedFamilies, NameGroupsByTheirDevice) {
  CompileOptions options;
  options.target = Target::parse("host-avx2");
  options.resources.threads = 3;
  EXPECT_EQ(tuned_family("host").device_name(options), "host-avx2 t3");

  options.target = Target::parse("sm_90:h100");
  EXPECT_EQ(tuned_family("cuda").device_name(options), "sm_90:h100");
  EXPECT_NE(name_of(tuned_family("cuda").draw(1, 2)), name_of(tuned_family("host").draw(1, 2)));
}

TEST(TunedFamilies, KnowTheReductionsOfTheirProxies) {
  const Problem problem =
      testing_support::cuda_problem(testing_support::random_matrix(24, 16, 0.7), 40);
  CompileOptions options;
  options.target = Target::parse("sm_90");
  const DeviceInfo device = testing_support::cuda_limits();
  const Cancellation cancel;
  const FamilyRequest request{problem, options, device, cancel};
  SpaceOptions how;
  how.find_cubin = [](const std::string&, const auto& make) { return make(); };  // no compiler yet
  how.without = {"blocks", "occupancy"};

  const auto space = tuned_family("cuda").space(request, how);

  EXPECT_FALSE(space->candidates().empty());
  EXPECT_EQ(space->ranked_by(), "prior");
  how.without = {"columns"};
  EXPECT_THROW(static_cast<void>(tuned_family("cuda").space(request, how)), InvalidArgument);
  EXPECT_EQ(tuned_family("host").space(request, {}), nullptr);
}

TEST(TunedFamilies, ThatThereAreNotAreRefused) {
  SampleLine host = to_line(host_group({1}));
  SampleLine other = host;
  other.family = "npu";

  EXPECT_EQ(reading_error({other}), "tiles of 'npu'; expected host or cuda");
  EXPECT_NE(reading_error({host, other}).find("expected tiles of one kind of device"),
            std::string::npos);
  host.columns = {"m1"};
  EXPECT_NE(reading_error({host}).find("not a line of samples: the columns"), std::string::npos);
  EXPECT_EQ(reading_error({}), "none");
}

}  // namespace
