#include "runtime/cache_store.hpp"

#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "runtime/hash.hpp"
#include "runtime_test_support.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using test::in_child;
using test::read_bytes;
using test::to_bytes;
using test::write_bytes;
using testing::HasSubstr;

const std::vector<std::byte> k_object = to_bytes("machine code");
const std::vector<std::byte> k_source = to_bytes("text");

std::string key_of(std::int64_t number) { return KeyBuilder().field("number", number).hex(); }

mode_t mode_of(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return 0;
  return status.st_mode & 07777U;
}

std::size_t count_in(const fs::path& directory) {
  std::error_code error;
  const fs::directory_iterator begin(directory, error);
  return static_cast<std::size_t>(std::distance(begin, fs::directory_iterator()));
}

class CacheStoreTest : public testing::Test {
 protected:
  [[nodiscard]] fs::path root() const { return scratch_.path() / "parent" / "cache"; }
  [[nodiscard]] CacheStore store(const std::string& version = "0.1.0") const {
    return {root(), version};
  }
  [[nodiscard]] fs::path entry(const std::string& key) const {
    return root() / key.substr(0, 2) / key;
  }

  static PublishResult publish(const CacheStore& cache, const std::string& key) {
    const std::vector<CacheFile> files = {{.name = "kernel.o", .bytes = k_object},
                                          {.name = "source.cpp", .bytes = k_source}};
    return cache.publish(key, files, {{"tile", {28, 16}}});
  }

  /// The entry is right, whoever wrote it.
  static bool is_whole(const CacheLookup& found) {
    return found.entry && std::ranges::equal(found.entry->file("kernel.o"), k_object) &&
           std::ranges::equal(found.entry->file("source.cpp"), k_source) &&
           found.entry->record.kernel == nlohmann::json({{"tile", {28, 16}}});
  }

 private:
  test::ScratchDirectory scratch_;
};

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

TEST_F(CacheStoreTest, AMissOfNothingHasNoReasonAndCreatesNothing) {
  const CacheLookup found = store().lookup(key_of(1));

  EXPECT_FALSE(found.entry);
  EXPECT_EQ(found.miss_reason, "");
  EXPECT_FALSE(fs::exists(root().parent_path()));
}

TEST_F(CacheStoreTest, DirectoriesAndFilesArePrivate) {
  const std::string key = key_of(1);

  publish(store(), key);

  for (const fs::path& path :
       {root().parent_path(), root(), entry(key).parent_path(), entry(key)}) {
    EXPECT_EQ(mode_of(path), 0700U) << path;
  }
  EXPECT_EQ(mode_of(entry(key) / "kernel.o"), 0600U);
  EXPECT_EQ(mode_of(entry(key) / "record.json"), 0600U);
}

