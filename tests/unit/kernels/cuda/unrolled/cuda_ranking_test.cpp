#include "kernels/cuda/unrolled/cuda_ranking.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/unrolled/cuda_choice.hpp"
#include "kernels/cuda/unrolled/cuda_features.hpp"
#include "kernels/cuda/unrolled/cuda_prior.hpp"
#include "kernels/cuda/unrolled/cuda_record.hpp"
#include "rankmodel/rank_model.hpp"
#include "spjit/error.hpp"
#include "tests/support/convolution_cases.hpp"
#include "tests/support/cuda/cuda_space_testing.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

/// For features of GPUs, without trees.
RankModel model_of(int version) {
  RankModel model;
  model.name = "mine";
  model.schema = cuda_feature_schema().name;
  model.schema_version = version;
  model.features = cuda_feature_schema().names();
  return model;
}

/// More threads a tile are better, whatever else.
std::shared_ptr<const LoadedRankModel> wide_first() {
  LoadedRankModel model{model_of(cuda_feature_schema().version), "mine 1"};
  const std::vector<std::string>& names = model.model.features;
  const auto n1 = static_cast<std::int32_t>(std::ranges::find(names, "n1") - names.begin());
  model.model.trees.push_back({{{100.0F, n1, 1, true}, {0.0F}, {1.0F}}});
  return std::make_shared<const LoadedRankModel>(model);
}

Problem problem() { return cuda_problem(random_matrix(256, 128, 0.9), 128); }

TEST(CudaRanking, IsThePriorsWithoutAModel) {
  const std::vector<CudaCandidate> tiles = cuda_space(problem()).survivors();

  const CudaRanking ranking = rank_cuda_tiles(tiles, cuda_limits(), nullptr, {true, true});

  const std::vector<CudaCandidate> prior = rank_by_prior(tiles, cuda_limits());
  EXPECT_EQ(ranking.favourite, 0U);
  ASSERT_EQ(ranking.tiles.size(), prior.size());
  for (std::size_t i = 0; i < prior.size(); ++i) EXPECT_EQ(ranking.tiles[i].tile, prior[i].tile);
}

