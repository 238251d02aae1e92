#ifdef SPJIT_HAVE_LIBARCHIVE

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cache_archive_testing.hpp"
#include "spjit/error.hpp"
#include "tests/support/tar_testing.hpp"
#include "tools/cache_archive.hpp"

// What becomes of tar itself: its variants, and what of it is no archive of kernels.

namespace {

using namespace spjit;
using namespace spjit::cli;
using namespace spjit::cli::testing_support;
using spjit::testing_support::pax_line;
using spjit::testing_support::put;
using spjit::testing_support::seal;
using spjit::testing_support::tar_header;
using spjit::testing_support::tar_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

using Files = std::vector<std::pair<std::string, std::string>>;

constexpr std::int64_t k_plenty = std::int64_t{1} << 30;

/// The files of all kernels, without the records.
Files read_all(const ReadBytes& read, std::int64_t most_bytes = k_plenty) {
  Files all;
  read_archive("k.tar", read, {.archive_bytes = most_bytes},
               [&](const CacheRecord& /*record*/, std::span<const CacheFile> files) {
                 for (const CacheFile& file : files) {
                   all.emplace_back(file.name,
                                    std::string(reinterpret_cast<const char*>(file.bytes.data()),
                                                file.bytes.size()));
                 }
               });
  return all;
}

/// The error of reading all of an archive, empty if there is none.
std::string reading_error(const std::string& archive, std::int64_t most_bytes = k_plenty) {
  try {
    static_cast<void>(read_all(reading(bytes_of(archive)), most_bytes));
    return "";
  } catch (const IoError& error) {
    return error.what();
  }
}

std::string kernel_tar(const Files& files) { return tar_of(kernel_of(k_first, files)); }

class TarArchive : public CacheArchiveTest {};

TEST_F(TarArchive, ReadsBackWhatItWrote) {
  const std::string one = "one";
  const std::string large(300'000, 'x');
  const std::string long_name(100, 'b');
  const std::vector<CacheFile> files = {{.name = "a", .bytes = bytes_of(one)},
                                        {.name = "empty", .bytes = {}},
                                        {.name = "large", .bytes = bytes_of(large)},
                                        {.name = long_name, .bytes = bytes_of(one)}};
  source().publish(k_first, files, nullptr);

  const std::string archive = exported(source(), {k_first}).second;

  EXPECT_THAT(read_all(reading(bytes_of(archive))),
              ElementsAre(Pair("a", "one"), Pair("empty", ""), Pair("large", large),
                          Pair(long_name, "one")));
}

TEST_F(TarArchive, ReadsFromAPipeThatGivesOneByteAtATime) {
  const std::string archive = kernel_tar({{"a", "one"}, {"b", "two"}});

  EXPECT_THAT(read_all(reading(bytes_of(archive), 1)),
              ElementsAre(Pair("a", "one"), Pair("b", "two")));
}

TEST_F(TarArchive, RefusesAHardLinkWithABody) {
  EXPECT_THAT(reading_error(tar_of({{k_first + "/a", "body", '1', "y"}})),
              HasSubstr("/a' is a link, a device or a FIFO"));
}

TEST_F(TarArchive, RefusesSparseFilesOfBothKinds) {
  const std::string name = k_first + "/hole";
  // Old GNU: 512 bytes of data after a hole of a megabyte; the map is at 386, the size at 483.
  std::string header = tar_header({name, std::string(512, 'x'), 'S'});
  put(header, 257, std::string("ustar  \0", 8));
  put(header, 345, std::string(155, '\0'));
  put(header, 386, "00004000000" + std::string(1, '\0') + "00000001000");
  put(header, 483, "00004001000");
  seal(header);
  const std::string old_gnu = header + std::string(512, 'x') + std::string(1024, '\0');
  // pax, GNU.sparse 1.0: the map is in front of the data.
  const std::string map = "1\n1048576\n512\n";
  const std::string body = map + std::string(512 - map.size(), '\0') + std::string(512, 'x');
  const auto pax_of = [&](const std::string& bytes) {
    return TarFile{"PaxHeaders/hole",
                   pax_line("GNU.sparse.major=1") + pax_line("GNU.sparse.minor=0") +
                       pax_line("GNU.sparse.name=" + name) +
                       pax_line("GNU.sparse.realsize=" + bytes),
                   'x'};
  };
  const std::string pax = tar_of({pax_of("1049088"), {"GNUSparseFile.0/hole", body}});
  // Nothing but a hole: no data that could be out of order.
  const std::string all_hole =
      tar_of({pax_of("1048576"), {"GNUSparseFile.0/hole", "0\n" + std::string(510, '\0')}});

  for (const std::string& archive : {old_gnu, pax, all_hole}) {
    EXPECT_THAT(reading_error(archive), HasSubstr("/hole' is sparse"));
  }
}

TEST_F(TarArchive, RefusesWhatIsCutShortAnywhere) {
  const std::string archive = kernel_tar({{"a", "one"}, {"b", std::string(600, 'x')}});

  for (std::size_t length = 0; length < archive.size(); length += 64) {
    EXPECT_NE(reading_error(archive.substr(0, length)), "") << length;
  }
  EXPECT_EQ(reading_error(archive), "");
}

TEST_F(TarArchive, RefusesAWholeKernelWithoutTheEndMark) {
  const std::string archive = kernel_tar({{"a", "one"}});

  for (const std::size_t mark : {0U, 512U}) {
    EXPECT_THAT(reading_error(archive.substr(0, archive.size() - 1024 + mark)),
                HasSubstr("ends without tar's end mark"));
  }
}

TEST_F(TarArchive, RefusesWhatFollowsTheEndMark) {
  const std::string archive = kernel_tar({{"a", "one"}});
  std::string in_the_mark = archive;
  in_the_mark[archive.size() - 1] = 'x';

  EXPECT_EQ(reading_error(archive + std::string(102'400, '\0')), "");
  EXPECT_THAT(reading_error(archive + "x"), HasSubstr("damaged"));
  EXPECT_THAT(reading_error(archive + std::string(102'400, '\0') + "x"), HasSubstr("damaged"));
  EXPECT_THAT(reading_error(archive + std::string(512, 'x')), HasSubstr("damaged"));
  EXPECT_THAT(reading_error(in_the_mark), HasSubstr("damaged"));
  EXPECT_THAT(reading_error(archive + archive), HasSubstr("is there twice"));
}

TEST_F(TarArchive, ArchivesOneAfterTheOtherAreOne) {
  const std::string archives =
      kernel_tar({{"a", "one"}}) + tar_of(kernel_of(k_second, {{"b", "two"}}));

  EXPECT_THAT(read_all(reading(bytes_of(archives))),
              ElementsAre(Pair("a", "one"), Pair("b", "two")));
  EXPECT_THAT(reading_error(archives.substr(0, archives.size() - 1024)),
              HasSubstr("was cut short"));
}

TEST_F(TarArchive, RefusesAnythingElseThanTar) {
  EXPECT_THAT(reading_error(""), HasSubstr("no tar archive"));
  EXPECT_THAT(reading_error("PK\x03\x04 is a zip archive"), HasSubstr("no tar archive"));
  EXPECT_THAT(reading_error(std::string("\x1f\x8b\x08\0", 4) + std::string(1000, 'x')),
              HasSubstr("no tar archive"));
  EXPECT_THAT(reading_error(std::string(2000, 'x')), HasSubstr("no tar archive"));
}

TEST_F(TarArchive, ADamagedHeaderIsRefused) {
  std::string archive = kernel_tar({{"a", "one"}, {"b", "two"}});

  archive[1024] = 'c';  // the second member's name; its checksum is of another

  EXPECT_THAT(reading_error(archive), HasSubstr("damaged"));
}

TEST_F(TarArchive, AHeaderThatClaimsMoreThanThereIsCostsNoMemory) {
  TarFile file{k_first + "/a", "one"};
  file.claimed_bytes = std::int64_t{1} << 29;

  EXPECT_THAT(reading_error(tar_of({file})), HasSubstr("tar archive"));
}

TEST_F(TarArchive, ReadsNoMoreThanTheLimit) {
  const std::string archive = kernel_tar({{"a", std::string(100'000, 'x')}});

  EXPECT_EQ(reading_error(archive, static_cast<std::int64_t>(archive.size())), "");
  EXPECT_THAT(reading_error(archive, static_cast<std::int64_t>(archive.size()) - 1),
              HasSubstr("has over"));
}

TEST_F(TarArchive, ZerosWithoutAnEndAreReadToTheLimit) {
  const std::string archive = kernel_tar({{"a", "one"}});
  const ReadBytes read = [rest = reading(bytes_of(archive))](std::span<std::byte> into) mutable {
    const std::size_t got = rest(into);
    if (got > 0) return got;
    std::ranges::fill(into, std::byte{0});
    return into.size();
  };

  EXPECT_THROW(static_cast<void>(read_all(read, 1 << 20)), IoError);
}

TEST_F(TarArchive, WhatReadingThrowsPassesThrough) {
  const std::string archive = kernel_tar({{"a", std::string(200'000, 'x')}});
  const ReadBytes read = [rest = reading(bytes_of(archive), 512),
                          left = 3](std::span<std::byte> into) mutable {
    if (left-- == 0) throw IoError("the disk is gone");
    return rest(into);
  };

  try {
    static_cast<void>(read_all(read));
    FAIL() << "read what is not there";
  } catch (const IoError& error) {
    EXPECT_STREQ(error.what(), "k.tar: the disk is gone");
  }
}

TEST_F(TarArchive, WhatWritingThrowsPassesThroughAndWhatWasWrittenHasNoEndMark) {
  publish(source(), k_first);
  publish(source(), k_second);
  std::string written;
  const WriteBytes write = [&](std::span<const std::byte> bytes) {
    if (!written.empty()) throw IoError("the disk is full");
    written.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  const std::string large(50'000, 'x');
  const std::vector<CacheFile> files = {{.name = "large", .bytes = bytes_of(large)}};
  source().publish(std::string(64, '0'), files, nullptr);

  try {
    static_cast<void>(export_cache(source(), {std::string(64, '0'), k_first, k_second}, write));
    FAIL() << "wrote to a full disk";
  } catch (const IoError& error) {
    EXPECT_STREQ(error.what(), "the disk is full");
  }
  EXPECT_NE(written, "");
  EXPECT_NE(reading_error(written), "");
}

}  // namespace

#endif  // SPJIT_HAVE_LIBARCHIVE
