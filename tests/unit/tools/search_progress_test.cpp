#include "tools/report/search_progress.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace {

using spjit::SearchProgress;
using spjit::cli::Json;
using spjit::cli::show_search_progress;
using spjit::cli::Terminal;
using testing::HasSubstr;

SearchProgress progress_of(std::string_view stage, std::size_t done = 3) {
  SearchProgress progress;
  progress.stage = stage;
  progress.done = done;
  progress.total = 10;
  progress.best = "28x1 \"quoted\"";
  progress.best_us = 12.5;
  progress.seconds_left = 4.5;
  return progress;
}

/// What is written to stderr for these, one after the other.
std::string shown(const Terminal& terminal, const std::vector<SearchProgress>& all) {
  const auto show = show_search_progress(terminal);
  testing::internal::CaptureStderr();
  for (const SearchProgress& progress : all) show(progress);
  return testing::internal::GetCapturedStderr();
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(SearchProgressLines, AreOneJsonObjectEachWithoutATerminal) {
  const std::string text = shown({}, {progress_of("proxies"), progress_of("kernels")});

  const std::vector<std::string> lines = lines_of(text);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(text.back(), '\n');
  EXPECT_EQ(Json::parse(lines[0]), (Json{{"event", "search"},
                                         {"stage", "proxies"},
                                         {"done", 3},
                                         {"total", 10},
                                         {"best", "28x1 \"quoted\""},
                                         {"best_us", 12.5},
                                         {"seconds_left", 4.5}}));
  EXPECT_EQ(Json::parse(lines[1])["stage"], "kernels");
}

TEST(SearchProgressLines, AreTheFirstOfAStageAndThenOnlySome) {
  for (const bool interactive : {false, true}) {
    const std::vector<SearchProgress> many(10'000, progress_of("proxies"));

    const std::string text = shown({.interactive = interactive}, many);

    EXPECT_FALSE(text.empty());
    EXPECT_LT(text.size(), 1000 * 100U);
  }
}

TEST(SearchProgressLines, OnATerminalRedrawOneLine) {
  const std::string text = shown({.interactive = true, .columns = 100}, {progress_of("proxies")});

  EXPECT_EQ(text,
            "\r\x1b[Ksearch: 3/10 proxies settled, best 12.50 us (28x1 \"quoted\"), 4 s left at "
            "most");
}

TEST(SearchProgressLines, WithoutABestHaveNone) {
  SearchProgress progress = progress_of("proxies", 0);
  progress.best = "";

  const std::string text = shown({.interactive = true, .columns = 100}, {progress});

  EXPECT_EQ(text, "\r\x1b[Ksearch: 0/10 proxies settled, 4 s left at most");
}

TEST(SearchProgressLines, OnATerminalNeverWrap) {
  for (const std::int64_t columns : {0, 1, 2, 20, 40}) {
    const std::string text =
        shown({.interactive = true, .columns = columns}, {progress_of("proxies")});

    const std::size_t erase = std::string("\r\x1b[K").size();
    EXPECT_EQ(text.size() - erase, columns > 1 ? static_cast<std::size_t>(columns - 1) : 1U);
    EXPECT_THAT(text, HasSubstr("s"));
  }
}

TEST(SearchProgressLines, OfTwoSearchesDoNotKnowOfEachOther) {
  const std::string first = shown({}, {progress_of("proxies")});
  const std::string second = shown({}, {progress_of("proxies")});

  EXPECT_EQ(first, second);
}

}  // namespace
