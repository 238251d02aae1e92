#include "kernels/cuda/unrolled/cuda_samples.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/cuda/unrolled/cuda_features.hpp"
#include "spjit/error.hpp"
#include "tests/support/cuda/cuda_space_testing.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;
using nlohmann::json;

/// All tiles of a matrix, with times that differ.
CudaSampleGroup group_of_matrix() {
  const Problem problem = cuda_problem(random_matrix(130, 90, 0.8), 200);
  CudaSampleGroup group;
  group.name = "a matrix";
  group.recipe = {{"rows", 130}};
  group.limits = cuda_limits();
  for (const CudaCandidate& candidate : cuda_space(problem).survivors()) {
    group.work = candidate.work;
    CudaSample sample{candidate};
    sample.us = 1.0 / static_cast<double>(group.samples.size() + 3);
    sample.samples = 5;
    group.samples.push_back(sample);
  }
  return group;
}

std::vector<float> features_of(const CudaSampleGroup& group) {
  std::vector<CudaCandidate> candidates;
  for (const CudaSample& sample : group.samples) candidates.push_back(sample.candidate);
  return cuda_feature_rows(candidates, group.limits);
}

std::string error_of(const json& line) {
  try {
    static_cast<void>(read_cuda_samples(line.dump()));
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

TEST(CudaSamples, ALineHoldsAllThatFeaturesLookAt) {
  const CudaSampleGroup group = group_of_matrix();
  ASSERT_GT(group.samples.size(), 20U);

  const std::string line = write_samples(group);
  const CudaSampleGroup read = read_cuda_samples(line);

  EXPECT_EQ(write_samples(read), line);
  EXPECT_EQ(read.limits, group.limits);
  EXPECT_EQ(features_of(read), features_of(group));
  ASSERT_EQ(read.samples.size(), group.samples.size());
  for (std::size_t i = 0; i < read.samples.size(); ++i) {
    EXPECT_EQ(read.samples[i].candidate.tile, group.samples[i].candidate.tile);
    EXPECT_EQ(read.samples[i].us, group.samples[i].us);
  }
}

TEST(CudaSamples, AreOfTheFamilyThatModelsAreFor) {
  EXPECT_EQ(to_line(group_of_matrix()).family, cuda_feature_schema().name);
}

TEST(CudaSamples, SayWhatIsWrongWithALine) {
  const json good = json::parse(write_samples(group_of_matrix()));
  EXPECT_EQ(error_of(good), "none");

  json host = good;
  host["family"] = "host";
  EXPECT_NE(error_of(host).find("tiles of 'host'; expected cuda"), std::string::npos);
  json columns = good;
  columns["columns"].erase(0);
  EXPECT_NE(error_of(columns).find("columns"), std::string::npos);
  json shorter = good;
  shorter["tiles"][0].erase(0);
  EXPECT_NE(error_of(shorter).find("a tile has 27 numbers; expected 28"), std::string::npos);
  json reorder = good;
  reorder["tiles"][0][4] = 3;
  EXPECT_NE(error_of(reorder).find("reorder is 3; expected an integer from 0 to 2"),
            std::string::npos);
  json sms = good;
  sms["device"]["sms"] = 0;
  EXPECT_NE(error_of(sms).find("without SMs"), std::string::npos);
  json blocks = good;
  blocks["tiles"][0][13] = 0;
  EXPECT_NE(error_of(blocks).find("blocks in 0 column tiles"), std::string::npos);
  json tile = good;
  tile["tiles"][0][1] = 5000;
  EXPECT_NE(error_of(tile), "none");
}

}  // namespace
