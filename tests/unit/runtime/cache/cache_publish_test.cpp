#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "cache_testing.hpp"
#include "runtime/cache/cache_directory.hpp"
#include "runtime/cache/cache_store.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

namespace fs = std::filesystem;
using namespace spjit::test;

TEST_F(CacheStoreTest, FindsWhatWasPublished) {
  const CacheStore cache = store();
  const std::string key = key_of(1);

  EXPECT_EQ(publish(cache, key), PublishResult::published);

  const CacheLookup found = cache.lookup(key);
  EXPECT_TRUE(is_whole(found));
  EXPECT_EQ(found.miss_reason, "");
  EXPECT_EQ(found.entry->record.key, key);
  EXPECT_EQ(found.entry->record.spjit_version, "0.1.0");
  EXPECT_TRUE(is_whole(store().lookup(key)));
}

TEST_F(CacheStoreTest, DirectoriesAndFilesArePrivate) {
  const std::string key = key_of(1);

  publish(store(), key);

  for (const fs::path& path :
       {root().parent_path(), root(), entry(key).parent_path(), entry(key)}) {
    EXPECT_EQ(mode_of(path), 0700U) << path;
  }
  EXPECT_EQ(mode_of(entry(key) / "kernel.o"), 0400U);
  EXPECT_EQ(mode_of(entry(key) / "record.json"), 0400U);
}

TEST_F(CacheStoreTest, KeepsEmptyFilesAndEntriesWithoutFiles) {
  const CacheStore cache = store();
  const std::vector<CacheFile> files = {{.name = "empty", .bytes = {}}};

  cache.publish(key_of(1), files, nullptr);
  cache.publish(key_of(2), {}, 42);

  EXPECT_EQ(cache.lookup(key_of(1)).entry->file("empty").size(), 0U);
  EXPECT_EQ(cache.lookup(key_of(2)).entry->record.kernel, 42);
}

TEST_F(CacheStoreTest, TheFirstPublicationStays) {
  const CacheStore cache = store();
  const std::vector<CacheFile> other = {{.name = "kernel.o", .bytes = k_source}};
  publish(cache, key_of(1));

  EXPECT_EQ(cache.publish(key_of(1), other, nullptr), PublishResult::already_there);

  EXPECT_TRUE(is_whole(cache.lookup(key_of(1))));
  EXPECT_EQ(count_in(root() / "tmp"), 0U);
}

TEST_F(CacheStoreTest, RefusesKeysAndNamesThatLeaveTheDirectory) {
  const CacheStore cache = store();
  const std::vector<CacheFile> outside = {{.name = "../x", .bytes = k_object}};
  const std::vector<CacheFile> twice = {{.name = "x", .bytes = k_object},
                                        {.name = "x", .bytes = k_object}};

  EXPECT_THROW(static_cast<void>(cache.lookup("../../etc")), InvalidArgument);
  EXPECT_THROW(publish(cache, std::string(64, 'Z')), InvalidArgument);
  EXPECT_THROW(static_cast<void>(cache.remove("")), InvalidArgument);
  EXPECT_THROW(cache.publish(key_of(1), outside, nullptr), InvalidArgument);
  EXPECT_THROW(cache.publish(key_of(1), twice, nullptr), InvalidArgument);
  EXPECT_FALSE(fs::exists(root()));
}

