#include "compiler/record_limit.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace {

using nlohmann::json;
using spjit::k_most_record_bytes;
using spjit::k_verification_bytes;
using spjit::limited_record;
using testing::EndsWith;

json timed_in(double us) { return {{"outcome", "finished"}, {"median_us", us}, {"samples", 12}}; }

json entry_of(const std::string& tile) {
  return {{"tile", tile}, {"m1", 8}, {"n1", 128}, {"score", 1.0}};
}

/// A record of a search among so many tiles, of which the last was chosen, the 20 before it were
/// timed in full and the 20 before those by a proxy.
json searched(std::size_t tiles) {
  json search = {{"mode", "exhaustive"}, {"reason", "it was the fastest"}, {"chosen", ""}};
  json& entries = search["entries"] = json::array();
  for (std::size_t i = 0; i < tiles; ++i) {
    json entry = entry_of("rows=8 columns=128 number=" + std::to_string(i));
    if (i + 21 >= tiles) {
      entry["full"] = timed_in(10);
    } else if (i + 41 >= tiles) {
      entry["proxy"] = timed_in(10);
    }
    entries.push_back(std::move(entry));
  }
  search["chosen"] = entries.back()["tile"];
  return {{"family", "unrolled"},
          {"verdicts", {{{"family", "unrolled"}, {"reason", "it was the fastest"}}}},
          {"note", ""},
          {"search", std::move(search)}};
}

std::vector<std::string> tiles_of(const json& record) {
  std::vector<std::string> tiles;
  for (const json& entry : record["search"]["entries"]) tiles.push_back(entry["tile"]);
  return tiles;
}

TEST(RecordLimit, ASmallRecordStaysAsItIs) {
  const json record = searched(42);
  ASSERT_LE(record.dump().size(), k_most_record_bytes);

  EXPECT_EQ(limited_record(record), record);
}

TEST(RecordLimit, OfManyTilesThoseStayThatWereTimed) {
  const json given = searched(1000);
  const json record = limited_record(given);

  EXPECT_LE(record.dump().size(), k_most_record_bytes - k_verification_bytes);
  EXPECT_GT(record.dump().size(), k_most_record_bytes - k_verification_bytes - 300)
      << "room for two more";
  const std::vector<std::string> tiles = tiles_of(record);
  EXPECT_EQ(record["search"]["entries_left_out"], 1000 - tiles.size());
  ASSERT_GT(tiles.size(), 42U);
  EXPECT_EQ(tiles.back(), record["search"]["chosen"]);
  // The best-ranked of the others, then all that were timed, in the order of the ranking.
  EXPECT_EQ(tiles.front(), given["search"]["entries"][0]["tile"]);
  for (std::size_t i = 0; i < 41; ++i) {
    EXPECT_EQ(record["search"]["entries"][tiles.size() - 1 - i],
              given["search"]["entries"][999 - i]);
  }
}

TEST(RecordLimit, WhatWasChosenStaysIfNothingElseDoes) {
  json record = searched(60);
  for (json& entry : record["search"]["entries"]) entry["full"]["failure"] = "";
  for (json& entry : record["search"]["entries"])
    entry["tile"] = entry["tile"].get<std::string>() + std::string(3000, 'x');
  record["search"]["chosen"] = record["search"]["entries"][59]["tile"];

  const json limited = limited_record(record);

  EXPECT_LE(limited.dump().size(), 2 * k_most_record_bytes);
  ASSERT_FALSE(limited["search"]["entries"].empty());
  EXPECT_EQ(limited["search"]["entries"].back()["tile"], record["search"]["chosen"]);
}

TEST(RecordLimit, TextsWithoutBoundEndInDots) {
  json record = searched(42);
  const std::string log(5000, 'x');
  record["note"] = log;
  record["search"]["reason"] = log;
  record["verdicts"] = json::array();
  for (int i = 0; i < 7; ++i) record["verdicts"].push_back({{"family", "f"}, {"reason", log}});
  for (json& entry : record["search"]["entries"]) entry["note"] = log;
  record["search"]["entries"][0]["proxy"] = {{"outcome", "failed"}, {"failure", log}};

  const json limited = limited_record(record);

  EXPECT_LE(limited.dump().size(), k_most_record_bytes);
  EXPECT_THAT(limited["note"].get<std::string>(), EndsWith("xx..."));
  EXPECT_THAT(limited["search"]["reason"].get<std::string>(), EndsWith("xx..."));
  EXPECT_EQ(limited["search"]["reason"], limited["verdicts"][6]["reason"]);
  EXPECT_EQ(tiles_of(limited).back(), record["search"]["chosen"]);
}

TEST(RecordLimit, TextsAreCutBetweenCharacters) {
  json record = searched(2);
  std::string text;
  while (text.size() < 1000) text += "\xC3\xA4";  // two bytes
  // The limit is within a character of one of them, whatever it is.
  for (const char* before : {"", "."}) {
    record["note"] = before + text;

    const std::string note = limited_record(record)["note"];

    EXPECT_NO_THROW(static_cast<void>(json(note).dump())) << "no UTF-8";
    EXPECT_THAT(note, EndsWith("\xC3\xA4..."));
  }
}

}  // namespace
