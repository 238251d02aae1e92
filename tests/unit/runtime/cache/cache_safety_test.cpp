#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "base/safe_path.hpp"
#include "cache_testing.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

namespace fs = std::filesystem;
using namespace spjit::test;
using testing::HasSubstr;

constexpr CacheStoreOptions k_unsafe = {.allow_unsafe = true};
constexpr uid_t k_somebody_else = 54321;

TEST(CacheDistrust, OnlyTheUserAndRootAreTrusted) {
  EXPECT_FALSE(distrust(1000, 0700, 1000));
  EXPECT_FALSE(distrust(0, 0755, 1000));
  EXPECT_FALSE(distrust(0, 0700, 0));
  EXPECT_THAT(distrust(1001, 0700, 1000).reason(),
              HasSubstr("belongs to user 1001, not to user 1000"));
  // Root does not run what users compile.
  EXPECT_THAT(distrust(1000, 0700, 0).reason(), HasSubstr("belongs to user 1000"));
}

TEST(CacheDistrust, WhoeverCanWriteIsNotTrusted) {
  EXPECT_FALSE(distrust(1000, 0755, 1000));
  EXPECT_THAT(distrust(1000, 0777, 1000).reason(), HasSubstr("mode 0777, with which everybody"));
  EXPECT_THAT(distrust(1000, 01777, 1000).reason(), HasSubstr("mode 1777, with which everybody"));
  EXPECT_THAT(distrust(1000, 0770, 1000).reason(), HasSubstr("mode 0770, with which its group"));
  EXPECT_THAT(distrust(0, 0702, 1000).reason(), HasSubstr("mode 0702"));
}

TEST(ForeignHome, IsOfNoConcernToOthersThanRoot) {
  const ScratchDirectory home;

  EXPECT_FALSE(foreign_home(home.path(), home.path() / "spjit", 1000));
  EXPECT_FALSE(foreign_home("/", "/no-such-folder/spjit", 0));
}

TEST(ForeignHome, IsOneOfAnotherUserWhereRootAsks) {
  const ScratchDirectory home;
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(home.path().c_str(), k_somebody_else, k_somebody_else), 0);
  }

  const std::string here = foreign_home(home.path(), home.path() / "spjit", 0).reason();
  const fs::path none = home.path() / "none";
  const std::string to_be_made = foreign_home(none, none / ".cache" / "spjit", 0).reason();

  EXPECT_THAT(here, HasSubstr(home.path().native() + "' belongs to user"));
  EXPECT_EQ(to_be_made, here);
}

TEST(ForeignHome, IsAlsoAFolderOrALinkInItThatLeadsToAnotherUsers) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file to another user";
  const ScratchDirectory home;
  const fs::path folder = home.path() / ".cache";
  fs::create_directory(folder);
  const auto ask = [&](const std::string& suffix) {
    return foreign_home(home.path().native() + suffix, folder / "spjit", 0).reason();
  };
  EXPECT_EQ(ask(""), "");
  EXPECT_EQ(ask("/"), "");
  if (::chown(folder.c_str(), k_somebody_else, k_somebody_else) != 0) {
    GTEST_SKIP() << "this root cannot give a file to another user";
  }

  EXPECT_THAT(ask(""), HasSubstr(folder.native() + "' belongs to user 54321"));
  EXPECT_THAT(ask("/"), HasSubstr(folder.native() + "' belongs to user 54321"));

  // What root made in there before does not make it root's.
  fs::create_directory(folder / "spjit");
  EXPECT_THAT(ask(""), HasSubstr(folder.native() + "' belongs to user 54321"));

  const fs::path elsewhere = home.path() / "elsewhere";
  fs::rename(folder, elsewhere);
  fs::remove(elsewhere / "spjit");
  fs::create_directory_symlink(elsewhere, folder);
  EXPECT_THAT(ask(""), HasSubstr(folder.native() + "' belongs to user 54321"));
}

TEST(CacheStorePath, HasNoZeroByte) {
  const ScratchDirectory folder;
  const fs::path path = folder.path().native() + std::string("/cache\0x", 8);

  EXPECT_THROW(CacheStore(path, "0.1.0"), InvalidArgument);
  EXPECT_THROW(CacheStore(path, "0.1.0", {.read_only = true}), InvalidArgument);
}

class CacheSafetyTest : public CacheStoreTest {
 protected:
  /// What opening the cache says; empty if it is taken.
  [[nodiscard]] std::string refusal(const CacheStoreOptions& options = {}) const {
    try {
      static_cast<void>(CacheStore(root(), "0.1.0", options));
      return {};
    } catch (const CacheError& error) {
      return error.what();
    }
  }
};

