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
using spjit::testing_support::TarFile;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

/// Two kernels as an archive of hand-made members, to be spoilt: 0 is the manifest, 1 and 2 are the
/// first kernel's file and record, 3 and 4 the second one's.
class HostileArchiveTest : public CacheArchiveTest {
 protected:
  HostileArchiveTest() {
    add_kernel(k_first);
    add_kernel(k_second);
    files_.insert(files_.begin(), TarFile{std::string(k_manifest_name), ""});
    write();
  }

  static std::string path(const std::string& key, const std::string& file) {
    return key + "/" + file;
  }

  static CacheFileRecord describe(const std::string& name, const std::string& content) {
    return {.name = name,
            .bytes = static_cast<std::int64_t>(content.size()),
            .checksum = checksum_hex(bytes_of(content))};
  }

  void add_kernel(const std::string& key) {
    const std::string code = "code of " + key;
    CacheRecord record{.spjit_version = "0.1.0",
                       .key = key,
                       .created = "2025-01-31T23:59:59Z",
                       .files = {describe("kernel.o", code)},
                       .kernel = {{"tile", 28}}};
    const std::string text = write_cache_record(record);
    manifest_.entries.push_back({.key = key,
                                 .spjit_version = "0.1.0",
                                 .record = describe("record.json", text),
                                 .files = record.files});
    files_.push_back({path(key, "kernel.o"), code});
    files_.push_back({path(key, "record.json"), text});
  }

  /// The manifest into its member.
  void write() { files_[0].content = write_manifest(manifest_); }

