#include "bench/json_file.hpp"

#include <gtest/gtest.h>

#include <string>

namespace {

using nlohmann::json;
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

}  // namespace
