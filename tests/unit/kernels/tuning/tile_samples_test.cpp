#include "kernels/tuning/tile_samples.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "spjit/error.hpp"

namespace {

using nlohmann::json;
using spjit::common_family;
using spjit::common_times;
using spjit::read_sample_line;
using spjit::SampleLine;
using spjit::TimeKind;
using spjit::write_sample_line;

SampleLine line_named(const std::string& name, TimeKind times = TimeKind::measured,
                      const std::string& family = "cuda") {
  SampleLine line;
  line.family = family;
  line.name = name;
  line.recipe = {{"rows", 8}};
  line.times = times;
  line.device = {{"name", "a device"}};
  line.work = {.rows = 8, .cols = 32, .nnz = 64, .n = 48, .threads = 2, .row_nnz_cv = 0.25, .m = 9};
  line.columns = {"m1", "us"};
  line.tiles = {{4, 0.5}, {8, 0.25}};
  line.keys = {std::string(64, 'a'), ""};
  line.seconds = 1.5;
  return line;
}

std::string error_of_line(const std::function<void()>& action) {
  try {
    action();
  } catch (const spjit::Error& error) {
    return error.what();
  }
  return "none";
}

std::string error_of_line(const json& document) {
  return error_of_line([&] { static_cast<void>(read_sample_line(document.dump())); });
}

TEST(TileSamples, ALineComesBackWhole) {
  for (const TimeKind times : {TimeKind::none, TimeKind::measured, TimeKind::modelled}) {
    const SampleLine line = line_named("one", times);
    const SampleLine read = read_sample_line(write_sample_line(line));

    EXPECT_EQ(write_sample_line(read), write_sample_line(line));
    EXPECT_EQ(read.times, times);
    EXPECT_EQ(read.work.m, 9);
    EXPECT_EQ(read.work.row_nnz_cv, 0.25);
    EXPECT_EQ(read.tiles, line.tiles);
    EXPECT_EQ(read.keys, line.keys);
  }
}

TEST(TileSamples, SayWhatIsWrongWithALine) {
  const json good = json::parse(write_sample_line(line_named("one")));
  EXPECT_EQ(error_of_line(good), "none");

  json times = good;
  times["times"] = "guessed";
  EXPECT_EQ(error_of_line(times),
            "not a line of samples: times are 'guessed'; expected none, measured or modelled");
  json unsaid = good;
  unsaid.erase("times");
  EXPECT_NE(error_of_line(unsaid).find("times"), std::string::npos);
  json key = good;
  key["keys"][0] = "../../etc";
  EXPECT_NE(error_of_line(key).find("is no key of a compiled tile"), std::string::npos);
  json keys = good;
  keys["keys"].erase(0);
  EXPECT_NE(error_of_line(keys).find("1 keys for 2 tiles"), std::string::npos);
  json tiles = good;
  tiles["tiles"] = "many";
  EXPECT_NE(error_of_line(tiles).find("tiles are no array"), std::string::npos);
}

TEST(TileSamples, AreOfOneFamilyWithTheColumnsOfThisVersion) {
  const SampleLine line = line_named("one");

  EXPECT_EQ(error_of_line([&] { check_family(line, "cuda", {"m1", "us"}); }), "none");
  EXPECT_NE(error_of_line([&] {
              check_family(line, "host", {"m1", "us"});
            }).find("expected host"),
            std::string::npos);
  EXPECT_NE(error_of_line([&] {
              check_family(line, "cuda", {"us", "m1"});
            }).find("columns"),
            std::string::npos);
}

TEST(TileSamples, TimesOfTwoKindsDoNotMix) {
  const std::vector<SampleLine> measured = {line_named("one"), line_named("two")};
  const std::vector<SampleLine> mixed = {line_named("one"), line_named("two", TimeKind::modelled)};
  const std::vector<SampleLine> compiled = {line_named("one", TimeKind::none)};

  EXPECT_EQ(common_times(measured), TimeKind::measured);
  EXPECT_EQ(error_of_line([&] { static_cast<void>(common_times(mixed)); }),
            "the times of 'one' are measured, those of 'two' are modelled: expected one kind");
  EXPECT_NE(error_of_line([&] { static_cast<void>(common_times(compiled)); }).find("has no times"),
            std::string::npos);
}

TEST(TileSamples, HostAndGpuDoNotMix) {
  const std::vector<SampleLine> mixed = {line_named("one"),
                                         line_named("two", TimeKind::measured, "host")};

  EXPECT_EQ(common_family(std::span(mixed).first(1)), "cuda");
  EXPECT_EQ(error_of_line([&] { static_cast<void>(common_family(mixed)); }),
            "'one' is of cuda, 'two' of host: expected tiles of one kind of device");
}

}  // namespace