  /// Gives the second kernel another record.json, which the manifest vouches for.
  void replace_record(const std::string& text) {
    files_[4].content = text;
    manifest_.entries[1].record = describe("record.json", text);
    write();
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

  ArchiveManifest manifest_{.spjit_version = "0.1.0", .entries = {}};
  std::vector<TarFile> files_;
};

TEST_F(HostileArchiveTest, UnspoiltItIsTaken) {
  EXPECT_EQ(error_of(tar_of(files_)), "");
  EXPECT_EQ(target().list().size(), 2U);
}

TEST_F(HostileArchiveTest, DirectoriesOfKernelsAreTaken) {
  files_.insert(files_.begin() + 1, {k_first + "/", "", '5'});

  EXPECT_EQ(error_of(tar_of(files_)), "");
}

TEST_F(HostileArchiveTest, FilesOfAKernelMayComeInAnyOrder) {
  std::swap(files_[1], files_[2]);

  EXPECT_EQ(error_of(tar_of(files_)), "");
}

TEST_F(HostileArchiveTest, PathsThatLeadElsewhereAreRefusedAndNothingIsWrittenThere) {
  const auto before = tree_of(folder());
  for (const char* name : {"/tmp/x", "../x", "..", "../../../../../../tmp/x", k_second.c_str()}) {
    files_[3].path = name;
    expect_refused(name, "expected KEY/FILE");
    target().clear();
  }
  for (const char* rest : {"/../x", "/../../x", "/..", "/./x", "//x", "/x/y", "/.x"}) {
    files_[3].path = k_second + rest;
    expect_refused(files_[3].path, "expected KEY/FILE");
    target().clear();
  }
  fs::remove_all(target().root());
  EXPECT_EQ(tree_of(folder()), before);
}

TEST_F(HostileArchiveTest, OtherNamesAreRefused) {
  for (const char* name : {"README", "tmp/x", "damaged/x", "CACHEDIR.TAG", "22/x",
                           "spjit-cache.json", "x\x1b[2J\ny", " "}) {
    files_[3].path = name;
    expect_refused("member '", "expected KEY/FILE");
    target().clear();
  }
}

TEST_F(HostileArchiveTest, LinksDevicesAndFifosAreRefused) {
  for (const char type : {'1', '2', '3', '4', '6'}) {
    files_[3] = {path(k_second, "kernel.o"), "", type, "/etc/passwd"};
    expect_refused(path(k_second, "kernel.o"), "expected a plain file");
    target().clear();
  }
}

TEST_F(HostileArchiveTest, OtherDirectoriesAreRefused) {
  files_[3] = {"etc/", "", '5'};
  expect_refused("'etc/'", "expected KEY/FILE");
  target().clear();
  files_[3] = {path(k_second, "kernel.o/"), "", '5'};
  expect_refused("kernel.o/", "expected KEY/FILE");
  target().clear();
  files_[3] = {std::string(64, '9') + "/", "", '5'};
  expect_refused("9999/", "is not in the manifest");
}

TEST_F(HostileArchiveTest, MembersThatAreThereTwiceAreRefused) {
  for (const std::size_t index : {std::size_t{1}, std::size_t{2}}) {
    auto files = files_;
    files_.insert(files_.begin() + 3, files_[index]);
    expect_refused(files_[index].path, "is there twice");
    target().clear();
    files_ = std::move(files);
  }
  files_.insert(files_.begin() + 4, files_[3]);
  expect_refused(files_[3].path, "is there twice");
}

TEST_F(HostileArchiveTest, SizesThatTheManifestDoesNotHaveAreRefused) {
  files_[3].content += "!";
  expect_refused(files_[3].path, "has 73 bytes, the manifest says 72");
  target().clear();
  files_[3].content.resize(71);
  expect_refused(files_[3].path, "has 71 bytes, the manifest says 72");
}

TEST_F(HostileArchiveTest, OtherContentIsRefused) {
  files_[3].content[0] = 'C';
  expect_refused(files_[3].path, "does not match its checksum");
}

TEST_F(HostileArchiveTest, WhatIsNotInTheManifestIsRefused) {
  files_.insert(files_.begin() + 3, {path(std::string(64, '9'), "kernel.o"), "code"});
  expect_refused("9999/kernel.o", "is not in the manifest");
  target().clear();
  files_[3] = {path(k_second, "extra"), "code"};
  expect_refused("2222/extra", "is not in the manifest");
}

TEST_F(HostileArchiveTest, WhatTheManifestHasAndTheArchiveHasNotIsRefused) {
  const auto files = files_;
  files_.pop_back();
  expect_refused(path(k_second, "record.json"), "is missing");
  target().clear();
  files_.pop_back();
  expect_refused(path(k_second, "record.json"), "is missing");
  target().clear();
  files_ = files;
  files_.erase(files_.begin() + 1);
  expect_refused(path(k_first, "kernel.o"), "is missing", 0);
}

TEST_F(HostileArchiveTest, KernelsThatAreMixedUpAreRefused) {
  std::swap(files_[2], files_[3]);

  expect_refused(path(k_first, "record.json"), "is missing", 0);
}

TEST_F(HostileArchiveTest, WithoutAManifestInFrontItIsRefused) {
  const auto files = files_;
  files_.erase(files_.begin());
  expect_refused("", "does not begin with 'spjit-cache.json'", 0);
  files_ = files;
  std::swap(files_[0], files_[1]);
  expect_refused("", "does not begin with 'spjit-cache.json'", 0);
  files_ = {};
  expect_refused("", "does not begin with 'spjit-cache.json'", 0);
  files_ = files;
  files_[0] = {"spjit-cache.json", "", '2', "elsewhere"};
  expect_refused("'spjit-cache.json'", "is a symbolic link", 0);
}

TEST_F(HostileArchiveTest, ManifestsThatAreNoneAreRefused) {
  const std::string good = files_[0].content;
  const auto spoilt = [&](const std::string& what, const std::string& by) {
    std::string text = good;
    const std::size_t at = text.find(what);
    EXPECT_NE(at, std::string::npos) << what;
    return text.replace(at, what.size(), by);
  };
  for (const std::string& text :
       {std::string(), std::string("{}"), std::string("[]"), std::string("null"),
        std::string("not json"), good.substr(0, good.size() / 2), good + "x",
        std::string(100'000, '['), spoilt("\"entries\"", "\"others\""),
        spoilt(k_first, k_first.substr(1)), spoilt(k_first, std::string(64, 'G')),
        spoilt(k_first, k_second), spoilt("\"kernel.o\"", "\"../kernel.o\""),
        spoilt("\"kernel.o\"", "7"), spoilt("\"bytes\": 72", "\"bytes\": -72"),
        spoilt("\"bytes\": 72", "\"bytes\": 1e300"), spoilt("\"bytes\": 72", "\"bytes\": \"72\""),
        spoilt("\"bytes\": 72", "\"bytes\": 18446744073709551615"),
        spoilt("\"bytes\": 72", "\"bytes\": 9223372036854775807")}) {
    files_[0].content = text;
    expect_refused("spjit-cache.json", "", 0);
  }
}

TEST_F(HostileArchiveTest, ArchivesOfAnotherFormatAreRefusedAsSuch) {
  std::string& text = files_[0].content;
  text.replace(text.find("\"format\": 1"), 11, "\"format\": 2");

  expect_refused("spjit-cache.json", "has format 2, expected 1", 0);
}

TEST_F(HostileArchiveTest, AKernelThatIsThereTwiceInTheManifestIsRefused) {
  manifest_.entries.push_back(manifest_.entries[0]);
  write();

  expect_refused("spjit-cache.json", "lists key " + k_first + " twice", 0);
}

TEST_F(HostileArchiveTest, SizesOverTheLimitsAreRefusedBeforeAnythingIsRead) {
  manifest_.entries[1].files[0].bytes = std::int64_t{1} << 40;
  write();
  expect_refused("spjit-cache.json", "lists 'kernel.o' of 1099511627776 bytes", 0);

  manifest_.entries[1].files[0].bytes = std::int64_t{1} << 29;
  manifest_.entries[0].files[0].bytes = std::int64_t{1} << 29;
  write();
  EXPECT_THAT(error_of(tar_of(files_), {.archive_bytes = std::int64_t{1} << 30}),
              HasSubstr("lists over 1073741824 bytes in all"));
  EXPECT_TRUE(target().list().empty());
}

TEST_F(HostileArchiveTest, TheLimitsCanBeChosen) {
  const auto archive = tar_of(files_);
  const auto bytes = static_cast<std::int64_t>(archive.size());
  const std::int64_t entry_bytes = 72 + manifest_.entries[0].record.bytes;

  EXPECT_THAT(error_of(archive, {.archive_bytes = bytes - 1}), HasSubstr("has over"));
  EXPECT_THAT(error_of(archive, {.entry_bytes = entry_bytes - 1}), HasSubstr("kernel.o"));
  EXPECT_EQ(error_of(archive, {.archive_bytes = bytes, .entry_bytes = entry_bytes}), "");
}

TEST_F(HostileArchiveTest, RecordsThatAreNoneAreRefused) {
  CacheRecord record{.spjit_version = "0.1.0",
                     .key = k_second,
                     .created = "",
                     .files = manifest_.entries[1].files,
                     .kernel = nullptr};
  const auto refused = [&](const CacheRecord& spoilt, const std::string& reason) {
    replace_record(write_cache_record(spoilt));
    expect_refused(path(k_second, "record.json"), reason);
    target().clear();
  };
  CacheRecord other_key = record;
  other_key.key = k_first;
  CacheRecord other_files = record;
  other_files.files[0].name = "kernel.cubin";
  CacheRecord other_version = record;
  other_version.spjit_version = "0.0.9";

  refused(other_key, "is of another key");
  refused(other_files, "lists other files than the manifest");
  refused(other_version, "is of another version");
  replace_record("{}");
  expect_refused(path(k_second, "record.json"), "does not match its checksum");
}

TEST_F(HostileArchiveTest, ARecordNestedTooDeepIsRefused) {
  // Copying or writing such a value would need a stack as deep.
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  const std::string rest = "\"format\": 1, \"kernel\": " + deep + "}\n";

  replace_record("{\"checksum\": \"" + checksum_hex(bytes_of(rest)) + "\",\n" + rest);

  expect_refused(path(k_second, "record.json"), "nested deeper than 32");
}

TEST_F(HostileArchiveTest, WhatFollowsTheEndIsRefused) {
  EXPECT_THAT(error_of(tar_of(files_) + "x"),
              HasSubstr("goes on after tar's end mark; 2 kernels were imported before that"));
}

}  // namespace

#endif  // SPJIT_HAVE_LIBARCHIVE
