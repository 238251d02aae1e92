#include "bench/json_file.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace {

using nlohmann::json;
using spjit::bench::load_json;
using spjit::bench::save_json;
using spjit::bench::to_record_lines;

TEST(JsonFile, HasALineARecordAndOneForAnyOtherMember) {
  const json document = {{"cases", {{{"n", 1}, {"runs", {1.5, 2}}}, {{"n", 32}}}},
                         {"device", {{"isa", "avx2"}, {"name", "a \"CPU\""}}},
                         {"left_out", json::array()},
                         {"notes", json::array({"one,\ntwo"})},
                         {"roofline", nullptr},
                         {"schema", "spjit-test-1"}};

  const std::string text = to_record_lines(document);

  EXPECT_EQ(text, R"({
 "cases": [
  {"n":1,"runs":[1.5,2]},
  {"n":32}
 ],
 "device": {"isa":"avx2","name":"a \"CPU\""},
 "left_out": [],
 "notes": [
  "one,\ntwo"
 ],
 "roofline": null,
 "schema": "spjit-test-1"
}
)");
  EXPECT_EQ(json::parse(text), document);
}

TEST(JsonFile, HasALineANamedRecord) {
  const json document = {{"avx2", {{"a way", {{"tau", 0.5}}}, {"no way", {{"tau", -1}}}}}};

  const std::string text = to_record_lines(document);

  EXPECT_EQ(text, R"({
 "avx2": {
  "a way": {"tau":0.5},
  "no way": {"tau":-1}
 }
}
)");
  EXPECT_EQ(json::parse(text), document);
}

TEST(JsonFile, IsReadBackIfItIsOfTheSchema) {
  const auto file = std::filesystem::temp_directory_path() /
                    ("spjit-json-file-test-" + std::to_string(::getpid()) + ".json");
  const json document = {{"schema", "spjit-test-1"}, {"cases", {{{"n", 1}}}}};

  save_json(file, document);

  EXPECT_EQ(load_json(file, "spjit-test-1"), document);
  EXPECT_THROW(static_cast<void>(load_json(file, "spjit-test-2")), spjit::IoError);
  std::ofstream(file) << "[1]";
  EXPECT_THROW(static_cast<void>(load_json(file, "spjit-test-1")), spjit::IoError);
  std::filesystem::remove(file);
  EXPECT_THROW(static_cast<void>(load_json(file, "spjit-test-1")), spjit::IoError);
}

}  // namespace
