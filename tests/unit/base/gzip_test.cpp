#include "base/gzip.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <stop_token>
#include <string>
#include <vector>

#include "spjit/error.hpp"

namespace {

constexpr std::int64_t k_limit = std::int64_t{1} << 30;

TEST(Gzip, GivesTheTextBack) {
  std::string long_text;
  for (int i = 0; i < 200'000; ++i) long_text += std::to_string(i) + "\n";
  for (const std::string& text : {std::string(), std::string("fma\n"), std::string(1, '\0'),
                                  std::string(3'000'000, 'x'), long_text}) {
    EXPECT_EQ(spjit::gunzip(spjit::gzip(text), k_limit), text);
  }
}

TEST(Gzip, IsSmallForRepetitiveText) {
  EXPECT_LT(spjit::gzip(std::string(1'000'000, 'x')).size(), 10'000U);
}

TEST(Gzip, RefusesWhatIsDamaged) {
  const std::vector<std::byte> good = spjit::gzip("a text of some length, twice, twice");
  for (std::size_t size = 0; size < good.size(); ++size) {
    const std::vector<std::byte> cut(good.begin(),
                                     good.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_THROW(static_cast<void>(spjit::gunzip(cut, k_limit)), spjit::Error) << size;
  }
  std::vector<std::byte> changed = good;
  changed[good.size() - 6] ^= std::byte{1};  // the checksum
  std::vector<std::byte> longer = good;
  longer.push_back(std::byte{0});

  EXPECT_THROW(static_cast<void>(spjit::gunzip(changed, k_limit)), spjit::Error);
  EXPECT_THROW(static_cast<void>(spjit::gunzip(longer, k_limit)), spjit::Error);
}

TEST(Gzip, SeveralStreamsAreOneTextWhereTheyAreAskedFor) {
  std::vector<std::byte> both = spjit::gzip("one, ");
  const std::vector<std::byte> second = spjit::gzip(std::string(100'000, 'x'));
  both.insert(both.end(), second.begin(), second.end());
  std::vector<std::byte> cut(both.begin(), both.end() - 9);
  std::vector<std::byte> longer = both;
  longer.push_back(std::byte{'x'});

  EXPECT_EQ(spjit::gunzip_head(both, k_limit), "one, " + std::string(100'000, 'x'));
  EXPECT_EQ(spjit::gunzip_head(spjit::gzip("one"), k_limit), "one");
  EXPECT_THROW(static_cast<void>(spjit::gunzip(both, k_limit)), spjit::Error);
  EXPECT_THROW(static_cast<void>(spjit::gunzip_head(cut, k_limit)), spjit::Error);
  EXPECT_THROW(static_cast<void>(spjit::gunzip_head(longer, k_limit)), spjit::Error);
}

TEST(Gzip, AHeadIsTheFirstBytesWhateverFollows) {
  std::vector<std::byte> bytes = spjit::gzip(std::string(5'000'000, 'x'));
  const std::vector<std::byte> one = spjit::gzip("one, ");
  bytes.insert(bytes.begin(), one.begin(), one.end());
  bytes.back() ^= std::byte{1};

  EXPECT_EQ(spjit::gunzip_head(bytes, 0), "");
  EXPECT_EQ(spjit::gunzip_head(bytes, 3), "one");
  EXPECT_EQ(spjit::gunzip_head(bytes, 4'000'000), "one, " + std::string(3'999'995, 'x'));
  EXPECT_THROW(static_cast<void>(spjit::gunzip_head(bytes, 5'000'005)), spjit::Error);
}

TEST(Gzip, StopsWhenItIsToldTo) {
  std::stop_source stop;
  stop.request_stop();
  spjit::Cancellation cancel;
  cancel.stop = stop.get_token();

  EXPECT_THROW(static_cast<void>(spjit::gzip("text", cancel)), spjit::Cancelled);
}

TEST(Gzip, TheLimitIsTheMostThatIsGiven) {
  const std::vector<std::byte> compressed = spjit::gzip(std::string(10'000, 'x'));

  EXPECT_EQ(spjit::gunzip(compressed, 10'000).size(), 10'000U);
  EXPECT_THROW(static_cast<void>(spjit::gunzip(compressed, 9'999)), spjit::Error);
}

TEST(Gzip, StopsAtTheLimit) {
  const std::vector<std::byte> bomb = spjit::gzip(std::string(5'000'000, 'x'));

  EXPECT_THROW(static_cast<void>(spjit::gunzip(bomb, 1'000'000)), spjit::Error);
  EXPECT_EQ(spjit::gunzip(bomb, 5'000'000).size(), 5'000'000U);
}

}  // namespace
