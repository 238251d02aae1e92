#include "runtime/bundle/bundle_index.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "bundle_testing.hpp"

namespace spjit::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr std::int64_t k_index_offset = std::int64_t{4} * 4096;

/// Two files, of two pages and of one, of two kernels.
json good_index() {
  BundleIndex index;
  index.blobs = {{4096, 5000, std::string(32, 'a'), std::string(64, 'b')},
                 {3 * 4096, 1, std::string(32, 'c'), std::string(64, 'd')}};
  index.kernels = {kernel_of("fc1", k_first), kernel_of("fc2", "")};
  index.kernels[0].files = {{"kernel.o", 0}, {"other", 1}};
  index.kernels[1].files = {{"kernel.o", 1}};
  return json::parse(write_bundle_index(index));
}

std::string index_error(const json& index) {
  try {
    static_cast<void>(parse_bundle_index(index.dump(), k_index_offset));
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

/// After a change.
std::string index_error_after(const std::function<void(json&)>& change) {
  json index = good_index();
  change(index);
  return index_error(index);
}

TEST(BundleIndex, ReadsBackWhatItWrote) {
  const BundleIndex index = parse_bundle_index(good_index().dump(), k_index_offset);

  ASSERT_EQ(index.blobs.size(), 2U);
  EXPECT_EQ(index.blobs[1].offset, 3 * 4096);
  EXPECT_EQ(index.blobs[1].sha256, std::string(64, 'd'));
  ASSERT_EQ(index.kernels.size(), 2U);
  EXPECT_EQ(index.kernels[0].files[1].name, "other");
  EXPECT_EQ(index.kernels[0].files[1].blob, 1U);
  EXPECT_EQ(index.kernels[1].key, "");
}

TEST(BundleIndex, RefusesFilesThatLieElsewhere) {
  EXPECT_THAT(index_error_after([](json& i) { i["files"][1]["offset"] = 2 * 4096; }),
              HasSubstr("\"offset\" of file 1 is 8192; expected an integer from 12288"))
      << "overlapping";
  EXPECT_NE(index_error_after([](json& i) { i["files"][1]["offset"] = 4 * 4096; }), "") << "a gap";
  EXPECT_NE(index_error_after([](json& i) { i["files"][0]["offset"] = 0; }), "") << "the header";
  EXPECT_NE(index_error_after([](json& i) { i["files"][0]["offset"] = 4097; }), "")
      << "within a page";
  EXPECT_NE(index_error_after([](json& i) { i["files"][0]["offset"] = -4096; }), "");
  EXPECT_THAT(index_error_after([](json& i) { i["files"][1]["bytes"] = 4097; }),
              HasSubstr("file 1 ends at 20480, behind the beginning of the index at 16384"));
  EXPECT_NE(index_error_after([](json& i) { i["files"][1]["bytes"] = std::int64_t{1} << 48; }), "");
  EXPECT_NE(
      index_error_after([](json& i) { i["files"][1]["bytes"] = (std::int64_t{1} << 48) + 1; }), "");
  EXPECT_NE(index_error_after([](json& i) { i["files"][1]["bytes"] = UINT64_MAX; }), "");
  EXPECT_NE(index_error_after([](json& i) { i["files"][1]["bytes"] = -1; }), "");
  EXPECT_THAT(index_error_after([](json& i) { i["files"][0]["bytes"] = 4096; }),
              HasSubstr("\"offset\" of file 1"));
  EXPECT_THAT(index_error_after([](json& i) { i["files"][1]["bytes"] = 0; }),
              HasSubstr("its files end at 12288; expected at the index, 16384"));
}

TEST(BundleIndex, RefusesWhatIsMissingTwiceOrUnknown) {
  for (const char* member : {"format", "files", "kernels"}) {
    EXPECT_NE(index_error_after([&](json& i) { i.erase(member); }), "") << member;
  }
  for (const char* member : {"offset", "bytes", "checksum", "sha256"}) {
    EXPECT_NE(index_error_after([&](json& i) { i["files"][0].erase(member); }), "") << member;
  }
  for (const char* member : {"layer", "key", "spjit", "files", "record"}) {
    EXPECT_NE(index_error_after([&](json& i) { i["kernels"][0].erase(member); }), "") << member;
  }
  EXPECT_NE(index_error_after([](json& i) { i["more"] = 1; }), "");
  EXPECT_NE(index_error_after([](json& i) { i["files"][0]["more"] = 1; }), "");
  EXPECT_NE(index_error_after([](json& i) { i["kernels"][0]["more"] = 1; }), "");
  EXPECT_NE(index_error_after([](json& i) { i["kernels"][0]["files"][0]["more"] = 1; }), "");
  EXPECT_THAT(index_error_after([](json& i) {
                i["kernels"][1]["key"] = k_first;
                i["kernels"][1]["layer"] = "fc1";
              }),
              HasSubstr("the layer \"fc1\" has key 1111"));
  EXPECT_THAT(index_error_after([](json& i) { i["kernels"][0]["files"][1]["name"] = "kernel.o"; }),
              HasSubstr("has the file 'kernel.o' twice"));
  EXPECT_THAT(index_error_after([](json& i) { i["kernels"][0]["files"].erase(0); }),
              HasSubstr("file 0 is in no kernel"));
}

TEST(BundleIndex, RefusesValuesOfAnotherKind) {
  EXPECT_THAT(index_error_after([](json& i) { i["format"] = 2; }), HasSubstr("\"format\""));
  EXPECT_NE(index_error_after([](json& i) { i["files"] = 1; }), "");
  EXPECT_NE(index_error_after([](json& i) { i["kernels"] = json::object(); }), "");
  EXPECT_NE(index_error_after([](json& i) { i["kernels"][0]["files"][0]["file"] = 2; }), "");
  EXPECT_NE(index_error_after([](json& i) { i["kernels"][0]["files"][0]["file"] = -1; }), "");
  EXPECT_NE(index_error_after([](json& i) { i["kernels"][0]["files"][0]["name"] = "../x"; }), "");
  EXPECT_NE(index_error_after([](json& i) { i["kernels"][0]["files"][0]["name"] = "record.json"; }),
            "");
  EXPECT_NE(index_error_after([](json& i) { i["kernels"][0]["key"] = "abc"; }), "");
  EXPECT_NE(index_error_after([](json& i) { i["kernels"][0]["layer"] = std::string(1001, 'x'); }),
            "");
  EXPECT_NE(index_error_after([](json& i) { i["kernels"][0]["spjit"] = std::string(101, 'x'); }),
            "");
  EXPECT_NE(index_error_after([](json& i) { i["files"][0]["sha256"] = std::string(63, 'b'); }), "");
  EXPECT_NE(index_error_after([](json& i) { i["files"][0]["sha256"] = std::string(64, 'B'); }), "");
  EXPECT_NE(index_error_after([](json& i) { i["files"][0]["checksum"] = std::string(33, 'b'); }),
            "");
  EXPECT_NE(index_error_after([](json& i) {
              json files = json::array();
              for (int j = 0; j < 1001; ++j) {
                files.push_back({{"name", "f" + std::to_string(j)}, {"file", 0}});
              }
              i["kernels"][0]["files"] = files;
            }),
            "");
  EXPECT_THROW(static_cast<void>(parse_bundle_index("", k_index_offset)), Error);
  EXPECT_THROW(static_cast<void>(parse_bundle_index("[]", k_index_offset)), Error);
  EXPECT_THROW(static_cast<void>(parse_bundle_index(std::string(100, '['), 4096)), Error);
}

}  // namespace
}  // namespace spjit::test