TEST_F(CacheSafetyTest, RefusesADirectoryThatOthersCanWriteTo) {
  publish(store(), key_of(1));
  for (const unsigned mode : {0777U, 0770U, 01777U}) {
    fs::permissions(root(), fs::perms(mode));

    const std::string message = refusal();

    EXPECT_THAT(message, HasSubstr(root().native()));
    EXPECT_THAT(message, HasSubstr("--cache-unsafe"));
    EXPECT_EQ(std::ranges::count(message, '\n'), 0);
    EXPECT_NE(refusal({.read_only = true}), "");
    EXPECT_EQ(refusal(k_unsafe), "");
  }
  fs::permissions(root(), fs::perms(0755));
  EXPECT_EQ(refusal(), "");
}

TEST_F(CacheSafetyTest, RefusesAnEmptyDirectoryThatOthersCanWriteTo) {
  fs::create_directories(root());
  fs::permissions(root(), fs::perms(0777));

  EXPECT_THAT(refusal(), HasSubstr("mode 0777"));
}

TEST_F(CacheSafetyTest, TheTargetOfALinkIsJudged) {
  publish(store(), key_of(1));
  const fs::path link = root().parent_path() / "link";
  fs::create_directory_symlink(root(), link);

  EXPECT_TRUE(is_whole(CacheStore(link, "0.1.0").lookup(key_of(1))));

  fs::permissions(root(), fs::perms(0777));
  EXPECT_THROW(CacheStore(link, "0.1.0"), CacheError);
}

TEST_F(CacheSafetyTest, PublishesNothingInADirectoryThatBecameUnsafe) {
  const CacheStore cache = store();
  fs::create_directories(root());
  fs::permissions(root(), fs::perms(0777));

  EXPECT_THROW(publish(cache, key_of(1)), CacheError);

  EXPECT_TRUE(fs::is_empty(root()));
}

TEST_F(CacheSafetyTest, DoesNotBelieveAFileThatOthersCanWriteTo) {
  const CacheStore cache = store();
  for (const char* name : {"", "kernel.o", "source.cpp", "record.json"}) {
    publish(cache, key_of(1));
    const fs::path path = entry(key_of(1)) / name;
    fs::permissions(path, fs::perms(fs::is_directory(path) ? 0770 : 0660));

    const CacheLookup found = cache.lookup(key_of(1));

    EXPECT_FALSE(found.entry) << name;
    EXPECT_THAT(found.miss_reason, HasSubstr("group can write")) << name;
    EXPECT_FALSE(fs::exists(entry(key_of(1)))) << name;
  }
}

TEST_F(CacheSafetyTest, BelievesEverythingIfAskedTo) {
  const CacheStore cache(root(), "0.1.0", k_unsafe);
  publish(cache, key_of(1));
  fs::permissions(root(), fs::perms(0777));
  fs::permissions(entry(key_of(1)) / "kernel.o", fs::perms(0666));

  EXPECT_TRUE(is_whole(CacheStore(root(), "0.1.0", k_unsafe).lookup(key_of(1))));
}

/// Giving files away takes root.
class CacheOwnerTest : public CacheSafetyTest {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file to another user";
    publish(store(), key_of(1));
    if (::chown(root().c_str(), k_somebody_else, k_somebody_else) != 0) {
      GTEST_SKIP() << "this root cannot give a file to another user";
    }
    give_back();
  }

  void give(const fs::path& path) const {
    ASSERT_EQ(::chown(path.c_str(), k_somebody_else, k_somebody_else), 0) << path;
  }
  void give_back() const { ASSERT_EQ(::chown(root().c_str(), 0, 0), 0); }
};

TEST_F(CacheOwnerTest, RefusesADirectoryOfAnotherUser) {
  give(root());

  EXPECT_THAT(refusal(), HasSubstr("belongs to user 54321, not to user 0"));
  EXPECT_NE(refusal({.read_only = true}), "");
  EXPECT_EQ(refusal(k_unsafe), "");
}

TEST_F(CacheOwnerTest, DoesNotBelieveAnEntryOfAnotherUser) {
  const CacheStore cache = store();
  for (const char* name : {"", "kernel.o", "source.cpp", "record.json"}) {
    publish(cache, key_of(1));
    give(entry(key_of(1)) / name);

    const CacheLookup found = cache.lookup(key_of(1));

    EXPECT_FALSE(found.entry) << name;
    EXPECT_THAT(found.miss_reason, HasSubstr("belongs to user 54321")) << name;
    EXPECT_FALSE(fs::exists(entry(key_of(1)))) << name;
  }
}

TEST_F(CacheOwnerTest, VerifyNamesEntriesOfOtherUsers) {
  give(entry(key_of(1)) / "kernel.o");

  const CacheVerifyResult result = store().verify();

  ASSERT_EQ(result.damaged.size(), 1U);
  EXPECT_THAT(result.damaged.front().problem, HasSubstr("belongs to user 54321"));
}

TEST_F(CacheOwnerTest, BelievesAnEntryOfAnotherUserIfAskedTo) {
  give(root());
  give(entry(key_of(1)));
  give(entry(key_of(1)) / "kernel.o");

  EXPECT_TRUE(is_whole(CacheStore(root(), "0.1.0", k_unsafe).lookup(key_of(1))));
}

}  // namespace
}  // namespace spjit
