#include "tools/report/search_svg.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/files/text_edit.hpp"
#include "tests/support/search_trace_testing.hpp"

namespace {

using spjit::SearchTrace;
using spjit::cli::search_svg;
using spjit::testing_support::hand_made_trace;
using spjit::testing_support::occurrences;
using spjit::testing_support::timed_at;
using testing::HasSubstr;
using testing::Not;

/// What keeps a text from being well-formed, or empty: elements that do not nest, text outside of
/// the one root, an odd number of quotes in a tag, an '&' that is no entity of XML.
std::string xml_problem(std::string_view text) {
  std::vector<std::string> open;
  std::size_t roots = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '&') {
      const std::string_view entity = text.substr(at + 1, text.substr(at + 1).find(';'));
      if (entity != "amp" && entity != "lt" && entity != "gt" && entity != "quot" &&
          entity != "apos") {
        return "& at " + std::to_string(at);
      }
    }
    if (text[at] == '>') return "> at " + std::to_string(at);
    if (text[at] != '<') {
      if (open.empty() && std::isspace(static_cast<unsigned char>(text[at])) == 0) return "outside";
      continue;
    }
    const std::size_t end = text.find('>', at);
    if (end == std::string_view::npos) return "a tag without an end";
    const std::string tag(text.substr(at + 1, end - at - 1));
    at = end;
    if (occurrences(tag, "\"") % 2 != 0 || occurrences(tag, "<") != 0) return "<" + tag + ">";
    const std::string name = tag.substr(0, tag.find_first_of(" /", 1));
    if (open.empty() && ++roots > 1) return "a second root";
    if (tag.front() == '/') {
      if (open.empty() || open.back() != tag.substr(1)) return "<" + tag + ">";
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(name);
    }
  }
  return open.empty() ? "" : "<" + open.back() + "> without an end";
}

TEST(SearchSvg, IsWellFormed) {
  for (const SearchTrace& trace : {hand_made_trace(), SearchTrace{}}) {
    const std::string svg = search_svg(trace, "t");

    EXPECT_EQ(svg.rfind("<svg xmlns=\"http://www.w3.org/2000/svg\"", 0), 0U);
    EXPECT_EQ(xml_problem(svg), "");
  }
}

TEST(SearchSvg, EscapesNamesAndItsTitle) {
  SearchTrace trace = hand_made_trace();
  trace.entries[0].tile = "<tile & \"more\">";

  const std::string svg = search_svg(trace, "a < b & c");

  EXPECT_EQ(xml_problem(svg), "");
  EXPECT_THAT(svg, HasSubstr("<title>a &lt; b &amp; c</title>"));
  EXPECT_THAT(svg, HasSubstr("&lt;tile &amp; &quot;more&quot;&gt;: proxy 12.00 us, in full 10.00"));
}

TEST(SearchSvg, HasAMarkForEveryTileWithBothTimesAndOutlinesTheChosenOne) {
  const std::string svg = search_svg(hand_made_trace(), "t");

  EXPECT_EQ(occurrences(svg, "<circle "), 2U);
  EXPECT_THAT(svg, HasSubstr("<title>A: proxy 12.00 us, in full 10.00 us</title>"));
  EXPECT_THAT(svg, testing::ContainsRegex("stroke=\"#0b3fd1\" stroke-width=\"3\"><title>B: proxy "
                                          "9.00 us, in full 8.00 us</title>"));
}

TEST(SearchSvg, HasACellForEveryM1AndN1WithATime) {
  const std::string svg = search_svg(hand_made_trace(), "t");

  EXPECT_EQ(occurrences(svg, "<g>"), 3U);
  EXPECT_THAT(svg, HasSubstr("<title>14 x 32: 8.00 us in full</title>"));
  EXPECT_THAT(svg, HasSubstr("<title>28 x 16: 10.00 us in full</title>"));
  EXPECT_THAT(svg, HasSubstr("<title>28 x 32: 16.00 us by proxy</title>"));
  EXPECT_THAT(svg, HasSubstr(">+100 %~<"));
  // The chosen one: its circle and its cell.
  EXPECT_EQ(occurrences(svg, "stroke=\"#0b3fd1\" stroke-width=\"3\""), 2U);
}

TEST(SearchSvg, SaysWhereNoTileHasBothTimes) {
  SearchTrace trace = hand_made_trace();
  for (auto& entry : trace.entries) entry.proxy = std::nullopt;

  const std::string svg = search_svg(trace, "t");

  EXPECT_EQ(occurrences(svg, "<circle "), 0U);
  EXPECT_THAT(svg, HasSubstr("no tile has both"));
  EXPECT_EQ(occurrences(svg, "<g>"), 2U);
  EXPECT_EQ(xml_problem(svg), "");
}

TEST(SearchSvg, OfOneTileOrEqualTimesHasOnlyNumbers) {
  SearchTrace trace;
  trace.entries = {{"only", 28, 16, 0, timed_at(5), timed_at(5)}};

  const std::string svg = search_svg(trace, "t");

  EXPECT_EQ(occurrences(svg, "<circle "), 1U);
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
}

TEST(SearchSvg, GrowsWithItsGrid) {
  SearchTrace trace;
  for (std::int64_t i = 1; i <= 30; ++i) {
    trace.entries.push_back({"t", i, 16 * i, 0, {}, timed_at(5)});
  }

  const std::string svg = search_svg(trace, "t");

  EXPECT_EQ(occurrences(svg, "<g>"), 30U);
  EXPECT_THAT(svg, Not(HasSubstr("viewBox=\"0 0 960 ")));
}

}  // namespace
