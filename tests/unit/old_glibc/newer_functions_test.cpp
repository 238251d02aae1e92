// The functions of bindings/python/old_glibc/newer_functions.cpp, which this program links in the
// place of glibc's.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/files/system_testing.hpp"

namespace {

using spjit::test::ScratchDirectory;

// A file of 5 bytes and a symbolic link to it.
struct Files {
  Files() {
    spjit::test::write_bytes(file, spjit::test::to_bytes("12345"));
    std::filesystem::create_symlink(file, link);
  }

  ScratchDirectory directory;
  std::string file = directory.path() / "file";
  std::string link = directory.path() / "link";
};

// What the kernel says by another call.
void expect_is(const struct stat& status, const std::string& path, int flags) {
  struct statx expected {};
  ASSERT_EQ(::statx(AT_FDCWD, path.c_str(), flags, STATX_BASIC_STATS, &expected), 0);
  EXPECT_EQ(status.st_ino, expected.stx_ino);
  EXPECT_EQ(status.st_mode, expected.stx_mode);
  EXPECT_EQ(status.st_nlink, expected.stx_nlink);
  EXPECT_EQ(static_cast<std::uint64_t>(status.st_size), expected.stx_size);
  EXPECT_EQ(status.st_mtim.tv_sec, expected.stx_mtime.tv_sec);
  EXPECT_EQ(status.st_mtim.tv_nsec, expected.stx_mtime.tv_nsec);
}

TEST(NewerFunctions, StatFollowsALink) {
  const Files files;
  struct stat status {};
  struct stat64 status64 {};

  ASSERT_EQ(::stat(files.link.c_str(), &status), 0);
  ASSERT_EQ(::stat64(files.link.c_str(), &status64), 0);

  expect_is(status, files.file, 0);
  EXPECT_EQ(status.st_size, 5);
  EXPECT_EQ(status64.st_ino, status.st_ino);
  EXPECT_EQ(status64.st_size, 5);
}

TEST(NewerFunctions, LstatIsOfTheLink) {
  const Files files;
  struct stat status {};
  struct stat64 status64 {};

  ASSERT_EQ(::lstat(files.link.c_str(), &status), 0);
  ASSERT_EQ(::lstat64(files.link.c_str(), &status64), 0);

  expect_is(status, files.link, AT_SYMLINK_NOFOLLOW);
  EXPECT_TRUE(S_ISLNK(status.st_mode));
  EXPECT_EQ(status64.st_ino, status.st_ino);
}

TEST(NewerFunctions, FstatIsOfAnOpenFile) {
  const Files files;
  const int file = ::open(files.file.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status {};
  struct stat64 status64 {};

  ASSERT_EQ(::fstat(file, &status), 0);
  ASSERT_EQ(::fstat64(file, &status64), 0);
  ::close(file);

  expect_is(status, files.file, 0);
  EXPECT_EQ(status64.st_ino, status.st_ino);
}

TEST(NewerFunctions, FstatatIsOfANameInAFolder) {
  const Files files;
  const int folder = ::open(files.directory.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  struct stat target {};
  struct stat link {};

  ASSERT_EQ(::fstatat(folder, "link", &target, 0), 0);
  ASSERT_EQ(::fstatat(folder, "link", &link, AT_SYMLINK_NOFOLLOW), 0);
  ::close(folder);

  expect_is(target, files.file, 0);
  expect_is(link, files.link, AT_SYMLINK_NOFOLLOW);
}

TEST(NewerFunctions, StatSaysInErrnoWhatIsWrong) {
  const Files files;
  struct stat status {};

  errno = 0;
  EXPECT_EQ(::stat((files.file + "s").c_str(), &status), -1);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(::stat((files.file + "/x").c_str(), &status), -1);
  EXPECT_EQ(errno, ENOTDIR);
  EXPECT_EQ(::fstat(-1, &status), -1);
  EXPECT_EQ(errno, EBADF);
}

TEST(NewerFunctions, RandomNumbersDiffer) {
  std::set<std::uint32_t> numbers;

  for (int i = 0; i < 64; ++i) numbers.insert(::arc4random());

  EXPECT_GT(numbers.size(), 60U);
}

TEST(NewerFunctions, RandomBytesFillTheirBuffer) {
  std::vector<unsigned char> bytes(100'002, 0);

  ::arc4random_buf(bytes.data() + 1, 100'000);

  EXPECT_EQ(bytes.front(), 0);
  EXPECT_EQ(bytes.back(), 0);
  for (std::size_t i = 1; i + 100 <= 100'001; i += 100) {
    const std::set<unsigned char> part(bytes.data() + i, bytes.data() + i + 100);
    EXPECT_GT(part.size(), 20U) << i;
  }
}

timespec later(clockid_t clock, std::chrono::seconds time) {
  timespec now{};
  ::clock_gettime(clock, &now);
  now.tv_sec += time.count();
  return now;
}

// A condition variable, as std::condition_variable makes it, and its locked mutex.
struct Waiting {
  Waiting() { ::pthread_mutex_lock(&mutex); }
  ~Waiting() { ::pthread_mutex_unlock(&mutex); }

  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
};

TEST(NewerFunctions, ClockwaitReturnsAtOnceWhenTheTimeIsOver) {
  for (const clockid_t clock : {CLOCK_MONOTONIC, CLOCK_REALTIME}) {
    Waiting waiting;
    const timespec now = later(clock, std::chrono::seconds(0));
    const timespec never{};

    EXPECT_EQ(::pthread_cond_clockwait(&waiting.condition, &waiting.mutex, clock, &now), ETIMEDOUT);
    EXPECT_EQ(::pthread_cond_clockwait(&waiting.condition, &waiting.mutex, clock, &never),
              ETIMEDOUT);
  }
}

TEST(NewerFunctions, ClockwaitWaitsUntilItsTimeIsOver) {
  Waiting waiting;
  timespec end{};
  ::clock_gettime(CLOCK_MONOTONIC, &end);
  end.tv_nsec += 20'000'000;
  end.tv_sec += end.tv_nsec / 1'000'000'000;
  end.tv_nsec %= 1'000'000'000;

  int result = 0;
  while (result == 0) {
    result = ::pthread_cond_clockwait(&waiting.condition, &waiting.mutex, CLOCK_MONOTONIC, &end);
  }

  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  EXPECT_EQ(result, ETIMEDOUT);
  EXPECT_TRUE(now.tv_sec > end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec >= end.tv_nsec));
}

TEST(NewerFunctions, ClockwaitWithTimeLeftDoesNotSayThatItIsOver) {
  Waiting waiting;
  const timespec far = later(CLOCK_MONOTONIC, std::chrono::hours(1));

  EXPECT_EQ(::pthread_cond_clockwait(&waiting.condition, &waiting.mutex, CLOCK_MONOTONIC, &far), 0);
}

TEST(NewerFunctions, ClockwaitIsWokenByAThread) {
  Waiting waiting;
  bool ready = false;
  std::jthread other([&] {
    ::pthread_mutex_lock(&waiting.mutex);
    ready = true;
    ::pthread_cond_signal(&waiting.condition);
    ::pthread_mutex_unlock(&waiting.mutex);
  });
  const timespec far = later(CLOCK_MONOTONIC, std::chrono::hours(1));

  int result = 0;
  while (!ready && result == 0) {
    result = ::pthread_cond_clockwait(&waiting.condition, &waiting.mutex, CLOCK_MONOTONIC, &far);
  }

  EXPECT_EQ(result, 0);
  EXPECT_TRUE(ready);
}

}  // namespace
