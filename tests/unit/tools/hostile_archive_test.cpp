#ifdef SPJIT_HAVE_LIBARCHIVE

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/hash.hpp"
#include "cache_archive_testing.hpp"
#include "spjit/error.hpp"
#include "tools/cache_archive.hpp"

namespace {

namespace fs = std::filesystem;
using namespace spjit;
using namespace spjit::cli;
using namespace spjit::cli::testing_support;
using spjit::testing_support::tar_of;
using testing::HasSubstr;
using testing::StartsWith;

/// Two kernels as an archive of hand-made members, to be spoilt: 0 and 1 are the first kernel's
/// file and record, 2 and 3 the second one's.
class HostileArchiveTest : public CacheArchiveTest {
 protected:
  HostileArchiveTest() {
    for (const std::string& key : {k_first, k_second}) {
      const std::vector<TarFile> kernel = kernel_of(key, {{"kernel.o", "code of " + key}});
      files_.insert(files_.end(), kernel.begin(), kernel.end());
    }
  }

  static std::string path(const std::string& key, const std::string& file) {
    return key + "/" + file;
  }

  /// Refused with a line that has all of this, and with `imported` kernels before it.
  void expect_refused(const std::string& member, const std::string& reason,
                      std::int64_t imported = 1) {
    const std::string error = error_of(tar_of(files_));

    EXPECT_THAT(error, StartsWith("k.tar: "));
    EXPECT_THAT(error, HasSubstr(member));
    EXPECT_THAT(error, HasSubstr(reason));
    EXPECT_THAT(error, HasSubstr(fmt::format("; {} kernels were imported before", imported)));
    EXPECT_THAT(error, testing::Not(HasSubstr("\n")));
    EXPECT_EQ(target().list().size(), static_cast<std::size_t>(imported));
  }

