#include "kernels/host/unrolled/host_ranking.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/host/unrolled/host_features.hpp"
#include "kernels/tuning/rank_models.hpp"
#include "rankmodel/rank_model.hpp"
#include "spjit/error.hpp"
#include "tests/support/host/host_prior_testing.hpp"

namespace {

using spjit::estimate_host_us;
using spjit::host_feature_schema;
using spjit::HostIsa;
using spjit::LoadedRankModel;
using spjit::rank_host_tiles;
using spjit::RankModel;
using spjit::TileCandidate;
using spjit::testing_support::candidate_of;
using spjit::testing_support::k_work;
using spjit::testing_support::limits;

/// For the host's features, without trees.
RankModel host_model_of(int version) {
  RankModel model;
  model.name = "mine";
  model.schema = host_feature_schema().name;
  model.schema_version = version;
  model.features = host_feature_schema().names();
  return model;
}

/// More non-empty columns are better: the prior's opposite.
LoadedRankModel contrary() {
  LoadedRankModel model{host_model_of(host_feature_schema().version), "mine 1"};
  std::int32_t feature = 0;
  while (model.model.features[static_cast<std::size_t>(feature)] != "nnc_sum") ++feature;
  for (const float threshold : {12.05F, 12.2F}) {  // log2 of 4240 and 4705
    model.model.trees.push_back({{{threshold, feature, 1, true}, {-1.0F}, {1.0F}}});
  }
  return model;
}

TEST(HostRanking, RanksFewerLoadsFirstAndScoresAreNegativeMicroseconds) {
  const auto ranked = rank_host_tiles({candidate_of(5000), candidate_of(4000), candidate_of(4500)},
                                      k_work, limits(), nullptr);

  ASSERT_EQ(ranked.size(), 3U);
  EXPECT_EQ(ranked[0].candidate.grouping.nnc_sum, 4000);
  EXPECT_EQ(ranked[1].candidate.grouping.nnc_sum, 4500);
  EXPECT_EQ(ranked[2].candidate.grouping.nnc_sum, 5000);
  for (const auto& tile : ranked)
    EXPECT_DOUBLE_EQ(tile.score, -estimate_host_us(tile.candidate, k_work, limits()));
}

TEST(HostRanking, EqualTilesStayInTheirOrder) {
  std::vector<TileCandidate> equals(3, candidate_of());
  for (std::size_t i = 0; i < 3; ++i) equals[i].registers = static_cast<std::int64_t>(i);

  const auto ranked = rank_host_tiles(equals, k_work, limits(), nullptr);

  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(ranked.at(i).candidate.registers, static_cast<std::int64_t>(i));
  }
}

TEST(HostRanking, NothingToRankIsNothing) {
  EXPECT_TRUE(rank_host_tiles({}, k_work, limits(), nullptr).empty());
}

TEST(HostRanking, AModelDecidesTheOrder) {
  const LoadedRankModel model = contrary();

  const auto ranked = rank_host_tiles({candidate_of(4000), candidate_of(5000), candidate_of(4500)},
                                      k_work, limits(), &model);

  ASSERT_EQ(ranked.size(), 3U);
  EXPECT_EQ(ranked[0].candidate.grouping.nnc_sum, 5000);
  EXPECT_EQ(ranked[0].score, 2);
  EXPECT_EQ(ranked[1].candidate.grouping.nnc_sum, 4500);
  EXPECT_EQ(ranked[1].score, 0);
  EXPECT_EQ(ranked[2].score, -2);
}

TEST(HostRanking, IsNamedAfterWhatRanks) {
  const LoadedRankModel model = contrary();

  EXPECT_EQ(spjit::ranked_by(&model), "mine");
  EXPECT_EQ(spjit::ranked_by(nullptr), "prior");
}

TEST(ShippedModels, FitTheFeaturesAndAreMeasured) {
  for (const HostIsa isa : {HostIsa::avx2, HostIsa::avx512}) {
    const auto model = spjit::shipped_host_model(isa);
    ASSERT_NE(model, nullptr);
    EXPECT_FALSE(model->model.trees.empty());
    ASSERT_TRUE(model->model.provenance.contains("samples"));
    for (const auto& source : model->model.provenance["samples"]) {
      EXPECT_FALSE(source["devices"].empty()) << source;
    }
  }
  EXPECT_EQ(spjit::shipped_host_model(HostIsa::generic), nullptr);
}

TEST(ShippedModels, AModelOfAnotherSchemaIsRefusedWithBothVersions) {
  const int version = host_feature_schema().version;
  const std::string text = write_rank_model(host_model_of(version + 1));
  try {
    static_cast<void>(spjit::parse_model(text, host_feature_schema()));
    FAIL() << "was taken";
  } catch (const spjit::Error& error) {
    EXPECT_NE(std::string(error.what()).find(std::to_string(version)), std::string::npos);
    EXPECT_NE(std::string(error.what()).find(std::to_string(version + 1)), std::string::npos);
  }
}

TEST(ShippedModels, IdsDifferWithTheModel) {
  RankModel other = host_model_of(host_feature_schema().version);
  const std::string id = spjit::parse_model(write_rank_model(other), host_feature_schema())->id;
  other.trees.push_back({{{1.0F}}});

  EXPECT_NE(id, spjit::parse_model(write_rank_model(other), host_feature_schema())->id);
}

}  // namespace
