#include "kernels/tuning/training/sample_file.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "kernels/host/unrolled/host_samples.hpp"
#include "kernels/tuning/training/sample_recipes.hpp"
#include "spjit/error.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using spjit::draw_recipe;
using spjit::HostSampleGroup;
using spjit::SampleFile;
using spjit::SampleLine;
using spjit::TimeKind;
using spjit::testing_support::TemporaryDirectory;

SampleLine named(const std::string& name, TimeKind times = TimeKind::measured) {
  HostSampleGroup group;
  group.name = name;
  group.times = times;
  return to_line(group);
}

SampleFile open_file(const std::filesystem::path& path) {
  return {path, "host", TimeKind::measured};
}

std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(SampleFile, KnowsWhatWasAddedBefore) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "samples.jsonl";
  {
    SampleFile file = open_file(path);
    EXPECT_EQ(file.size(), 0U);
    file.append(named("one"));
    file.append(named("two"));
  }

  const SampleFile again = open_file(path);

  EXPECT_EQ(again.size(), 2U);
  EXPECT_TRUE(again.has("one") && again.has("two"));
  EXPECT_FALSE(again.has("three"));
  EXPECT_EQ(again.cut_bytes(), 0U);
}

TEST(SampleFile, CutsOffHalfALineWhereverItWasInterrupted) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "samples.jsonl";
  {
    SampleFile file = open_file(path);
    file.append(named("one"));
  }
  const std::string whole = content_of(path);
  const std::string line = spjit::write_sample_line(named("two"));
  for (std::size_t length = 1; length <= line.size(); length += 37) {
    std::ofstream(path, std::ios::app) << line.substr(0, length);
    {
      SampleFile file = open_file(path);
      EXPECT_EQ(file.size(), 1U);
      EXPECT_EQ(file.cut_bytes(), length);
    }
    EXPECT_EQ(content_of(path), whole);
  }
}

TEST(SampleFile, RefusesWhatHoldsNoSamplesAndLeavesItAlone) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "notes.txt";
  std::ofstream(path) << "dear diary\nno newline at the end";

  try {
    const SampleFile file = open_file(path);
    FAIL() << "was taken";
  } catch (const spjit::Error& error) {
    EXPECT_NE(std::string(error.what()).find("notes.txt, line 1:"), std::string::npos);
  }
  EXPECT_EQ(content_of(path), "dear diary\nno newline at the end");
}

TEST(SampleFile, HoldsTilesOfOneFamilyAndTimesOfOneKind) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "samples.jsonl";
  open_file(path).append(named("one"));
  const auto error_of = [&](const char* family, TimeKind times) -> std::string {
    try {
      const SampleFile file(path, family, times);
    } catch (const spjit::Error& error) {
      return error.what();
    }
    return "none";
  };

  EXPECT_EQ(error_of("host", TimeKind::measured), "none");
  EXPECT_NE(error_of("cuda", TimeKind::measured).find("line 1: tiles of host"), std::string::npos);
  EXPECT_NE(error_of("host", TimeKind::modelled).find("expected host and modelled"),
            std::string::npos);
}

TEST(SampleFile, IsAddedToByOneAtATime) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "samples.jsonl";
  const SampleFile file = open_file(path);

  EXPECT_THROW(static_cast<void>(open_file(path)), spjit::IoError);
}

TEST(SampleRecipes, DependOnSeedAndIndexAlone) {
  EXPECT_EQ(name_of(draw_recipe(3, 14)), name_of(draw_recipe(3, 14)));
  EXPECT_NE(name_of(draw_recipe(3, 14)), name_of(draw_recipe(3, 15)));
  EXPECT_NE(name_of(draw_recipe(3, 14)), name_of(draw_recipe(4, 14)));
}

/// Nonzeros x columns of B.
double products_of(const spjit::SampleRecipe& recipe) {
  return (1 - recipe.generate.sparsity) * static_cast<double>(recipe.generate.rows) *
         static_cast<double>(recipe.generate.cols) * static_cast<double>(recipe.n);
}

TEST(SampleRecipes, StayWithinTheirRanges) {
  for (std::int64_t i = 0; i < 2000; ++i) {
    const spjit::SampleRecipe recipe = draw_recipe(1, i);
    const spjit::GenerateOptions& generate = recipe.generate;
    EXPECT_GE(generate.rows, 1);
    EXPECT_LE(generate.rows, 32768);
    EXPECT_GE(generate.cols, 64);
    EXPECT_LE(generate.cols, 16384);
    EXPECT_GE(generate.sparsity, 0.4);
    EXPECT_LE(generate.sparsity, 0.999);
    EXPECT_GE(recipe.n, 1);
    EXPECT_LE(recipe.n, 2048);
    EXPECT_LE(products_of(recipe), 6e7);
  }
}

TEST(SampleRecipes, AreMostlyInTheRangeOfThePaper) {
  int within = 0;
  for (std::int64_t i = 0; i < 2000; ++i) {
    const spjit::GenerateOptions generate = draw_recipe(1, i).generate;
    const bool usual = generate.rows >= 64 && generate.rows <= 2048 && generate.cols <= 2048;
    if (usual) {
      ++within;
    } else {
      EXPECT_LE(std::min(generate.rows, generate.cols), 1024);
    }
  }
  EXPECT_NEAR(within, 1625, 100);
}

}  // namespace
