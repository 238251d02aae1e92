// Judges the choice models that ship by times that none of them was trained on. Nothing is timed.

#include "kernels/host/choice_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "artifact/families.hpp"
#include "bench/choice/choice_case.hpp"
#include "kernels/host/training/choice_samples.hpp"
#include "rankmodel/rank_model.hpp"
#include "spjit/compiler.hpp"
#include "spjit/error.hpp"

namespace {

using spjit::ChoiceLoss;
using spjit::ChoiceResult;
using spjit::ChoiceSamples;
using spjit::CompileOptions;
using spjit::HostDeviceInfo;
using spjit::LoadedRankModel;
using spjit::Problem;

ChoiceSamples judge() {
  return spjit::read_choice_samples(std::filesystem::path(SPJIT_SOURCE_DIR) /
                                    "rankmodel/data/choice-avx512-emerald-rapids-judge.json.gz");
}

/// Of the hot or of the cold products, as the model or, without one, the rules choose.
ChoiceLoss loss(const LoadedRankModel* model, bool hot) {
  const ChoiceSamples samples = judge();
  std::vector<ChoiceResult> results;
  for (ChoiceResult result : samples.results) {
    if (result.what.hot != hot) continue;
    if (model != nullptr) {
      result.chosen = chosen_by(forecast(*model, result, samples.limits), result);
    }
    results.push_back(std::move(result));
  }
  return loss_of(results);
}

/// Floors of quality: a model that is trained again has to reach them.
bool is_good(const LoadedRankModel& model) {
  const ChoiceLoss hot = loss(&model, true);
  const ChoiceLoss cold = loss(&model, false);
  return hot.geometric_mean <= 1.025 && cold.geometric_mean <= 1.035 && hot.share_over <= 0.03 &&
         cold.share_over <= 0.03;
}

std::shared_ptr<const LoadedRankModel> shipped() { return spjit::choice_model(judge().limits); }

TEST(ChoiceModel, IsBetterThanTheRulesOnNetworksThatItHasNotSeen) {
  const auto model = shipped();
  ASSERT_NE(model, nullptr);

  EXPECT_TRUE(is_good(*model));
  for (const bool hot : {true, false}) {
    const ChoiceLoss learned = loss(model.get(), hot);
    const ChoiceLoss rules = loss(nullptr, hot);
    EXPECT_GE(learned.products, 100U);
    EXPECT_LT(learned.geometric_mean, rules.geometric_mean) << (hot ? "hot" : "cold");
    EXPECT_LT(learned.share_over, rules.share_over) << (hot ? "hot" : "cold");
  }
}

TEST(ChoiceModel, AWorseOneDoesNotPass) {
  LoadedRankModel shuffled = *shipped();
  auto& trees = shuffled.model.trees;
  for (spjit::RankTree& tree : trees) {
    // The scores of a tree's leaves, each at the place of another.
    std::vector<float*> leaves;
    for (spjit::RankNode& node : tree.nodes) {
      if (node.is_leaf()) leaves.push_back(&node.value);
    }
    for (std::size_t i = 0; 2 * i + 1 < leaves.size(); ++i) {
      std::swap(*leaves[i], *leaves[leaves.size() - 1 - i]);
    }
  }
  LoadedRankModel short_of_trees = *shipped();
  short_of_trees.model.trees.resize(3);

  EXPECT_FALSE(is_good(shuffled));
  EXPECT_FALSE(is_good(short_of_trees));
}

class Forecast : public testing::Test {
 protected:
  Forecast() {
    problem_.a = spjit::bench::matrix_of({512, 512, 0.9, 16, false});
    problem_.n = 16;
    options_.target = spjit::Target::parse("host-avx512:emerald-rapids");
    device_ = device_info_of(options_.target);
  }

  [[nodiscard]] spjit::FamilyForecast now() const {
    return spjit::forecast({problem_, options_, device_, {}});
  }

  Problem problem_;
  CompileOptions options_;
  spjit::DeviceInfo device_;
};

TEST_F(Forecast, IsOfEachFamilyAndDecides) {
  const spjit::FamilyForecast forecast = now();
  const spjit::Backend& host = spjit::backend_named("host");

  ASSERT_EQ(forecast.families.size(), spjit::choice_families().size());
  const auto first =
      std::ranges::min_element(forecast.families, {}, &spjit::FamilyForecast::Entry::log2_time);
  const spjit::FamilyRequest request{problem_, options_, device_, {}};
  EXPECT_EQ(spjit::chosen_family(request)->name(), first->family);
  for (const auto& entry : forecast.families) {
    const spjit::Refusal refusal = host.leaves_to_others(spjit::find_family(entry.family), request);
    EXPECT_EQ(bool(refusal), entry.family != first->family);
    if (refusal) {
      EXPECT_NE(refusal.reason().find("predicts"), std::string::npos) << refusal.reason();
    }
  }
}

TEST_F(Forecast, IsOnlyOfProblemsThatWereTimed) {
  ASSERT_FALSE(now().empty());

  const auto without = [&](auto change) {
    const Problem problem = problem_;
    const CompileOptions options = options_;
    const spjit::DeviceInfo device = device_;
    change();
    const bool is_empty = now().empty();
    problem_ = problem;
    options_ = options;
    device_ = device;
    return is_empty;
  };
  EXPECT_TRUE(without([&] { options_.policy.values["choice"] = "rules"; }));
  EXPECT_TRUE(without([&] { options_.policy.network_nnz = 1000; }));
  EXPECT_FALSE(without([&] { options_.policy.network_nnz = 100'000'000; }));
  EXPECT_TRUE(without([&] { problem_.n.runtime = true; }));
  EXPECT_TRUE(without([&] { problem_.panel_columns = 16; }));
  EXPECT_TRUE(without([&] { problem_.numerics.b = spjit::DataType::bf16; }));
  EXPECT_TRUE(without([&] { problem_.n = 100'000; }));
  EXPECT_TRUE(without([&] { std::get<HostDeviceInfo>(device_).card = "zen4"; }));
  EXPECT_TRUE(without([&] { std::get<HostDeviceInfo>(device_).card = ""; }));
}

TEST(ChoiceSamples, WhatIsNoFileOfTimesIsAnError) {
  const std::filesystem::path root(SPJIT_SOURCE_DIR);

  EXPECT_THROW((void)spjit::read_choice_samples(root / "no-such.json"), spjit::Error);
  EXPECT_THROW((void)spjit::read_choice_samples(root / "CMakePresets.json"), spjit::Error);
}

}  // namespace