TEST_F(CacheStoreTest, ReadsOnlyTheWantedFilesButChecksAllSizes) {
  const CacheStore cache = store();
  const std::string key = key_of(1);
  publish(cache, key);
  const std::vector<std::string_view> wanted = {"kernel.o"};

  const CacheLookup found = cache.lookup(key, wanted);

  ASSERT_TRUE(found.entry);
  EXPECT_EQ(found.entry->files.size(), 1U);
  EXPECT_THROW(static_cast<void>(found.entry->file("source.cpp")), CacheError);
  write_bytes(entry(key) / "source.cpp", to_bytes("longer than before"));
  EXPECT_FALSE(cache.lookup(key, wanted).entry);
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

TEST_F(CacheStoreTest, NoticesAFlippedByteInAnyFile) {
  const CacheStore cache = store();
  const std::string key = key_of(1);
  publish(cache, key);
  const fs::path whole = root().parent_path() / "whole";
  fs::copy(entry(key), whole);

  for (const char* name : {"kernel.o", "source.cpp", "record.json"}) {
    const std::vector<std::byte> good = read_bytes(whole / name);
    // Every byte of a record is flipped in memory by CacheRecord's own test; here a sample will do.
    const std::size_t step = good.size() > 100 ? 13 : 1;
    for (std::size_t i = 0; i < good.size(); i += step) {
      std::vector<std::byte> bad = good;
      bad[i] ^= std::byte{0x20};
      write_bytes(entry(key) / name, bad);

      const CacheLookup found = cache.lookup(key);

      ASSERT_FALSE(found.entry) << name << " " << i;
      EXPECT_THAT(found.miss_reason, HasSubstr(key));
      EXPECT_EQ(std::ranges::count(found.miss_reason, '\n'), 0);
      ASSERT_FALSE(fs::exists(entry(key))) << name << " " << i;
      fs::copy(whole, entry(key));
    }
    EXPECT_TRUE(is_whole(cache.lookup(key))) << name;
  }
}

TEST_F(CacheStoreTest, ADamagedEntryMakesRoomForTheNextPublication) {
  const CacheStore cache = store();
  publish(cache, key_of(1));
  write_bytes(entry(key_of(1)) / "kernel.o", to_bytes("machine cods"));
  EXPECT_EQ(publish(cache, key_of(1)), PublishResult::already_there);

  EXPECT_FALSE(cache.lookup(key_of(1)).entry);

  EXPECT_EQ(publish(cache, key_of(1)), PublishResult::published);
  EXPECT_TRUE(is_whole(cache.lookup(key_of(1))));
}

TEST_F(CacheStoreTest, NoticesTornAndMissingFiles) {
  const CacheStore cache = store();
  const std::string key = key_of(1);

  for (const char* name : {"kernel.o", "source.cpp", "record.json"}) {
    publish(cache, key);
    fs::resize_file(entry(key) / name, 3);
    EXPECT_FALSE(cache.lookup(key).entry) << name;

    publish(cache, key);
    fs::remove(entry(key) / name);
    EXPECT_FALSE(cache.lookup(key).entry) << name;

    publish(cache, key);
    fs::remove(entry(key) / name);
    fs::create_directory(entry(key) / name);
    EXPECT_FALSE(cache.lookup(key).entry) << name;

    publish(cache, key);
    fs::remove(entry(key) / name);
    fs::create_symlink("/etc/passwd", entry(key) / name);
    EXPECT_FALSE(cache.lookup(key).entry) << name;

    publish(cache, key);
    fs::remove(entry(key) / name);
    ASSERT_EQ(::mkfifo((entry(key) / name).c_str(), 0600), 0);
    EXPECT_FALSE(cache.lookup(key).entry) << name;
  }
  EXPECT_EQ(count_in(root() / "damaged"), 15U);
}

TEST_F(CacheStoreTest, AnEntryUnderAnotherKeyIsNotBelieved) {
  const CacheStore cache = store();
  publish(cache, key_of(1));
  fs::create_directories(entry(key_of(2)).parent_path());
  fs::rename(entry(key_of(1)), entry(key_of(2)));

  const CacheLookup found = cache.lookup(key_of(2));

  EXPECT_FALSE(found.entry);
  EXPECT_THAT(found.miss_reason, HasSubstr(key_of(1)));
}

TEST_F(CacheStoreTest, AnotherVersionIsAMissThatCanBePublishedAgain) {
  publish(store("0.1.0"), key_of(1));
  const CacheStore newer = store("0.2.0");

  const CacheLookup found = newer.lookup(key_of(1));

  EXPECT_FALSE(found.entry);
  EXPECT_THAT(found.miss_reason, HasSubstr("written by spjit 0.1.0, this is spjit 0.2.0"));
  EXPECT_EQ(publish(newer, key_of(1)), PublishResult::published);
  EXPECT_TRUE(is_whole(newer.lookup(key_of(1))));
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

TEST_F(CacheStoreTest, ReadersNeverSeeHalfAnEntryWhileOthersRemoveIt) {
  const CacheStore cache = store();
  const std::string key = key_of(1);
  publish(cache, key);
  std::atomic<bool> stop = false;
  std::atomic<int> wrong = 0;
  std::thread reader([&] {
    while (!stop) {
      const CacheLookup found = cache.lookup(key);
      if (found.entry && !is_whole(found)) ++wrong;
    }
  });

  for (int i = 0; i < 40; ++i) {
    cache.remove(key);
    publish(cache, key);
  }
  stop = true;
  reader.join();

  EXPECT_EQ(wrong, 0);
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

TEST_F(CacheStoreTest, RunningOutOfDescriptorsIsAMissThatKeepsTheEntry) {
  publish(store(), key_of(1));

  const int code = in_child([&] {
    const CacheStore cache = store();
    const rlimit limit{.rlim_cur = 64, .rlim_max = 64};
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return 1;
    int last = -1;
    for (int fd = ::dup(0); fd >= 0; fd = ::dup(0)) last = fd;
    ::close(last);  // enough for the directory, not for a file in it
    const CacheLookup found = cache.lookup(key_of(1));
    return !found.entry && !found.miss_reason.empty() ? 0 : 2;
  });

  EXPECT_EQ(code, 0);
  EXPECT_TRUE(is_whole(store().lookup(key_of(1))));
}

TEST_F(CacheStoreTest, AReadOnlyCacheIsReadAndPublishingSaysWhy) {
  publish(store(), key_of(1));
  publish(store(), key_of(2));
  write_bytes(entry(key_of(2)) / "kernel.o", to_bytes("machine cods"));
  const fs::path outer = root().parent_path().parent_path();
  for (const auto& item : fs::recursive_directory_iterator(outer)) {
    fs::permissions(item.path(), item.is_directory() ? fs::perms(0555) : fs::perms(0444));
  }
  fs::permissions(outer, fs::perms(0755));

  const int code = in_child([&] {
    constexpr uid_t k_nobody = 65534;
    if (::geteuid() == 0) {
      const bool dropped =
          ::setgroups(0, nullptr) == 0 && ::setgid(k_nobody) == 0 && ::setuid(k_nobody) == 0;
      if (!dropped) return 77;
    }
    const CacheStore cache = store();
    if (!is_whole(cache.lookup(key_of(1)))) return 1;
    const CacheLookup damaged = cache.lookup(key_of(2));
    if (damaged.entry || damaged.miss_reason.empty()) return 2;
    if (cache.list().size() != 2) return 3;
    try {
      publish(cache, key_of(3));
    } catch (const CacheError& error) {
      return std::string_view(error.what()).find("ermission") == std::string_view::npos ? 4 : 0;
    }
    return 5;
  });

  for (const auto& item : fs::recursive_directory_iterator(outer)) {
    fs::permissions(item.path(), fs::perms(0700));
  }
  if (code == 77) GTEST_SKIP() << "root cannot drop its privileges here: no permission bites";
  EXPECT_EQ(code, 0);
}

TEST_F(CacheStoreTest, ListsEntriesWithSizeUseAndProblems) {
  const CacheStore cache = store();
  publish(cache, key_of(1));
  publish(cache, key_of(2));
  write_bytes(entry(key_of(2)) / "record.json", to_bytes("{}"));
  const auto long_ago = fs::file_time_type::clock::now() - 100h;
  fs::last_write_time(entry(key_of(1)) / "record.json", long_ago);
  const auto now = std::chrono::system_clock::now();

  auto listings = cache.list();

  ASSERT_EQ(listings.size(), 2U);
  EXPECT_LT(listings[0].key, listings[1].key);
  const bool swapped = listings[0].key != key_of(1);
  const CacheListing& good = listings[swapped ? 1 : 0];
  const CacheListing& bad = listings[swapped ? 0 : 1];
  ASSERT_TRUE(good.record);
  EXPECT_EQ(good.record->kernel.at("tile").at(0), 28);
  const auto record_bytes = fs::file_size(entry(key_of(1)) / "record.json");
  EXPECT_EQ(good.bytes, static_cast<std::int64_t>(16 + record_bytes));
  EXPECT_LT(good.last_used, now - 99h);
  EXPECT_FALSE(bad.record);
  EXPECT_THAT(bad.problem, HasSubstr("checksum"));

  static_cast<void>(cache.lookup(key_of(1)));

  listings = cache.list();
  EXPECT_GT(listings[swapped ? 1 : 0].last_used, now - 1h);
}

TEST_F(CacheStoreTest, RemovesOneEntry) {
  const CacheStore cache = store();
  publish(cache, key_of(1));
  publish(cache, key_of(2));

  EXPECT_TRUE(cache.remove(key_of(1)));

  EXPECT_FALSE(cache.remove(key_of(1)));
  EXPECT_FALSE(cache.lookup(key_of(1)).entry);
  EXPECT_TRUE(is_whole(cache.lookup(key_of(2))));
  EXPECT_EQ(count_in(root() / "tmp"), 0U);
}

TEST_F(CacheStoreTest, ClearRemovesOnlyWhatIsItsOwn) {
  const CacheStore cache = store();
  publish(cache, key_of(1));
  publish(cache, key_of(2));
  write_bytes(entry(key_of(2)) / "kernel.o", to_bytes("damaged"));
  static_cast<void>(cache.lookup(key_of(2)));
  fs::create_directories(root() / "tmp" / "1-0123456789abcdef");
  write_bytes(root() / "notes.txt", to_bytes("mine"));
  fs::create_directories(root() / "ab" / "other");
  fs::create_directories(root() / "zz-other" / std::string(64, 'a'));
  const fs::path elsewhere = root().parent_path() / "elsewhere";
  fs::create_directories(elsewhere / (std::string("cd") + std::string(62, '0')));
  fs::create_directory_symlink(elsewhere, root() / "cd");

  const CacheClearResult cleared = cache.clear();

  EXPECT_EQ(cleared.entries, 3);
  EXPECT_GT(cleared.bytes, 2 * 16);
  EXPECT_TRUE(cache.list().empty());
  EXPECT_TRUE(fs::exists(root() / "notes.txt"));
  EXPECT_TRUE(fs::exists(root() / "ab" / "other"));
  EXPECT_TRUE(fs::exists(root() / "zz-other" / std::string(64, 'a')));
  EXPECT_TRUE(fs::exists(elsewhere / (std::string("cd") + std::string(62, '0'))));
  EXPECT_EQ(publish(cache, key_of(1)), PublishResult::published);
}

TEST_F(CacheStoreTest, ClearOfNoDirectoryIsEmpty) {
  EXPECT_EQ(store().clear().entries, 0);
  EXPECT_TRUE(store().list().empty());
}

TEST_F(CacheStoreTest, RefusesADirectoryThatIsSomethingElse) {
  fs::create_directories(root() / "aa" / std::string(64, 'a'));
  write_bytes(root() / "thesis.tex", to_bytes("years of work"));

  EXPECT_THROW(static_cast<void>(store()), CacheError);
  EXPECT_TRUE(fs::exists(root() / "aa" / std::string(64, 'a')));
  EXPECT_TRUE(fs::exists(root() / "thesis.tex"));
}

TEST_F(CacheStoreTest, ClearRefusesADirectoryThatLostItsTag) {
  const CacheStore cache = store();
  publish(cache, key_of(1));
  write_bytes(root() / "CACHEDIR.TAG", to_bytes("Signature: of some other program"));

  EXPECT_THROW(static_cast<void>(cache.clear()), CacheError);

  EXPECT_TRUE(fs::exists(entry(key_of(1))));
}

TEST_F(CacheStoreTest, RefusesAFileInPlaceOfTheDirectory) {
  fs::create_directories(root().parent_path());
  write_bytes(root(), to_bytes("a file"));

  EXPECT_THROW(static_cast<void>(store()), CacheError);
  EXPECT_THROW(CacheStore("", "0.1.0"), CacheError);
}

TEST_F(CacheStoreTest, TakesAnEmptyDirectoryAndALinkToOne) {
  fs::create_directories(root());
  const fs::path link = root().parent_path() / "link";
  fs::create_directory_symlink(root(), link);
  const CacheStore cache(link, "0.1.0");

  publish(cache, key_of(1));

  EXPECT_TRUE(is_whole(CacheStore(link, "0.1.0").lookup(key_of(1))));
  EXPECT_EQ(cache.list().size(), 1U);
}

TEST_F(CacheStoreTest, OpeningSweepsWhatWasLeftLongAgo) {
  publish(store(), key_of(1));
  const auto now = fs::file_time_type::clock::now();
  const auto leave = [&](const fs::path& path, std::chrono::hours age) {
    fs::create_directories(path);
    write_bytes(path / "kernel.o", k_object);
    fs::last_write_time(path, now - age);
  };
  leave(root() / "tmp" / "1-0000000000000000", 2h);
  leave(root() / "tmp" / "1-0000000000000001", 0h);
  leave(root() / "damaged" / "old", 24h * 8);
  leave(root() / "damaged" / "new", 24h * 6);

  const CacheStore cache = store();

  EXPECT_FALSE(fs::exists(root() / "tmp" / "1-0000000000000000"));
  EXPECT_TRUE(fs::exists(root() / "tmp" / "1-0000000000000001"));
  EXPECT_FALSE(fs::exists(root() / "damaged" / "old"));
  EXPECT_TRUE(fs::exists(root() / "damaged" / "new"));
  EXPECT_TRUE(is_whole(cache.lookup(key_of(1))));
}

}  // namespace
}  // namespace spjit