  std::vector<TarFile> files_;
};

TEST_F(HostileArchiveTest, UnspoiltItIsTaken) {
  EXPECT_EQ(error_of(tar_of(files_)), "");
  EXPECT_EQ(target().list().size(), 2U);
}

TEST_F(HostileArchiveTest, DirectoriesOfKernelsAreTaken) {
  files_.insert(files_.begin(), {k_first + "/", "", '5'});

  EXPECT_EQ(error_of(tar_of(files_)), "");
}

TEST_F(HostileArchiveTest, FilesOfAKernelMayComeInAnyOrder) {
  std::swap(files_[0], files_[1]);

  EXPECT_EQ(error_of(tar_of(files_)), "");
}

TEST_F(HostileArchiveTest, PathsThatLeadElsewhereAreRefusedAndNothingIsWrittenThere) {
  const auto before = tree_of(folder());
  for (const char* name : {"/tmp/x", "../x", "..", "../../../../../../tmp/x", k_second.c_str()}) {
    files_[2].path = name;
    expect_refused(name, "expected KEY/FILE");
    target().clear();
  }
  for (const char* rest : {"/../x", "/../../x", "/..", "/./x", "//x", "/x/y", "/.x"}) {
    files_[2].path = k_second + rest;
    expect_refused(files_[2].path, "expected KEY/FILE");
    target().clear();
  }
  fs::remove_all(target().root());
  EXPECT_EQ(tree_of(folder()), before);
}

TEST_F(HostileArchiveTest, OtherNamesAreRefused) {
  for (const char* name : {"README", "tmp/x", "damaged/x", "CACHEDIR.TAG", "22/x",
                           "spjit-cache.json", "x\x1b[2J\ny", " "}) {
    files_[2].path = name;
    expect_refused("member '", "expected KEY/FILE");
    target().clear();
  }
}

TEST_F(HostileArchiveTest, LinksDevicesAndFifosAreRefused) {
  for (const char type : {'1', '2', '3', '4', '6'}) {
    files_[2] = {path(k_second, "kernel.o"), "", type, "/etc/passwd"};
    expect_refused(path(k_second, "kernel.o"), "expected a plain file");
    target().clear();
  }
}

TEST_F(HostileArchiveTest, OtherDirectoriesAreRefused) {
  files_[2] = {"etc/", "", '5'};
  expect_refused("'etc/'", "expected KEY/FILE");
  target().clear();
  files_[2] = {path(k_second, "kernel.o/"), "", '5'};
  expect_refused("kernel.o/", "expected KEY/FILE");
  target().clear();
  files_[2] = {std::string(64, '9') + "/", "", '5'};
  expect_refused("9999", "is missing");
}

TEST_F(HostileArchiveTest, MembersThatAreThereTwiceAreRefused) {
  for (const std::size_t index : {std::size_t{0}, std::size_t{1}}) {
    auto files = files_;
    files_.insert(files_.begin() + 2, files_[index]);
    expect_refused(files_[index].path, "is there twice");
    target().clear();
    files_ = std::move(files);
  }
  files_.insert(files_.begin() + 3, files_[2]);
  expect_refused(files_[2].path, "is there twice");
}

TEST_F(HostileArchiveTest, SizesThatTheRecordDoesNotHaveAreRefused) {
  files_[2].content += "!";
  expect_refused(files_[2].path, "has 73 bytes, record.json says 72");
  target().clear();
  files_[2].content.resize(71);
  expect_refused(files_[2].path, "has 71 bytes, record.json says 72");
}

TEST_F(HostileArchiveTest, OtherContentIsRefused) {
  files_[2].content[0] = 'C';
  expect_refused(files_[2].path, "does not match its checksum");
}

TEST_F(HostileArchiveTest, WhatIsInNoRecordIsRefused) {
  const auto files = files_;
  files_.insert(files_.begin() + 2, {path(std::string(64, '9'), "kernel.o"), "code"});
  expect_refused("9999/record.json", "is missing");
  target().clear();
  for (const std::size_t place : {std::size_t{2}, std::size_t{3}}) {  // instead of kernel.o, beside
    files_ = files;
    files_.insert(files_.begin() + 2, {path(k_second, "extra"), "code"});
    if (place == 2) files_.erase(files_.begin() + 3);
    expect_refused("2222/extra", "is not in record.json");
    target().clear();
  }
  files_ = files;
  files_.push_back({path(k_second, "extra"), "code"});
  expect_refused("2222/extra", "is not in the record.json of its kernel", 2);
}

TEST_F(HostileArchiveTest, WhatARecordHasAndTheArchiveHasNotIsRefused) {
  const auto files = files_;
  files_.pop_back();
  expect_refused(path(k_second, "record.json"), "is missing");
  target().clear();
  files_ = files;
  files_.erase(files_.begin() + 2);
  expect_refused(path(k_second, "kernel.o"), "is missing");
  target().clear();
  files_ = files;
  files_.erase(files_.begin());
  expect_refused(path(k_first, "kernel.o"), "is missing", 0);
  files_ = {{k_first + "/", "", '5'}};
  expect_refused(path(k_first, "record.json"), "is missing", 0);
}

TEST_F(HostileArchiveTest, KernelsThatAreMixedUpAreRefused) {
  std::swap(files_[1], files_[2]);

  expect_refused(path(k_first, "record.json"), "is missing", 0);
}

TEST_F(HostileArchiveTest, ArchivesOfTheFormerFormatAreTaken) {
  files_.insert(files_.begin(), {"spjit-cache.json", std::string(2000, 'x')});

  EXPECT_EQ(error_of(tar_of(files_)), "");
  EXPECT_EQ(target().list().size(), 2U);
}

TEST_F(HostileArchiveTest, AManifestThatIsNoPlainFileIsRefused) {
  files_.insert(files_.begin(), {"spjit-cache.json", "", '2', "elsewhere"});

  expect_refused("'spjit-cache.json'", "expected a plain file", 0);
}

TEST_F(HostileArchiveTest, SizesOverTheLimitsAreRefusedBeforeAnythingIsRead) {
  files_[2].claimed_bytes = std::int64_t{1} << 33;
  expect_refused(files_[2].path, "has 8589934592 bytes, expected at most 1073741824");
  target().clear();
  files_[3].claimed_bytes = (std::int64_t{1} << 24) + 1;
  files_[2].claimed_bytes = {};
  expect_refused(files_[3].path, "has 16777217 bytes, expected at most 16777216");
}

TEST_F(HostileArchiveTest, TheLimitsCanBeChosen) {
  const auto archive = tar_of(files_);
  const auto bytes = static_cast<std::int64_t>(archive.size());
  const auto record_bytes = static_cast<std::int64_t>(files_[1].content.size());

  EXPECT_THAT(error_of(archive, {.archive_bytes = bytes - 1}), HasSubstr("has over"));
  EXPECT_THAT(error_of(archive, {.entry_bytes = 71}), HasSubstr("kernel.o"));
  EXPECT_THAT(error_of(archive, {.entry_bytes = 72 + record_bytes - 1}), HasSubstr("record.json"));
  EXPECT_THAT(error_of(archive, {.record_bytes = record_bytes - 1}), HasSubstr("record.json"));
  EXPECT_THAT(error_of(archive, {.entry_files = 1}), HasSubstr("in 1 files"));
  EXPECT_EQ(error_of(archive, {.archive_bytes = bytes,
                               .entry_bytes = 72 + record_bytes,
                               .record_bytes = record_bytes,
                               .entry_files = 2}),
            "");
}

TEST_F(HostileArchiveTest, RecordsThatAreNoneAreRefused) {
  const std::string good = files_[3].content;
  const auto refused = [&](const std::string& record, const std::string& reason) {
    files_[3].content = record;
    expect_refused(path(k_second, "record.json"), reason);
    target().clear();
  };

  refused(files_[1].content, "is of another key");
  for (const std::string& text :
       {std::string(), std::string("{}"), std::string("not json"), good.substr(0, good.size() / 2),
        good + "x", std::string(100'000, '[')}) {
    refused(text, "does not match its checksum");
  }
}

TEST_F(HostileArchiveTest, RecordsWithAChecksumThatFitsAreReadWithSuspicion) {
  const std::string good = files_[3].content.substr(files_[3].content.find('\n') + 1);
  const auto spoilt = [&](const std::string& what, const std::string& by) {
    std::string rest = good;
    const std::size_t at = rest.find(what);
    EXPECT_NE(at, std::string::npos) << what;
    rest.replace(at, what.size(), by);
    return "{\"checksum\": \"" + checksum_hex(bytes_of(rest)) + "\",\n" + rest;
  };
  for (const std::string& text :
       {spoilt("\"files\"", "\"others\""), spoilt(k_second, k_second.substr(1)),
        spoilt(k_second, std::string(64, 'G')), spoilt("\"kernel.o\"", "\"../kernel.o\""),
        spoilt("\"kernel.o\"", "7"), spoilt("\"bytes\": 72", "\"bytes\": -72"),
        spoilt("\"bytes\": 72", "\"bytes\": 1e300"), spoilt("\"bytes\": 72", "\"bytes\": \"72\""),
        spoilt("\"bytes\": 72", "\"bytes\": 18446744073709551615"),
        spoilt("\"bytes\": 72", "\"bytes\": 9223372036854775807")}) {
    files_[3].content = text;
    expect_refused(path(k_second, "record.json"), "");
    target().clear();
  }
  files_[3].content = spoilt("\"format\": 1", "\"format\": 9");
  expect_refused(path(k_second, "record.json"), "has format 9, expected 1");
  target().clear();
  files_[3].content = spoilt("\"kernel.o\"", "\"kernel.cubin\"");
  expect_refused(path(k_second, "kernel.o"), "is not in record.json");
}

TEST_F(HostileArchiveTest, ARecordNestedTooDeepIsRefused) {
  // Copying or writing such a value would need a stack as deep.
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  const std::string rest = "\"format\": 1, \"kernel\": " + deep + "}\n";

  files_[3].content = "{\"checksum\": \"" + checksum_hex(bytes_of(rest)) + "\",\n" + rest;

  expect_refused(path(k_second, "record.json"), "nested deeper than 32");
}

TEST_F(HostileArchiveTest, WhatFollowsTheEndIsRefused) {
  EXPECT_THAT(error_of(tar_of(files_) + "x"),
              HasSubstr("damaged one: Truncated tar archive; 2 kernels were imported before that"));
}

}  // namespace

#endif  // SPJIT_HAVE_LIBARCHIVE