TEST(CudaRanking, IsTheModelsAndEqualTilesStayInThePriorsOrder) {
  const std::vector<CudaCandidate> tiles = cuda_space(problem()).survivors();
  const std::vector<CudaCandidate> prior = rank_by_prior(tiles, cuda_limits());
  std::vector<CudaTile> expected;
  for (const bool wide : {true, false}) {
    for (const CudaCandidate& candidate : prior) {
      if ((candidate.tile.n1 >= 100) == wide) expected.push_back(candidate.tile);
    }
  }

  const CudaRanking ranking =
      rank_cuda_tiles(tiles, cuda_limits(), wide_first().get(), {true, true});

  ASSERT_EQ(ranking.tiles.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(ranking.tiles[i].tile, expected[i]);
  EXPECT_EQ(ranking.tiles[ranking.favourite].tile, prior.front().tile);
  EXPECT_EQ(ranking.tiles.front().score, 1);
}

/// wide_first(), trained on problems of up to 200 columns.
LoadedRankModel model_of_ranges() {
  LoadedRankModel model = *wide_first();
  model.model.provenance = {{"ranges", {{"n", {5.0, 7.7}}, {"m1", {1.0, 1.0}}}}};
  return model;
}

TEST(CudaRanking, AModelDecidesAboutProblemsLikeThoseThatItHasSeen) {
  const std::vector<CudaCandidate> tiles = cuda_space(problem()).survivors();
  const LoadedRankModel model = model_of_ranges();

  const CudaRanking ranking = rank_cuda_tiles(tiles, cuda_limits(), &model, {true, true});

  EXPECT_TRUE(ranking.is_decided_by_model);
  EXPECT_EQ(ranking.favourite, 0U);
  EXPECT_NE(ranking.tiles.front().tile, rank_by_prior(tiles, cuda_limits()).front().tile);
}

TEST(CudaRanking, ThePriorDecidesAboutOthers) {
  const std::vector<CudaCandidate> tiles = cuda_space(problem()).survivors();
  const CudaTile first = rank_by_prior(tiles, cuda_limits()).front().tile;
  const LoadedRankModel seen = model_of_ranges();
  LoadedRankModel of_fewer_columns = seen;
  of_fewer_columns.model.provenance["ranges"]["n"] = {5.0, 6.0};
  LoadedRankModel modelled = seen;
  modelled.model.provenance["times"] = "modelled";

  for (const auto& [model, is_plain] : {std::pair{seen, false},
                                        {of_fewer_columns, true},
                                        {modelled, true},
                                        {*wide_first(), true}}) {
    const CudaRanking ranking = rank_cuda_tiles(tiles, cuda_limits(), &model, {is_plain, true});

    EXPECT_FALSE(ranking.is_decided_by_model);
    EXPECT_EQ(ranking.tiles[ranking.favourite].tile, first);
  }
}

TEST(CudaRanking, KindsOfProblemsThatNoSampleIsOfAreNotPlain) {
  EXPECT_TRUE(is_plain_product(problem()));
  Problem other = problem();
  other.c.layout = Layout::tokens_major;
  EXPECT_FALSE(is_plain_product(other));
  other = problem();
  other.b.layout = Layout::tokens_major;
  EXPECT_FALSE(is_plain_product(other));
  other = problem();
  other.n.runtime = true;
  EXPECT_FALSE(is_plain_product(other));
  other = problem();
  other.runtime_values = true;
  EXPECT_FALSE(is_plain_product(other));
  other = problem();
  other.numerics.accumulate = Accumulate::bounded(0.001);
  EXPECT_FALSE(is_plain_product(other));
  EXPECT_FALSE(is_plain_product(problem_of_convolution(geometries().front(), 16)));
}

TEST(CudaRanking, NothingToRankIsNothing) {
  EXPECT_TRUE(rank_cuda_tiles({}, cuda_limits(), wide_first().get(), {true, true}).tiles.empty());
}

/// On a device that no machine has: nothing is timed.
TEST(CudaRanking, AChoiceThatIsNotTimedIsTheModelsWhereItDecidesElseThePriors) {
  const Problem given = problem();
  CompileOptions options;
  options.target = Target::parse("sm_90");
  options.policy.search = SearchMode::proxy;  // the clock chooses in mode ranked
  const DeviceInfo device = cuda_limits(131);
  const Cancellation never;
  const FamilyRequest what{given, options, device, never};
  const CompileContext context;
  BuildRequest request{what, context};
  const CudaChoice by_prior = choose_cuda_tile(request);
  EXPECT_EQ(by_prior.reason.substr(0, 6), "prior:");
  request.rank_model = std::make_shared<const LoadedRankModel>(model_of_ranges());
  const CudaChoice by_model = choose_cuda_tile(request);
  EXPECT_EQ(by_model.chosen.tile, by_model.ranked.front().tile);
  EXPECT_EQ(by_model.reason.substr(0, 5), "mine:");
  request.rank_model = wide_first();

  const CudaChoice choice = choose_cuda_tile(request);

  EXPECT_EQ(choice.chosen.tile, by_prior.chosen.tile);
  options.policy.search = SearchMode::instant;
  const CudaChoice instant = choose_cuda_tile(request);
  EXPECT_EQ(instant.ranked_by, "prior");
  EXPECT_EQ(instant.ranked.front().tile, by_prior.chosen.tile);
  EXPECT_GE(choice.ranked.front().tile.n1, 100);
  EXPECT_EQ(cuda_choice_record(choice, what).at("search").at("ranked_by"), "mine");
  EXPECT_EQ(cuda_choice_record(by_prior, what).at("search").at("ranked_by"), "prior");
  EXPECT_NE(choice.reason.find("ranked, not timed"), std::string::npos) << choice.reason;
}

TEST(CudaRanking, AModelIsForThisVersionOfTheseFeatures) {
  const TemporaryDirectory directory;
  const auto error_of = [&](const RankModel& model) -> std::string {
    std::ofstream(directory.path() / "model.json") << write_rank_model(model);
    CompileOptions options;
    options.target = Target::parse("sm_90");
    options.policy.rank_model = directory.path() / "model.json";
    try {
      return cuda_rank_model(options)->id.substr(0, 5);
    } catch (const Error& error) {
      return error.what();
    }
  };
  RankModel host = model_of(cuda_feature_schema().version);
  host.schema = "host";
  RankModel other = model_of(cuda_feature_schema().version);
  other.features.back() = "phase of the moon";

  EXPECT_EQ(error_of(model_of(cuda_feature_schema().version)), "mine ");
  EXPECT_NE(error_of(model_of(4)).find("features cuda version 4"), std::string::npos);
  EXPECT_NE(error_of(host).find("features host"), std::string::npos);
  EXPECT_NE(error_of(other).find("phase of the moon"), std::string::npos);
  CompileOptions options;
  for (const char* target : {"sm_75", "sm_100"}) {
    options.target = Target::parse(target);
    EXPECT_EQ(cuda_rank_model(options), nullptr);  // none comes with the library
  }
  options.target = Target::parse("sm_90");
  EXPECT_EQ(cuda_rank_model(options)->model.name, "cuda-sm_90");
  options.policy.rank_model = "prior";
  EXPECT_EQ(cuda_rank_model(options), nullptr);
  options.policy.rank_model = directory.path() / "none.json";
  EXPECT_THROW(static_cast<void>(cuda_rank_model(options)), IoError);
}

}  // namespace
