#ifdef SPJIT_HAVE_LIBARCHIVE

#include "tools/tar_archive.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "spjit/error.hpp"
#include "tests/support/tar_testing.hpp"

namespace {

using spjit::IoError;
using spjit::cli::ReadBytes;
using spjit::cli::TarMember;
using spjit::cli::TarReader;
using spjit::cli::TarWriter;
using spjit::testing_support::bytes_of;
using spjit::testing_support::tar_header;
using spjit::testing_support::tar_member;
using spjit::testing_support::tar_of;
using spjit::testing_support::TarFile;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

constexpr std::int64_t k_plenty = 1 << 20;

/// Gives `text` in pieces of at most `piece` bytes.
ReadBytes reading(const std::string& text, std::size_t piece = 1 << 20) {
  return [rest = bytes_of(text), piece](std::span<std::byte> into) mutable {
    const std::size_t count = std::min({piece, into.size(), rest.size()});
    std::copy_n(rest.begin(), count, into.begin());
    rest = rest.subspan(count);
    return count;
  };
}

std::vector<std::pair<std::string, std::string>> read_all(TarReader& tar) {
  std::vector<std::pair<std::string, std::string>> files;
  while (const auto member = tar.next()) {
    const std::vector<std::byte> content = tar.content();
    files.emplace_back(member->path,
                       std::string(reinterpret_cast<const char*>(content.data()), content.size()));
  }
  return files;
}

/// The error of reading all of an archive, empty if there is none.
std::string error_of(const std::string& archive, std::int64_t most_bytes = k_plenty) {
  try {
    TarReader tar(reading(archive), most_bytes);
    static_cast<void>(read_all(tar));
    return "";
  } catch (const IoError& error) {
    return error.what();
  }
}

std::string written(const std::vector<TarFile>& files) {
  std::string archive;
  TarWriter tar([&](std::span<const std::byte> bytes) {
    archive.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  });
  for (const TarFile& file : files) tar.add(file.path, bytes_of(file.content));
  tar.finish();
  return archive;
}

TEST(TarArchive, ReadsBackWhatItWrote) {
  const std::string large(300'000, 'x');
  const std::string long_name = std::string(64, 'a') + "/" + std::string(100, 'b');

  const std::string archive =
      written({{"a", "one"}, {"empty", ""}, {"dir/large", large}, {long_name, "two"}});

  TarReader tar(reading(archive), k_plenty);
  EXPECT_THAT(read_all(tar), ElementsAre(Pair("a", "one"), Pair("empty", ""),
                                         Pair("dir/large", large), Pair(long_name, "two")));
}

TEST(TarArchive, TheSameFilesGiveTheSameBytes) {
  const std::vector<TarFile> files = {{"a", "one"}, {"b", std::string(1000, 'x')}};

  EXPECT_EQ(written(files), written(files));
  EXPECT_EQ(written(files).size() % 10240, 0U);
}

TEST(TarArchive, ReadsFromAPipeThatGivesOneByteAtATime) {
  const std::string archive = tar_of({{"a", "one"}, {"b", "two"}});

  TarReader tar(reading(archive, 1), k_plenty);

  EXPECT_THAT(read_all(tar), ElementsAre(Pair("a", "one"), Pair("b", "two")));
}

TEST(TarArchive, ContentThatNobodyAskedForIsSkipped) {
  const std::string archive = tar_of({{"a", std::string(2000, 'x')}, {"b", "two"}});
  TarReader tar(reading(archive), k_plenty);

  const auto first = tar.next();
  const auto second = tar.next();

  EXPECT_EQ(first->bytes, 2000);
  EXPECT_EQ(second->path, "b");
  EXPECT_FALSE(tar.next());
}

TEST(TarArchive, TakesDirectoriesAndPlainFilesOnly) {
  EXPECT_EQ(error_of(tar_of({{"dir/", "", '5'}})), "");
  EXPECT_THAT(error_of(tar_of({{"x", "", '1', "/etc/passwd"}})), HasSubstr("'x' is a hard link"));
  EXPECT_THAT(error_of(tar_of({{"x", "body", '1', "y"}})), HasSubstr("'x' is a hard link"));
  EXPECT_THAT(error_of(tar_of({{"x", "", '2', "/etc/passwd"}})),
              HasSubstr("'x' is a symbolic link"));
  EXPECT_THAT(error_of(tar_of({{"x", "", '3'}})), HasSubstr("'x' is a device"));
  EXPECT_THAT(error_of(tar_of({{"x", "", '4'}})), HasSubstr("'x' is a device"));
  EXPECT_THAT(error_of(tar_of({{"x", "", '6'}})), HasSubstr("'x' is a FIFO"));
}

TEST(TarArchive, RefusesSparseFilesOfBothKinds) {
  using spjit::testing_support::pax_line;
  using spjit::testing_support::put;
  using spjit::testing_support::seal;
  // Old GNU: 512 bytes of data after a hole of a megabyte; the map is at 386, the size at 483.
  std::string header = tar_header({"hole", std::string(512, 'x'), 'S'});
  put(header, 257, std::string("ustar  \0", 8));
  put(header, 345, std::string(155, '\0'));
  put(header, 386, "00004000000" + std::string(1, '\0') + "00000001000");
  put(header, 483, "00004001000");
  seal(header);
  const std::string old_gnu = header + std::string(512, 'x') + std::string(1024, '\0');
  // pax, GNU.sparse 1.0: the map is in front of the data.
  const std::string map = "1\n1048576\n512\n";
  const std::string body = map + std::string(512 - map.size(), '\0') + std::string(512, 'x');
  const std::string pax =
      tar_of({{"PaxHeaders/hole",
               pax_line("GNU.sparse.major=1") + pax_line("GNU.sparse.minor=0") +
                   pax_line("GNU.sparse.name=hole") + pax_line("GNU.sparse.realsize=1049088"),
               'x'},
              {"GNUSparseFile.0/hole", body}});
  // Nothing but a hole: no data that could be out of order.
  const std::string all_hole =
      tar_of({{"PaxHeaders/hole",
               pax_line("GNU.sparse.major=1") + pax_line("GNU.sparse.minor=0") +
                   pax_line("GNU.sparse.name=hole") + pax_line("GNU.sparse.realsize=1048576"),
               'x'},
              {"GNUSparseFile.0/hole", "0\n" + std::string(510, '\0')}});

  for (const std::string& archive : {old_gnu, pax, all_hole}) {
    EXPECT_THAT(error_of(archive), HasSubstr("'hole' is sparse"));
  }
}

TEST(TarArchive, RefusesWhatIsCutShortAnywhere) {
  const std::string archive = tar_of({{"a", "one"}, {"b", std::string(600, 'x')}});

  for (std::size_t length = 0; length < archive.size(); length += 64) {
    EXPECT_NE(error_of(archive.substr(0, length)), "") << length;
  }
  EXPECT_EQ(error_of(archive), "");
}

TEST(TarArchive, RefusesWhatFollowsTheEndMark) {
  const std::string archive = tar_of({{"a", "one"}});
  std::string in_the_mark = archive;
  in_the_mark[archive.size() - 1] = 'x';

  EXPECT_EQ(error_of(archive + std::string(100'000, '\0')), "");
  EXPECT_THAT(error_of(archive + "x"), HasSubstr("goes on after tar's end mark"));
  EXPECT_THAT(error_of(archive + std::string(100'000, '\0') + "x"), HasSubstr("goes on after"));
  EXPECT_THAT(error_of(in_the_mark), HasSubstr("goes on after"));
  EXPECT_THAT(error_of(archive + archive), HasSubstr("goes on after"));
}

TEST(TarArchive, RefusesAnythingElseThanTar) {
  EXPECT_THAT(error_of(""), HasSubstr("no tar archive"));
  EXPECT_THAT(error_of("PK\x03\x04 is a zip archive"), HasSubstr("no tar archive"));
  EXPECT_THAT(error_of(std::string("\x1f\x8b\x08\0", 4) + std::string(1000, 'x')),
              HasSubstr("no tar archive"));
  EXPECT_THAT(error_of(std::string(2000, 'x')), HasSubstr("no tar archive"));
}

TEST(TarArchive, ADamagedHeaderIsRefused) {
  std::string archive = tar_of({{"a", "one"}, {"b", "two"}});

  archive[1024] = 'c';  // the second member's name; its checksum is of 'b'

  EXPECT_THAT(error_of(archive), HasSubstr("damaged"));
}

TEST(TarArchive, AHeaderThatClaimsMoreThanThereIsCostsNoMemory) {
  TarFile file{"a", "one"};
  file.claimed_bytes = std::int64_t{1} << 32;

  EXPECT_THAT(error_of(tar_of({file})), HasSubstr("tar archive"));
}

TEST(TarArchive, ReadsNoMoreThanTheLimit) {
  const std::string archive = tar_of({{"a", std::string(100'000, 'x')}});

  EXPECT_EQ(error_of(archive, static_cast<std::int64_t>(archive.size())), "");
  EXPECT_THAT(error_of(archive, static_cast<std::int64_t>(archive.size()) - 1),
              HasSubstr("has over"));
}

TEST(TarArchive, WhatReadingThrowsPassesThrough) {
  const std::string archive = tar_of({{"a", std::string(200'000, 'x')}});
  ReadBytes read = [rest = reading(archive, 512), left = 3](std::span<std::byte> into) mutable {
    if (left-- == 0) throw IoError("the disk is gone");
    return rest(into);
  };

  TarReader tar(read, k_plenty);
  static_cast<void>(tar.next());

  try {
    static_cast<void>(tar.content());
    FAIL() << "read what is not there";
  } catch (const IoError& error) {
    EXPECT_STREQ(error.what(), "the disk is gone");
  }
}

TEST(TarArchive, WhatWritingThrowsPassesThrough) {
  TarWriter tar([](std::span<const std::byte> /*bytes*/) { throw IoError("the disk is full"); });

  try {
    tar.add("a", bytes_of(std::string(1'000'000, 'x')));
    FAIL() << "wrote to a full disk";
  } catch (const IoError& error) {
    EXPECT_STREQ(error.what(), "the disk is full");
  }
}

TEST(TarArchive, AnArchiveThatWasNotFinishedHasNoEndMark) {
  std::string archive;
  {
    TarWriter tar([&](std::span<const std::byte> bytes) {
      archive.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    });
    tar.add("a", bytes_of(std::string(500'000, 'x')));
  }

  EXPECT_NE(error_of(archive), "");
}

}  // namespace

#endif  // SPJIT_HAVE_LIBARCHIVE
