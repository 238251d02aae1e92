#include "kernels/host/unrolled/host_samples.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "kernels/host/unrolled/host_features.hpp"
#include "spjit/error.hpp"

namespace {

using nlohmann::json;
using spjit::HostSampleGroup;
using spjit::read_host_samples;
using spjit::write_samples;

HostSampleGroup group_by_hand() {
  HostSampleGroup group;
  group.name = "uniform 8x32";
  group.recipe = {{"rows", 8}};
  group.limits.isa = spjit::HostIsa::avx512;
  group.limits.name = "a CPU";
  group.limits.lanes = 16;
  group.limits.l3_bytes = 1 << 25;
  group.work = {8, 32, 64, 48, 2, 0.25};
  group.seconds = 1.5;
  spjit::HostSample sample;
  sample.candidate.tile.m1 = 4;
  sample.candidate.tile.form = spjit::WeightForm::balanced;
  sample.candidate.tile.pack_b = false;
  sample.candidate.panels = 3;
  sample.candidate.column_padding = 0.125;
  sample.candidate.grouping.tiles = 2;
  sample.candidate.grouping.nnc_sum = 32;
  sample.us = 0.1 + 0.2;
  sample.noise = 0.01;
  sample.samples = 7;
  group.samples = {sample, sample};
  group.samples[1].candidate.tile.nv = 2;
  return group;
}

TEST(HostSamples, ALineHoldsAllThereIs) {
  const HostSampleGroup group = group_by_hand();

  const std::string line = write_samples(group);
  const HostSampleGroup read = read_host_samples(line);

  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_EQ(read.name, group.name);
  EXPECT_EQ(read.recipe, group.recipe);
  EXPECT_EQ(read.limits.isa, group.limits.isa);
  EXPECT_EQ(read.limits.name, group.limits.name);
  EXPECT_EQ(read.limits.l3_bytes, group.limits.l3_bytes);
  EXPECT_EQ(read.work.threads, 2);
  EXPECT_EQ(read.work.row_nnz_cv, 0.25);
  ASSERT_EQ(read.samples.size(), 2U);
  EXPECT_EQ(read.samples[0].candidate.tile, group.samples[0].candidate.tile);
  EXPECT_EQ(read.samples[1].candidate.tile, group.samples[1].candidate.tile);
  EXPECT_EQ(read.samples[0].candidate.grouping.nnc_sum, 32);
  EXPECT_EQ(read.samples[0].candidate.grouping.nnc_mean, 16);
  EXPECT_EQ(read.samples[0].candidate.grouping.fmas_per_load, 2);
  EXPECT_EQ(read.samples[0].us, 0.1 + 0.2);
  EXPECT_EQ(write_samples(read), line);
}

TEST(HostSamples, AreOfTheFamilyThatModelsAreFor) {
  EXPECT_EQ(to_line(group_by_hand()).family, spjit::host_feature_schema().name);
}

TEST(HostSamples, SaysWhatIsWrongWithALine) {
  const auto error_of = [](const json& line) -> std::string {
    try {
      static_cast<void>(read_host_samples(line.dump()));
    } catch (const spjit::Error& error) {
      return error.what();
    }
    return "none";
  };
  const json good = json::parse(write_samples(group_by_hand()));
  EXPECT_EQ(error_of(good), "none");

  json other = good;
  other["schema"] = "spjit-samples-9";
  EXPECT_NE(error_of(other).find("expected \"spjit-samples-3\""), std::string::npos);
  json columns = good;
  columns["columns"].push_back("more");
  EXPECT_NE(error_of(columns).find("columns"), std::string::npos);
  json shorter = good;
  shorter["tiles"][1].erase(0);
  EXPECT_NE(error_of(shorter).find("a tile has 17 numbers; expected 18"), std::string::npos);
  json no_grouping = good;
  no_grouping["groupings"].clear();
  EXPECT_NE(error_of(no_grouping).find("no grouping for m1 = 4"), std::string::npos);
  json form = good;
  form["tiles"][0][6] = 3;
  EXPECT_NE(error_of(form).find("form is 3; expected an integer from 0 to 2"), std::string::npos);
  json fraction = good;
  fraction["work"]["rows"] = 1.5;
  EXPECT_NE(error_of(fraction).find("rows is 1.5; expected an integer"), std::string::npos);
  json negative = good;
  negative["tiles"][0][0] = -4;
  EXPECT_NE(error_of(negative).find("m1 is -4; expected an integer"), std::string::npos);
  json isa = good;
  isa["device"]["isa"] = "sse\n2";
  EXPECT_NE(error_of(isa).find("isa is \"sse\\n2\"; expected avx512"), std::string::npos);
  json deep = good;
  for (int i = 0; i < 40; ++i) deep["recipe"] = json::array({deep["recipe"]});
  EXPECT_NE(error_of(deep).find("nested deeper than 32"), std::string::npos);
  json text = good;
  text["tiles"][0][0] = "four";
  EXPECT_NE(error_of(text).find("not a line of samples"), std::string::npos);
  EXPECT_THROW(static_cast<void>(read_host_samples("{")), spjit::Error);
}

}  // namespace