TEST_F(CacheStoreTest, ProcessesAndThreadsRaceToOneWholeEntry) {
  constexpr int k_processes = 4;
  constexpr int k_keys = 20;
  std::vector<pid_t> children;
  for (int process = 0; process < k_processes; ++process) {
    const pid_t child = ::fork();
    if (child == 0) {
      int wrong = 0;
      try {
        const CacheStore cache = store();
        for (int i = 0; i < k_keys; ++i) {
          const CacheLookup before = cache.lookup(key_of(i));
          if (before.entry ? !is_whole(before) : !before.miss_reason.empty()) ++wrong;
          publish(cache, key_of(i));
          if (!is_whole(cache.lookup(key_of(i)))) ++wrong;
        }
      } catch (const std::exception&) {
        wrong = 100;
      }
      ::_exit(wrong);
    }
    children.push_back(child);
  }
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int thread = 0; thread < 2; ++thread) {
    threads.emplace_back([&] {
      const CacheStore cache = store();
      for (int i = 0; i < k_keys; ++i) {
        publish(cache, key_of(i));
        if (!is_whole(cache.lookup(key_of(i)))) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();

  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(store().list().size(), static_cast<std::size_t>(k_keys));
  EXPECT_EQ(count_in(root() / "tmp"), 0U);
  EXPECT_FALSE(fs::exists(root() / "damaged"));
}

TEST_F(CacheStoreTest, AFailedPublicationLeavesNothingBehind) {
  publish(store(), key_of(1));

  const int code = in_child([&] {
    // A file size limit fails like a full disk: write() stops part way.
    const rlimit limit{.rlim_cur = 1000, .rlim_max = RLIM_INFINITY};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
    std::signal(SIGXFSZ, SIG_IGN);
    const std::vector<std::byte> big(5000, std::byte{1});
    const std::vector<CacheFile> files = {{.name = "kernel.o", .bytes = big}};
    try {
      store().publish(key_of(2), files, nullptr);
    } catch (const CacheError& error) {
      return std::string_view(error.what()).find("cannot write") == std::string_view::npos ? 2 : 0;
    }
    return 3;
  });

  EXPECT_EQ(code, 0);
  EXPECT_EQ(count_in(root() / "tmp"), 0U);
  EXPECT_FALSE(fs::exists(entry(key_of(2))));
  EXPECT_TRUE(is_whole(store().lookup(key_of(1))));
}

TEST_F(CacheStoreTest, RefusesADirectoryThatIsSomethingElse) {
  fs::create_directories(root() / "aa" / std::string(64, 'a'));
  fs::permissions(root(), fs::perms(0700));
  write_bytes(root() / "thesis.tex", to_bytes("years of work"));

  EXPECT_THROW(static_cast<void>(store()), CacheError);
  EXPECT_TRUE(fs::exists(root() / "aa" / std::string(64, 'a')));
  EXPECT_TRUE(fs::exists(root() / "thesis.tex"));
}

TEST_F(CacheStoreTest, RefusesAFileInPlaceOfTheDirectory) {
  fs::create_directories(root().parent_path());
  write_bytes(root(), to_bytes("a file"));

  EXPECT_THROW(static_cast<void>(store()), CacheError);
  EXPECT_THROW(CacheStore("", "0.1.0"), CacheError);
}

TEST_F(CacheStoreTest, TakesAnEmptyDirectoryAndALinkToOne) {
  fs::create_directories(root());
  fs::permissions(root(), fs::perms(0700));
  const fs::path link = root().parent_path() / "link";
  fs::create_directory_symlink(root(), link);
  const CacheStore cache(link, "0.1.0");

  publish(cache, key_of(1));

  EXPECT_TRUE(is_whole(CacheStore(link, "0.1.0").lookup(key_of(1))));
  EXPECT_EQ(cache.list().size(), 1U);
}

TEST_F(CacheStoreTest, ARenameWhoseAnswerWasLostCountsAsDone) {
  publish(store(), key_of(1));
  const fs::path temporary = root() / "tmp" / "1-0123456789abcdef";
  fs::create_directories(temporary);
  const FileIdentity identity = identity_of(temporary).value();
  fs::create_directories(entry(key_of(2)).parent_path());
  fs::rename(temporary, entry(key_of(2)));  // what the server did before it was asked again

  EXPECT_TRUE(rename_into_place(temporary, identity, entry(key_of(2))));
}

TEST_F(CacheStoreTest, ALostRaceIsNoErrorAndAVanishedTemporaryIsOne) {
  publish(store(), key_of(1));
  const fs::path temporary = root() / "tmp" / "1-0123456789abcdef";
  fs::create_directories(temporary);
  const FileIdentity identity = identity_of(temporary).value();

  EXPECT_FALSE(rename_into_place(temporary, identity, entry(key_of(1))));

  fs::remove_all(temporary);
  EXPECT_THROW(static_cast<void>(rename_into_place(temporary, identity, entry(key_of(2)))),
               CacheError);
  EXPECT_TRUE(is_whole(store().lookup(key_of(1))));
}

TEST_F(CacheStoreTest, PublishesWhereTheShardIsNotThereYet) {
  publish(store(), key_of(1));
  const fs::path temporary = root() / "tmp" / "1-0123456789abcdef";
  fs::create_directories(temporary);
  const FileIdentity identity = identity_of(temporary).value();

  EXPECT_TRUE(rename_into_place(temporary, identity, root() / "zz" / key_of(2)));
}

}  // namespace
}  // namespace spjit
